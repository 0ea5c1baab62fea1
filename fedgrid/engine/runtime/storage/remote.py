"""Files at a URI: pyarrow's file systems, as in Ray, and fsspec for every other scheme."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path, PurePosixPath
from shutil import copyfileobj

import pyarrow as pa
from pyarrow import fs

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.atomic import PARTIAL, replace_files

BLOCK = 1 << 20
"""Bytes that are copied at a time: files may be larger than the memory."""


@lru_cache(maxsize=4)
def open_file_system(uri: str) -> tuple[fs.FileSystem, str]:
    """Open the file system of a URI, and find the path in it; pyarrow is tried first, then fsspec.

    Raises:
        ConfigError: the scheme is unknown, its package is missing, or the URI cannot be reached.
    """
    try:
        try:
            remote, path = fs.FileSystem.from_uri(uri)
        except pa.ArrowInvalid as error:
            if "Unrecognized filesystem" not in str(error):
                raise
            # Without fsspec's cache of listings: other machines add and delete files all the time.
            opened, path = import_module("fsspec").core.url_to_fs(uri, use_listings_cache=False)
            remote = fs.PyFileSystem(fs.FSSpecHandler(opened))
    except Exception as error:
        # Each fsspec package defines its own errors.
        raise ConfigError(
            f"--storage {uri}: cannot be reached ({first_line(error)}); name another folder or URI"
        ) from error
    return remote, str(path).rstrip("/")


@dataclass(frozen=True)
class Remote:
    """The files at a URI, by name: relative to the URI, with slashes.

    Methods raise OSError or `pyarrow.ArrowException` if it cannot be read or written, and ConfigError as
    `open_file_system`.
    """

    uri: str

    def list_files(self, folder: str) -> dict[str, fs.FileInfo]:
        """List all complete files under a folder."""
        files, base = open_file_system(self.uri)
        selector = fs.FileSelector(f"{base}/{folder}".rstrip("/"), allow_not_found=True, recursive=True)
        return {
            info.path.removeprefix(f"{base}/"): info
            for info in files.get_file_info(selector)
            if info.type == fs.FileType.File and PARTIAL not in info.path
        }

    def find_files(self, names: Sequence[str]) -> dict[str, fs.FileInfo]:
        """Find which of some files and folders exist."""
        files, base = open_file_system(self.uri)
        infos = files.get_file_info([f"{base}/{name}" for name in names])
        pairs = zip(names, infos, strict=True)
        return {name: info for name, info in pairs if info.type != fs.FileType.NotFound}

    def read(self, name: str) -> bytes | None:
        """Read the bytes of a file, None if there is none."""
        files, base = open_file_system(self.uri)
        try:
            return bytes(files.open_input_stream(f"{base}/{name}").read())
        except FileNotFoundError:
            return None

    def fetch(self, info: fs.FileInfo, path: Path) -> None:
        """Copy a file to `path`, unless `path` has the same size and modification time.

        The copy gets the modification time of the original, so the clocks of the two machines need not agree.
        """
        if path.exists() and info.mtime_ns is not None:
            stored = path.stat()
            if (stored.st_size, stored.st_mtime_ns) == (info.size, info.mtime_ns):
                return
        files, _ = open_file_system(self.uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with replace_files(path) as (temporary,):
                with files.open_input_stream(info.path) as source, temporary.open("wb") as target:
                    copyfileobj(source, target, BLOCK)
                if info.mtime_ns is not None:
                    os.utime(temporary, ns=(info.mtime_ns, info.mtime_ns))
        except FileNotFoundError:
            # The file was deleted after it was listed.
            path.unlink(missing_ok=True)

    def send(self, path: Path, name: str) -> None:
        """Copy the file `path` to `name`; create the folder if needed."""
        files, base = open_file_system(self.uri)
        target = f"{base}/{name}"
        try:
            _upload(files, path, target)
        except FileNotFoundError:
            # Most file systems need no folder, or have it already; checking first would cost a round trip.
            files.create_dir(str(PurePosixPath(target).parent), recursive=True)
            _upload(files, path, target)

    def delete(self, names: Sequence[str]) -> None:
        """Delete files, and folders with their content; missing ones are ignored."""
        files, _ = open_file_system(self.uri)
        for info in self.find_files(names).values():
            if info.type == fs.FileType.Directory:
                files.delete_dir(info.path)
            else:
                files.delete_file(info.path)


def _upload(files: fs.FileSystem, path: Path, target: str) -> None:
    """Copy a file to a path of a remote file system."""
    with path.open("rb") as source, files.open_output_stream(target) as sink:
        copyfileobj(source, sink, BLOCK)


def first_line(error: Exception) -> str:
    """Extract the first line of a library's error message."""
    text = str(error) or type(error).__name__
    return text.splitlines()[0]
