"""A storage may come from somebody else: only regular files of a sensible size are read in it."""

import os
import stat
from pathlib import Path

LARGEST = 1 << 30
"""Bytes. The records of a run have megabytes."""


def check_regular(path: Path, largest: int = LARGEST) -> None:
    """Check that `path` is a file: no link to another place, no pipe or device that would never end.

    Raises:
        FileNotFoundError: there is nothing.
        OSError: it is something else, or larger than `largest` bytes.
    """
    about = os.lstat(path)
    if not stat.S_ISREG(about.st_mode):
        raise OSError(f"{path.name} is {'a link' if stat.S_ISLNK(about.st_mode) else 'no regular file'}")
    if about.st_size > largest:
        raise OSError(f"{path.name} has {about.st_size:,} bytes")
