"""Paths as a user gives them, and the user's cache, which remembers what takes long to find out.

Losing that costs time alone. Nobody else writes there, and a storage that cannot be written is served as
well. To read all files of thousands of runs takes seconds: which finished runs had no damage is remembered by
sizes, times and inodes of their files. If that is lost or damaged, everything is checked again.
"""

import os
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from fedgrid.engine.federation.errors import ConfigError, FedgridError
from fedgrid.engine.runtime.storage.atomic import write_text
from fedgrid.engine.runtime.storage.format import unseal
from fedgrid.sealed_json import seal

VARIABLE = re.compile(r"\$\{?(\w+)")


def expand_path(given: str | Path, what: str) -> Path:
    """Return a path as it is meant, with `~`, `$HOME` and other variables in place.

    It may stay relative, and nothing need be there; `what` it is begins the message.

    Raises:
        ConfigError: it is empty or an address, or has a variable that is not set.
    """
    text = str(given)
    if not text.strip():
        raise ConfigError(f"{what} is empty; name a place, or leave it out")
    if "://" in text:
        raise ConfigError(f"{what} {text}: expected a path on this machine, and this is an address")
    if "$" in text and not os.path.exists(text):
        text = os.path.expandvars(text)
        if unset := VARIABLE.search(text):
            raise ConfigError(f"{what} {given}: the variable {unset[1]} is not set")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{what} {given}: {error}; name another path") from error


def absolute(given: str | Path, what: str) -> Path:
    """Return the absolute path of something that need not exist, as of `expand_path`.

    Raises:
        ConfigError: as `expand_path`, and if there can be nothing of that name.
    """
    try:
        path = expand_path(given, what).absolute()
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
        ConfigError: it cannot, as far as that is known without a write.
    """
    other = "a file" if is_folder else "a folder"
    if path.exists() and path.is_dir() != is_folder:
        raise ConfigError(f"{what} {path} is {other}; name {'a folder' if is_folder else 'a file'}")
    nearest = next(place for place in (path, *path.absolute().parents) if place.exists())
    if nearest != path and not nearest.is_dir():
        raise ConfigError(f"{what} {path}: {nearest} is a file; name another place")
    if not os.access(nearest, os.W_OK):
        raise ConfigError(f"{what} {path}: {nearest} cannot be written to; name another place")


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
        ConfigError: the user has no home folder, or there can be no such folder.
    """
    if given := os.environ.get("FEDGRID_CACHE"):
        return absolute(given, "FEDGRID_CACHE")
    return cache(instead="FEDGRID_CACHE")


IMAGES, FILES, DIGEST, CHECKED = "images", "files", "digest", "checked"


def fingerprint(paths: Iterable[Path]) -> str:
    """Return a digest of names, sizes, times and inodes of files; their content is not read."""
    digest = sha256()
    for path in paths:
        try:
            about = path.stat()
            line = f"{path} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns} {about.st_ino}\n"
        except FileNotFoundError:
            line = f"{path} missing\n"
        digest.update(os.fsencode(line))
    return digest.hexdigest()


def recall_digest(what: str, files: str) -> str | None:
    """Return the digest of `what` for files of this fingerprint; None if none is remembered."""
    values = recall(IMAGES, what)
    return str(values[DIGEST]) if values.get(FILES) == files and DIGEST in values else None


def remember_digest(what: str, files: str, digest: str) -> None:
    """Remember a digest for files of this fingerprint."""
    remember(IMAGES, what, {FILES: files, DIGEST: digest})


def recall(kind: str, what: str) -> dict[str, Any]:
    """Return what was remembered of `what`, which is of a kind; empty if nothing can be read."""
    with suppress(OSError, FedgridError):
        return unseal(_place(kind, what))
    return {}


def remember(kind: str, what: str, values: Mapping[str, Any]) -> bool:
    """Remember values, and return whether that was possible."""
    with suppress(OSError, FedgridError):
        place = _place(kind, what)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_text(place, seal(values))
        return True
    return False


def _place(kind: str, what: str) -> Path:
    return cache_folder() / kind / f"{sha256(os.fsencode(what)).hexdigest()[:16]}.json"


SETTLED = 2.0
"""Age in seconds from which a file's times tell a later change: clocks of file systems tick slowly."""
Stat: TypeAlias = tuple[int, ...]
"""Size, time of the last change of content and of anything (ns), and inode; empty if there is no file."""


class Checked:
    """What is remembered of one storage."""

    def __init__(self, root: Path) -> None:
        """Read what is remembered of the storage at `root`; nothing if it cannot be read."""
        self._root = str(root.absolute())
        runs = recall(CHECKED, self._root).get("runs")
        self._runs: dict[str, list[Any]] = runs if isinstance(runs, dict) else {}
        """Folder -> digest of what tells a change of its files, then numbers read from them, if any."""
        self._is_new = False

    def has(self, name: str, files: Iterable[Stat]) -> bool:
        """Return whether the run in the folder `name` was undamaged when it had these files."""
        return bool(self._runs.get(name, [None])[0] == _digest(files))

    def add(self, name: str, files: tuple[Stat, ...]) -> None:
        """Remember that the run in the folder `name` is undamaged, unless a file may be changing just now."""
        newest = max((moment for file in files for moment in file[1:3]), default=0)
        if newest < (time.time() - SETTLED) * 1e9:
            self._runs[name] = [_digest(files)]
            self._is_new = True

    def numbers(self, name: str, files: Iterable[Stat]) -> list[Any]:
        """Return what `note` was given for a run that has these files, nothing if that is not known."""
        return self._runs[name][1:] if self.has(name, files) else []

    def note(self, name: str, files: Iterable[Stat], numbers: Iterable[float | None]) -> None:
        """Remember numbers that were read from the files of an undamaged run."""
        if self.has(name, files):
            self._runs[name][1:] = numbers
            self._is_new = True

    def save(self) -> None:
        """Write what is new, where that is possible."""
        if self._is_new:
            self._is_new = not remember(CHECKED, self._root, {"runs": self._runs})


def _digest(files: Iterable[Stat]) -> str:
    return sha256(repr(tuple(files)).encode()).hexdigest()[:32]
