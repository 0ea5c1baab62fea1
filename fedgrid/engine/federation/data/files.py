"""Checks of files of data, before and after they are read."""

import os
from pathlib import Path

from fedgrid.engine.federation.errors import DataError


def check_memory(source: Path | str, num_bytes: int) -> None:
    """Check that data of this many bytes can be held by this machine, before any of them are read.

    `source` is what messages call them.

    Raises:
        DataError: they take more than its memory.
    """
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if num_bytes > memory:
        raise DataError(
            f"{source}: its data take {num_bytes / 1e9:.1f} GB, and this machine has {memory / 1e9:.1f} GB "
            "of memory; take fewer examples or smaller ones"
        )


def check_is_file(path: Path, expected: str) -> None:
    """Check that something that exists is a file: reading a pipe or a device may never end.

    Raises:
        DataError: it is not.
    """
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is not a file; expected {expected} there")


def damaged(file: Path, reason: str) -> DataError:
    """Return the error for a damaged file."""
    return DataError(f"{file} is damaged or incomplete: {reason}; delete it, and copy or download it again")
