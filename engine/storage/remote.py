"""Files at a URI: pyarrow's file systems, as Ray takes them, and fsspec's for any other scheme."""

import os
import re
from functools import lru_cache
from importlib import import_module
from pathlib import Path, PurePosixPath
from secrets import token_hex
from shutil import copyfileobj

import pyarrow as pa
from pyarrow import fs

from fedgrid.engine.errors import ConfigError
from fedgrid.engine.storage.atomic import ASIDE, aside

BLOCK = 1 << 20
NOT_FOUND = fs.FileType.NotFound
OTHER_FOLDER = "name another folder or URI"


@lru_cache(maxsize=4)
def connect(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a URI, as Ray finds it, or else as fsspec does, and the path in it.

    Raises:
        ConfigError: if there is no such scheme, its package is missing, or the place cannot be reached.
    """
    scheme = uri.partition("://")[0]
    try:
        remote, path = fs.FileSystem.from_uri(uri)
    except pa.ArrowInvalid as error:
        if "Unrecognized filesystem" not in str(error):
            raise ConfigError(f"--storage {shown(uri)}: {one_line(error)}; {OTHER_FOLDER}") from error
        remote, path = _connect_by_fsspec(uri, scheme)
    except (OSError, ImportError, pa.ArrowException) as error:
        raise ConfigError(
            f"--storage {shown(uri)}: cannot be reached ({one_line(error)}); {OTHER_FOLDER}"
        ) from error
    return remote, path.rstrip("/")


def _connect_by_fsspec(uri: str, scheme: str) -> tuple[fs.FileSystem, str]:
    try:
        opened, path = import_module("fsspec").core.url_to_fs(uri, use_listings_cache=False)
    except ImportError as error:
        raise ConfigError(f"--storage {shown(uri)}: {one_line(error)}") from error
    except ValueError as error:
        raise ConfigError(
            f"--storage {shown(uri)}: unknown scheme '{scheme}'; known: s3, gs, hdfs, abfs and fsspec's"
        ) from error
    except Exception as error:
        # Every fsspec package has errors of its own.
        raise ConfigError(
            f"--storage {shown(uri)}: cannot be reached ({one_line(error)}); {OTHER_FOLDER}"
        ) from error
    return fs.PyFileSystem(fs.FSSpecHandler(opened)), str(path)


def listing(remote: fs.FileSystem, base: str, folder: str) -> dict[str, fs.FileInfo]:
    """Return all whole files under a folder, by their path relative to `base`."""
    selector = fs.FileSelector(f"{base}/{folder}".rstrip("/"), allow_not_found=True, recursive=True)
    infos = remote.get_file_info(selector)
    return {
        info.path.removeprefix(f"{base}/"): info
        for info in infos
        if info.type == fs.FileType.File and ASIDE not in info.path
    }


def fetch(remote: fs.FileSystem, info: fs.FileInfo, path: Path) -> None:
    """Fetch a file unless it is here; its time here is its time there, so that neither clock matters."""
    if path.exists() and info.mtime_ns is not None:
        kept = path.stat()
        if (kept.st_size, kept.st_mtime_ns) == (info.size, info.mtime_ns):
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with aside(path) as (temporary,):
            with remote.open_input_stream(info.path) as source, temporary.open("wb") as target:
                copyfileobj(source, target, BLOCK)
            if info.mtime_ns is not None:
                os.utime(temporary, ns=(info.mtime_ns, info.mtime_ns))
    except FileNotFoundError:
        # Deleted since it was listed.
        path.unlink(missing_ok=True)


def send(remote: fs.FileSystem, path: Path, target: str) -> None:
    """Copy a file there."""
    try:
        _upload(remote, path, target)
    except FileNotFoundError:
        # Only some file systems need folders; where they are needed and there, asking costs a round trip.
        remote.create_dir(str(PurePosixPath(target).parent), recursive=True)
        _upload(remote, path, target)


def _upload(remote: fs.FileSystem, path: Path, target: str) -> None:
    with path.open("rb") as source, remote.open_output_stream(target) as sink:
        copyfileobj(source, sink, BLOCK)


def try_to_write(remote: fs.FileSystem, base: str) -> None:
    """Write a small file and delete it, and the folders that it needed."""
    path = PurePosixPath(base)
    folders = [str(folder) for folder in (path, *path.parents) if str(folder) not in (".", "/")]
    missing = []
    for folder in folders:
        if remote.get_file_info(folder).type != NOT_FOUND:
            break
        missing.append(folder)
    name = f"{base}/writable{ASIDE}{token_hex(4)}"
    if missing:
        remote.create_dir(base, recursive=True)
    with remote.open_output_stream(name) as sink:
        sink.write(b"-")
    remote.delete_file(name)
    for folder in missing:
        if not remote.get_file_info(fs.FileSelector(folder)):
            remote.delete_dir(folder)


def shown(uri: str) -> str:
    """Return a URI without the password that it may hold."""
    return re.sub(r"//[^/@]*:[^/@]*@", "//***@", uri)


def one_line(error: Exception) -> str:
    """Return the first line of what a library says."""
    text = str(error) or type(error).__name__
    return text.splitlines()[0]
