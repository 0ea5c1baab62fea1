"""Storage of runs and grids: a folder, or a URI (s3, gs, hdfs, fsspec's) with a local mirror."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from math import inf
from pathlib import Path
from tempfile import TemporaryFile
from time import time
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from fedgrid.engine.errors import ConfigError, RunError
from fedgrid.engine.storage.atomic import PARTIAL
from fedgrid.engine.storage.remote import (
    NOT_FOUND,
    connect,
    fetch,
    listing,
    one_line,
    send,
    shown,
    try_to_write,
)

MARKS = re.compile(
    r"[^/]+/(done|failed|scores|mlflow|config|made_with)\.json|[^/]+/state-\d+\.sha256|grids/[^/]+/[^/]+|lease\.json"
)
"""Small files with the progress of runs and grids, without their records."""
PUSH_SECONDS = 60.0
"""A mark younger than this may be missing at the URI because another process is still pushing it."""
CONNECTIONS = 16
"""Files fetched at the same time."""


@dataclass(frozen=True)
class Storage:
    """A folder of runs and grids. Names of files are relative to `root`, with slashes.

    With a URI, `root` is a mirror of it: new files are pushed, files of other machines are pulled. Object
    stores replace files atomically. On other file systems a process that is killed during a push may leave
    a truncated file.
    """

    root: Path
    uri: str | None = None

    @classmethod
    def of(cls, text: str | Path) -> "Storage":
        """Return the storage for a path or a URI, SCHEME://PLACE.

        Raises:
            ConfigError: a `file://` URI names another host.
        """
        if "://" not in str(text):
            return cls(Path(text).expanduser().absolute())
        parts = urlsplit(str(text))
        if parts.scheme == "file":
            if parts.netloc not in ("", "localhost"):
                raise ConfigError(f"--storage {text}: a file is on this host; write file:///PATH, or PATH")
            return cls(Path(unquote(parts.path)).absolute())
        uri = str(text).rstrip("/")
        return cls(cache_folder() / "storage" / sha256(uri.encode()).hexdigest()[:16], uri)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the path or URI: another machine has another user and cache folder for the mirror."""
        return Storage.of, (self.uri or str(self.root),)

    def __str__(self) -> str:
        return shown(self.uri) if self.uri else str(self.root)

    def push(self, *names: str) -> None:
        """Copy files to the URI, in the given order; a file that marks the others as valid comes last.

        Raises:
            RunError: the URI cannot be written.
        """
        if self.uri:
            with self._connected("written") as (remote, base):
                for name in names:
                    send(remote, self.root / name, f"{base}/{name}")

    def remove(self, *names: str) -> None:
        """Delete files at the URI, not in the mirror; missing files are ignored.

        Raises:
            RunError: the URI cannot be written.
        """
        if self.uri:
            with self._connected("written") as (remote, base):
                for info in remote.get_file_info([f"{base}/{name}" for name in names]):
                    if info.type != NOT_FOUND:
                        remote.delete_file(info.path)

    def remove_folder(self, name: str) -> None:
        """Delete a folder at the URI with its content, not in the mirror.

        Raises:
            RunError: the URI cannot be written.
        """
        if self.uri:
            with self._connected("written") as (remote, base):
                if remote.get_file_info(f"{base}/{name}").type != NOT_FOUND:
                    remote.delete_dir(f"{base}/{name}")

    def refresh(self, *names: str) -> None:
        """Fetch these files from the URI; delete those in the mirror that are missing there.

        Raises:
            RunError: the URI cannot be read.
        """
        if self.uri:
            with self._connected("read") as (remote, base):
                infos = remote.get_file_info([f"{base}/{name}" for name in names])
                there = {
                    name: info for name, info in zip(names, infos, strict=True) if info.type != NOT_FOUND
                }
                self._mirror(remote, there, names)

    def pull(self, folder: str, skip: tuple[str, ...] = ()) -> None:
        """Make a folder equal to that at the URI: fetch files that differ, delete those missing there.

        Names that start with one of `skip`, such as `figures/`, are left alone.

        Raises:
            RunError: the URI cannot be read.
        """
        if self.uri:
            with self._connected("read") as (remote, base):
                skipped = tuple(f"{folder}/{start}" for start in skip)
                listed = listing(remote, base, folder).items()
                there = {name: info for name, info in listed if not name.startswith(skipped)}
                here = [name for name in self._files(folder) if not name.startswith(skipped)]
                self._mirror(remote, there, here)

    def read(self, name: str, size: int | None = None) -> bytes | None:
        """Return a file's bytes, or the first `size` of them; None if it is missing. Bypasses the mirror.

        Raises:
            OSError, RunError: the file cannot be read.
        """
        with suppress(FileNotFoundError):
            if not self.uri:
                with (self.root / name).open("rb") as file:
                    return file.read(size)
            with self._connected("read") as (remote, base), suppress(FileNotFoundError):
                return bytes(remote.open_input_stream(f"{base}/{name}").read(size))
        return None

    def sizes(self, folder: str) -> Mapping[str, int]:
        """Return the sizes in bytes of all complete files under a folder, at the URI if there is one.

        Raises:
            RunError: the URI cannot be read.
        """
        if self.uri:
            with self._connected("read") as (remote, base):
                return {name: info.size for name, info in listing(remote, base, folder).items()}
        return {name: size for name in self._files(folder) if (size := _size(self.root / name)) is not None}

    def pull_marks(self) -> None:
        """Pull the small files with the progress of each run and grid.

        Raises:
            RunError: the URI cannot be read.
        """
        if self.uri:
            with self._connected("read") as (remote, base):
                every = listing(remote, base, "")
                there = {name: info for name, info in every.items() if MARKS.fullmatch(name)}
                before = time() - PUSH_SECONDS
                paths = chain(self.root.glob("*"), self.root.glob("*/*"), self.root.glob("grids/*/*"))
                marks = [path for path in paths if MARKS.fullmatch(self._name(path))]
                here = [self._name(path) for path in marks if _time(path) < before]
                self._mirror(remote, there, here)

    def check_writable(self) -> None:
        """Check that the storage can be written, without leaving a file.

        Raises:
            ConfigError: it cannot; with the cause.
        """
        try:
            nearest = next(path for path in (self.root, *self.root.parents) if path.exists())
            with TemporaryFile(dir=nearest):
                pass
            if self.uri:
                try_to_write(*connect(self.uri))
        except (OSError, pa.ArrowException) as error:
            cause = error.strerror if isinstance(error, OSError) and error.strerror else one_line(error)
            raise ConfigError(
                f"--storage {self} cannot be written to: {cause}; name another folder or URI"
            ) from error

    @contextmanager
    def _connected(self, what: str) -> Iterator[tuple[fs.FileSystem, str]]:
        assert self.uri is not None
        connection = connect(self.uri)
        try:
            yield connection
        except (OSError, pa.ArrowException) as error:
            raise RunError(
                f"{self} cannot be {what} ({one_line(error)}); run the same command again to continue"
            ) from error

    def _files(self, folder: str) -> list[str]:
        paths = (self.root / folder).rglob("*")
        return [self._name(path) for path in paths if path.is_file()]

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _mirror(self, remote: fs.FileSystem, there: Mapping[str, fs.FileInfo], here: Sequence[str]) -> None:
        for name in here:
            if name not in there:
                (self.root / name).unlink(missing_ok=True)
        with ThreadPoolExecutor(CONNECTIONS) as threads:
            fetched = [threads.submit(fetch, remote, info, self.root / name) for name, info in there.items()]
        for result in fetched:
            result.result()


def cache_folder() -> Path:
    """Return FEDGRID_CACHE, or fedgrid in the user's cache folder."""
    if given := os.environ.get("FEDGRID_CACHE"):
        return Path(given).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "fedgrid"


def _time(path: Path) -> float:
    """Return a file's modification time; infinity if it has just been deleted, so that it counts as new."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return inf


def _size(path: Path) -> int | None:
    """Return a file's size in bytes, None if it is still being written or has just been deleted."""
    try:
        return None if PARTIAL in path.name else path.stat().st_size
    except FileNotFoundError:
        return None
