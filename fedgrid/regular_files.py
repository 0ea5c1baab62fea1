"""A storage may come from somebody else: nothing in it may lead elsewhere, or never end.

A command checks all that belongs to a storage once, as it opens it (`check_below`). So each path below that
is made of names leads to a folder or a file of the storage. What is read is checked for its size, too
(`check_regular`).
"""

import os
import re
import stat
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


def check_regular(path: Path, largest: int = LARGEST) -> None:
    """Check that `path` is a file: no link to another place, no pipe or device that would never end.

    Raises:
        FileNotFoundError: there is nothing.
        OSError: it is something else, or larger than `largest` bytes.
    """
    about = os.lstat(path)
    if not stat.S_ISREG(about.st_mode):
        raise OSError(f"{path.name} is {_kind(about.st_mode)}")
    if about.st_size > largest:
        raise OSError(f"{path.name} has {about.st_size:,} bytes")


def read_regular(path: Path, largest: int = LARGEST) -> bytes:
    """Return the bytes of a file.

    Raises:
        FileNotFoundError: there is nothing.
        OSError: it cannot be read, or as `check_regular`.
    """
    check_regular(path, largest)
    return path.read_bytes()


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
                    raise OSError(f"{entry.path} is {_kind(os.lstat(entry.path).st_mode)}")


def _kind(mode: int) -> str:
    return "a link" if stat.S_ISLNK(mode) else "no regular file"
