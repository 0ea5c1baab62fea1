"""Files at a URI: pyarrow's file systems, as in Ray, and fsspec for every other scheme; and of its mirror."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from functools import lru_cache
from importlib import import_module
from pathlib import Path, PurePosixPath
from shutil import copyfileobj
from time import time

import pyarrow as pa
from pyarrow import fs

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.atomic import PARTIAL, replacing

BLOCK = 1 << 20
PUSH_SECONDS = 60.0
"""An upload may not have reached a file of the mirror that is younger."""
NOT_FOUND = fs.FileType.NotFound


@lru_cache(maxsize=4)
def connect(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a URI and the path in it; pyarrow is tried first, then fsspec.

    Raises:
        ConfigError: the scheme is unknown, its package is missing, or the URI cannot be reached.
    """
    try:
        try:
            remote, path = fs.FileSystem.from_uri(uri)
        except pa.ArrowInvalid as error:
            if "Unrecognized filesystem" not in str(error):
                raise
            opened, path = import_module("fsspec").core.url_to_fs(uri, use_listings_cache=False)
            remote = fs.PyFileSystem(fs.FSSpecHandler(opened))
    except Exception as error:
        # Each fsspec package defines its own errors.
        raise ConfigError(
            f"--storage {uri}: cannot be reached ({one_line(error)}); name another folder or URI"
        ) from error
    return remote, str(path).rstrip("/")


def listing(remote: fs.FileSystem, base: str, folder: str) -> dict[str, fs.FileInfo]:
    """Return all complete files under a folder, by their path relative to `base`."""
    selector = fs.FileSelector(f"{base}/{folder}".rstrip("/"), allow_not_found=True, recursive=True)
    infos = remote.get_file_info(selector)
    return {
        info.path.removeprefix(f"{base}/"): info
        for info in infos
        if info.type == fs.FileType.File and PARTIAL not in info.path
    }


def fetch(remote: fs.FileSystem, info: fs.FileInfo, path: Path) -> None:
    """Copy a file from the URI to `path`, unless `path` has the same size and modification time.

    The copy gets the modification time of the original, so the clocks of the two machines need not agree.
    """
    if path.exists() and info.mtime_ns is not None:
        stored = path.stat()
        if (stored.st_size, stored.st_mtime_ns) == (info.size, info.mtime_ns):
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with replacing(path) as (temporary,):
            with remote.open_input_stream(info.path) as source, temporary.open("wb") as target:
                copyfileobj(source, target, BLOCK)
            if info.mtime_ns is not None:
                os.utime(temporary, ns=(info.mtime_ns, info.mtime_ns))
    except FileNotFoundError:
        # The file was deleted after it was listed.
        path.unlink(missing_ok=True)


def read_bytes(remote: fs.FileSystem, path: str) -> bytes | None:
    """Return the bytes of a file, None if there is none."""
    try:
        return bytes(remote.open_input_stream(path).read())
    except FileNotFoundError:
        return None


def send(remote: fs.FileSystem, path: Path, target: str) -> None:
    """Copy the file `path` to `target`, which includes its name; create the folder if needed."""
    try:
        _upload(remote, path, target)
    except FileNotFoundError:
        # Most file systems need no folder, or have it already; checking first would cost a round trip.
        remote.create_dir(str(PurePosixPath(target).parent), recursive=True)
        _upload(remote, path, target)


def _upload(remote: fs.FileSystem, path: Path, target: str) -> None:
    with path.open("rb") as source, remote.open_output_stream(target) as sink:
        copyfileobj(source, sink, BLOCK)


def one_line(error: Exception) -> str:
    """Return the first line of a library's error message."""
    text = str(error) or type(error).__name__
    return text.splitlines()[0]


@contextmanager
def uploading(root: Path) -> Iterator[None]:
    """Tell this machine's other processes that files of the mirror `root` are being sent in the block."""
    # NFS gives a shared lock only on a file that is open for reading, and an exclusive one for writing.
    with _lock(root).open("a+") as file:
        flock(file, LOCK_SH)
        yield


def is_deletable(root: Path, path: Path) -> bool:
    """Return whether a file of the mirror `root` that is missing at the URI has been deleted there."""
    try:
        if path.stat().st_mtime >= time() - PUSH_SECONDS:
            return False
        with _lock(root).open("a+") as file:
            flock(file, LOCK_EX | LOCK_NB)
    except (FileNotFoundError, BlockingIOError):
        return False
    return True


def facts_of(path: Path) -> tuple[int, int] | None:
    """Return a file's size in bytes, and the time of its last change in nanoseconds.

    None if it is still being written or has just been deleted.
    """
    try:
        about = path.stat()
        return None if PARTIAL in path.name else (about.st_size, about.st_mtime_ns)
    except FileNotFoundError:
        return None


def _lock(root: Path) -> Path:
    root.parent.mkdir(parents=True, exist_ok=True)
    return root.with_name(f"{root.name}.uploading")
