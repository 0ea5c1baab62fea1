"""Files that come from elsewhere, as an archive's: none of them leads elsewhere, or never ends.

`open_file` checks the file that it has opened, for its size, too.
"""

import os
import re
import stat
from io import BufferedReader
from pathlib import Path

LARGEST = 1 << 26
"""Bytes of a JSON or text file; read, it takes up to twenty times as many. Those of a run have kilobytes."""
LARGEST_LIST = 1 << 28
"""Bytes of a list of runs, at a kilobyte a run."""
LARGEST_TABLE = 1 << 34
"""Bytes of a table. A million rows of a run's clients have some 150 MB."""
LARGEST_STATE = 1 << 38
"""Bytes of a state, which its server had in memory: four for each parameter of each model."""
DEEPEST = 16
"""Folders below one another. A storage has five, its artifacts of MLflow some more."""


def open_file(path: Path, largest: int = LARGEST) -> BufferedReader:
    """Open a file to read its bytes: no link to another place, no pipe or device that would never end.

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
    """Return the bytes of a file; raises as `open_file`."""
    with open_file(path, largest) as file:
        return file.read()


def check_below(folder: Path, names: re.Pattern[str] | None = None) -> None:
    """Check that a folder, if there is one, has nothing below it but folders and files.

    With `names`, only those entries of the folder itself count whose names match, with what is below them.

    Raises:
        OSError: something below is a link, a pipe or a device, or nested too deeply; names its path.
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
                    if depth == DEEPEST:
                        raise OSError(f"{entry.path} is below {DEEPEST} folders")
                    waiting.append((entry.path, depth + 1))
                elif not entry.is_file(follow_symlinks=False) and os.path.lexists(entry.path):
                    _check_kind(entry.path, os.lstat(entry.path).st_mode)


def _check_kind(name: str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(f"{name} is {'a link' if stat.S_ISLNK(mode) else 'no regular file'}")
