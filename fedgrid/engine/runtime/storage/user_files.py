"""Paths as a user gives them, and the user's cache, which stores what takes long to compute.

Losing it costs time alone. No other user writes there, and it serves storages that cannot be written too.
"""

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedgrid.engine.federation.errors import ConfigError, FedgridError
from fedgrid.engine.runtime.storage.atomic import write_text
from fedgrid.engine.runtime.storage.format import unseal_file
from fedgrid.sealed_json import seal_values

VARIABLE = re.compile(r"\$\{?(\w+)")


def expand_path(given: str | Path, what: str) -> Path:
    """Expand `~`, `$HOME` and other variables in a path.

    It may stay relative, and nothing need exist there; `what` it is begins the message.

    Raises:
        ConfigError: it is empty or an address, or has a variable that is not set.
    """
    text = str(given)
    if not text.strip():
        raise ConfigError(f"{what} is empty; name a place, or leave it out")
    if "://" in text:
        raise ConfigError(f"{what} {text}: expected a path on this machine, and this is an address")
    # A file may have a $ in its name.
    if "$" in text and not os.path.exists(text):
        text = os.path.expandvars(text)
        if unset := VARIABLE.search(text):
            raise ConfigError(f"{what} {given}: the variable {unset[1]} is not set")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{what} {given}: {error}; name another path") from error


def make_absolute(given: str | Path, what: str) -> Path:
    """Make a path absolute that need not exist, after `expand_path`.

    Raises:
        ConfigError: as `expand_path`, and if there can be nothing of that name.
    """
    try:
        path = expand_path(given, what).absolute()
        # Raises OSError for a name that is too long for a file.
        path.exists()
        str(path).encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{what} {given}: {path} is not UTF-8, as names must be; rename it") from error
    except ConfigError:
        raise
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{what} {str(given)[:100]}: {cause}; name another path") from error
    return path


def check_output(path: Path, what: str, *, is_folder: bool = False) -> None:
    """Check, before the work, that a file or folder can be written; folders on the way to it are made.

    Raises:
        ConfigError: it cannot, as far as that is visible without a write.
    """
    other = "a file" if is_folder else "a folder"
    if path.exists() and path.is_dir() != is_folder:
        raise ConfigError(f"{what} {path} is {other}; name {'a folder' if is_folder else 'a file'}")
    nearest = next(place for place in (path, *path.absolute().parents) if place.exists())
    if nearest != path and not nearest.is_dir():
        raise ConfigError(f"{what} {path}: {nearest} is a file; name another place")
    if not os.access(nearest, os.W_OK):
        raise ConfigError(f"{what} {path}: {nearest} cannot be written to; name another place")


def find_user_cache(instead: str) -> Path:
    """Find fedgrid's folder in the user's cache.

    Raises:
        ConfigError: the user has no home folder; the variable to set `instead` is named.
    """
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "fedgrid"
    except RuntimeError as error:
        raise ConfigError(f"there is no home folder for fedgrid's cache; set HOME or {instead}") from error


def find_cache_folder() -> Path:
    """Find the folder of FEDGRID_CACHE, or fedgrid's folder in the user's cache.

    Raises:
        ConfigError: the user has no home folder, or there can be no such folder.
    """
    if given := os.environ.get("FEDGRID_CACHE"):
        return make_absolute(given, "FEDGRID_CACHE")
    return find_user_cache(instead="FEDGRID_CACHE")


IMAGES = "images"
"""The kind of stored digests of data sets."""
FILES = "files"
"""Key of the fingerprint of the files that a stored digest is of."""
DIGEST = "digest"
"""Key of a stored digest."""


def fingerprint_files(paths: Iterable[Path]) -> str:
    """Compute a digest of names, sizes, times and inodes of files; their content is not read."""
    digest = sha256()
    for path in paths:
        try:
            about = path.stat()
            # The time of the last change (`ctime`) too: `cp -p` and archives restore the modification time of
            # other bytes.
            line = f"{path} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns} {about.st_ino}\n"
        except FileNotFoundError:
            line = f"{path} missing\n"
        digest.update(os.fsencode(line))
    return digest.hexdigest()


def load_stored_digest(what: str, files: str) -> str | None:
    """Look up the stored digest of `what`, None if there is none for files of this fingerprint."""
    values = load_values(IMAGES, what)
    return str(values[DIGEST]) if values.get(FILES) == files and DIGEST in values else None


def store_digest(what: str, files: str, digest: str) -> None:
    """Store a digest of `what` for files of this fingerprint."""
    store_values(IMAGES, what, {FILES: files, DIGEST: digest})


def load_values(kind: str, what: str) -> dict[str, Any]:
    """Look up what was stored about `what`, which is of a kind; empty if nothing can be read."""
    with suppress(OSError, FedgridError):
        return unseal_file(_find_place(kind, what))
    return {}


def store_values(kind: str, what: str, values: Mapping[str, Any]) -> bool:
    """Store values about `what`, and return whether that was possible."""
    with suppress(OSError, FedgridError):
        place = _find_place(kind, what)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_text(place, seal_values(values))
        return True
    return False


def _find_place(kind: str, what: str) -> Path:
    """Find the file in which something is stored; by a digest, since names may be paths."""
    return find_cache_folder() / kind / f"{sha256(os.fsencode(what)).hexdigest()[:16]}.json"
