"""Files that come from elsewhere, such as an archive's: regular files only, no links, pipes or devices.

`open_file` checks the file that it has opened, its size included, so that nothing can replace it in between.
"""

import os
import re
import stat
from io import BufferedReader
from pathlib import Path

LARGEST = 1 << 26
"""Largest JSON or text file in bytes; read, it takes up to twenty times as much. Those of a run have
kilobytes."""
LARGEST_LIST = 1 << 28
"""Largest list of runs in bytes, at a kilobyte a run."""
LARGEST_TABLE = 1 << 34
"""Largest table in bytes. A million rows of a run's clients have some 150 MB."""
LARGEST_STATE = 1 << 38
"""Largest state in bytes, which its server had in memory: four for each parameter of each model."""
DEEPEST_FOLDER = 16
"""Most levels of folders. A storage has five, its artifacts of MLflow some more."""


def open_file(path: Path, largest: int = LARGEST) -> BufferedReader:
    """Open a regular file to read its bytes.

    A link to another place, and a pipe or device that would never end, are refused.

    Raises:
        FileNotFoundError: there is nothing.
        OSError: the system does not open it; or, without a number, it is something else, or has more than
            `largest` bytes.
    """
    try:
        # A pipe is not waited for.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        _check_kind(path.name, os.lstat(path).st_mode)
        raise
    # Of the open file: the path may lead to another one by now.
    about = os.fstat(handle)
    try:
        _check_kind(path.name, about.st_mode)
        if about.st_size > largest:
            raise OSError(f"{path.name} has {about.st_size:,} bytes")
    except OSError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def read_file(path: Path, largest: int = LARGEST) -> bytes:
    """Read the bytes of a regular file; raises as `open_file`."""
    with open_file(path, largest) as file:
        return file.read()


def check_folder(folder: Path, names: re.Pattern[str] | None = None) -> None:
    """Check that a folder, if there is one, contains only folders and regular files, at any depth.

    Args:
        folder: the folder.
        names: pattern of the entries of the folder itself that count, with everything below them; None: all.

    Raises:
        OSError: an entry is a link, a pipe or a device, or nested too deeply; names its path.
    """
    waiting = [(os.fspath(folder), 0)]
    while waiting:
        place, depth = waiting.pop()
        try:
            entries = os.scandir(place)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue  # Gone or replaced meanwhile; and what may not be listed cannot be reached either.
        with entries:
            for entry in entries:
                if depth == 0 and names is not None and not names.fullmatch(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if depth == DEEPEST_FOLDER:
                        raise OSError(f"{entry.path} is below {DEEPEST_FOLDER} folders")
                    waiting.append((entry.path, depth + 1))
                elif not entry.is_file(follow_symlinks=False) and os.path.lexists(entry.path):
                    _check_kind(entry.path, os.lstat(entry.path).st_mode)


def _check_kind(name: str, mode: int) -> None:
    """Check that a mode is that of a regular file.

    Raises:
        OSError: it is a link or something else.
    """
    if not stat.S_ISREG(mode):
        raise OSError(f"{name} is {'a link' if stat.S_ISLNK(mode) else 'no regular file'}")
