"""The folders of a storage: the one that the user names, and the one for mirrors of URIs."""

import os
from pathlib import Path

from fedgrid.engine.errors import ConfigError


def folder_at(path: Path) -> Path:
    """Return the absolute path of a folder that the user named, which need not exist.

    Raises:
        ConfigError: there can be none of that name.
    """
    try:
        found = path.expanduser().absolute()
        found.exists()
    except (OSError, RuntimeError, ValueError) as error:
        cause = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"--storage {str(path)[:100]}: {cause}; name another folder or URI") from error
    return found


def cache_folder() -> Path:
    """Return FEDGRID_CACHE, or fedgrid in the user's cache folder.

    Raises:
        ConfigError: the user has no home folder.
    """
    if given := os.environ.get("FEDGRID_CACHE"):
        return Path(given).expanduser().absolute()
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "fedgrid"
    except RuntimeError as error:
        raise ConfigError("there is no home folder for a mirror; set HOME or FEDGRID_CACHE") from error
