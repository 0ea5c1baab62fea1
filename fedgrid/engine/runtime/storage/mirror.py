"""Files of a storage or its mirror that are still being written or sent."""

from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path
from time import time

from fedgrid.engine.runtime.storage.atomic import PARTIAL

PUSH_SECONDS = 60.0
"""A file younger than this may be one that no upload has reached yet."""


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


def size_of(path: Path) -> int | None:
    """Return a file's size in bytes, None if it is still being written or has just been deleted."""
    try:
        return None if PARTIAL in path.name else path.stat().st_size
    except FileNotFoundError:
        return None


def _lock(root: Path) -> Path:
    root.parent.mkdir(parents=True, exist_ok=True)
    return root.with_name(f"{root.name}.uploading")
