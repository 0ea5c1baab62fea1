"""Paths as a user gives them, and the folder of the user's cache."""

import os
from pathlib import Path

from fedgrid.engine.federation.errors import ConfigError

SHOWN = 100
"""Characters of a path in a message."""


def absolute(given: str | Path, what: str) -> Path:
    """Return the absolute path of something that need not exist; `what` it is begins the message.

    Raises:
        ConfigError: there can be nothing of that name.
    """
    try:
        path = Path(given).expanduser().absolute()
        path.exists()
    except (OSError, RuntimeError, ValueError) as error:
        cause = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{what} {str(given)[:SHOWN]}: {cause}; name another path") from error
    return path


def cache(instead: str) -> Path:
    """Return fedgrid's folder in the user's cache.

    Raises:
        ConfigError: the user has no home folder; the variable to set `instead` is named.
    """
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "fedgrid"
    except RuntimeError as error:
        raise ConfigError(f"there is no home folder for fedgrid's cache; set HOME or {instead}") from error


def cache_folder() -> Path:
    """Return FEDGRID_CACHE, or fedgrid's folder in the user's cache.

    Raises:
        ConfigError: the user has no home folder.
    """
    if given := os.environ.get("FEDGRID_CACHE"):
        return Path(given).expanduser().absolute()
    return cache(instead="FEDGRID_CACHE")
