"""Atomic file replacement, safe against crashes and concurrent writers."""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from errno import EDQUOT, ENOSPC
from os.path import samefile
from pathlib import Path
from secrets import token_hex
from shutil import copyfile
from stat import S_IRWXG, S_ISGID, S_IWGRP
from tempfile import TemporaryFile

from fedgrid.engine.federation.errors import DeniedError, StorageError, is_denied

PARTIAL = ".writing-"
"""Part of the name of every file that is still being written."""
LEFTOVERS = (f"*{PARTIAL}*", ".tmp??????")
"""Patterns of what killed writers leave; the second is safetensors' own temporary file, next to ours."""
ASIDE = "damaged-"
"""Start of the names of folders with files that are damaged, or that nothing reads for another reason."""
ABANDONED_AFTER = 900.0
"""Seconds without a write after which a temporary file is taken for one of a killed writer."""


@contextmanager
def replace_files(*paths: Path, is_flushed: bool = True) -> Iterator[tuple[Path, ...]]:
    """Yield a temporary path for each of `paths`; on exit flush all of them and rename them in that order.

    The temporary names are unique, so that several processes can replace the same file. If the block raises,
    the temporary files are deleted. Flushing several files together takes little longer than flushing one.
    """
    token = f"{PARTIAL}{os.getpid()}-{token_hex(4)}"
    temporaries = tuple(path.with_name(path.name + token) for path in paths)
    try:
        yield temporaries
        # 1. Flush before the rename. Otherwise a power cut could leave the new name with an empty file, since
        # file systems may write the rename first.
        if is_flushed and len(temporaries) == 1:  # Most are: no thread for it.
            flush_to_disk(*temporaries)
        elif is_flushed:
            with ThreadPoolExecutor(len(temporaries)) as threads:
                list(threads.map(flush_to_disk, temporaries))
        # 2. Rename in the given order, so that the file that makes the others count comes last.
        for temporary, path in zip(temporaries, paths, strict=True):
            # As its folder is: safetensors makes files that only their owner can read.
            with suppress(OSError):  # A file system without modes.
                temporary.chmod(path.parent.stat().st_mode & 0o666)
            temporary.replace(path)
    except BaseException:
        for temporary in temporaries:
            temporary.unlink(missing_ok=True)
        raise


def share_with_group(folder: Path) -> None:
    """Let the group read and write what this process creates, if `folder` is a group's own (as mode 2775).

    For a folder that is still to be created, the one that it will lie in says so.
    """
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    mode = existing.stat().st_mode
    if mode & S_ISGID and mode & S_IWGRP:
        # The umask can only be read by setting it: the inner call returns the old one.
        os.umask(os.umask(0o022) & ~(mode & S_IRWXG))


def write_text(path: Path, text: str) -> None:
    """Replace a small file by one with this text."""
    with replace_files(path) as (temporary,):
        temporary.write_bytes(text.encode())


def create_file(path: Path, text: str, mode: int = 0o666, *, flushed: bool = True) -> bool:
    """Create a file with all of its content; return False if there is one of that name, which stays.

    A process that is killed meanwhile leaves no empty file of that name.

    Args:
        path: The new file.
        text: Its content.
        mode: Its permissions, before the umask.
        flushed: Whether it is on the disk before it gets its name.
    """
    temporary = path.with_name(f"{path.name}{PARTIAL}{token_hex(4)}")
    try:
        temporary.touch(mode)
        # A link to the finished file fails if the name is taken, and is atomic on NFS too, where `open("x")`
        # followed by a write could leave an empty file.
        temporary.write_text(text)
        if flushed:
            flush_to_disk(temporary)
        link_file(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def link_file(temporary: Path, path: Path) -> None:
    """Give a finished file another name; write it there on a file system without hard links.

    Raises:
        FileExistsError: there is another file of that name.
    """
    try:
        os.link(temporary, path)
    except OSError as error:
        # A network file system may have made the link although its reply was lost.
        with suppress(OSError):
            if samefile(temporary, path):
                return
        if isinstance(error, FileExistsError):
            raise
        text = temporary.read_bytes()
        with path.open("xb") as file:
            file.write(text)


def unlink_copies(path: Path) -> None:
    """Replace a file that has other hard links by a copy, before it is written in place.

    `cp -al` copies a storage by links: without this the copy would change too.
    """
    if path.exists() and path.stat().st_nlink > 1:
        with replace_files(path) as (temporary,):
            copyfile(path, temporary)


def flush_to_disk(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def delete_partial(folder: Path) -> None:
    """Delete the temporary files that killed writers left in `folder`."""
    for pattern in LEFTOVERS:
        for leftover in folder.glob(pattern):
            leftover.unlink(missing_ok=True)


def set_aside(folder: Path, names: Iterable[str]) -> list[tuple[str, str]]:
    """Move files of `folder` into a new folder in it, `damaged-<number>`; missing files are ignored.

    Returns:
        Pairs of the old and the new name, relative to `folder`.
    """
    existing = [name for name in names if (folder / name).exists()]
    if not existing:
        return []
    numbers = (path.name.removeprefix(ASIDE) for path in folder.glob(f"{ASIDE}*"))
    taken = [int(number) for number in numbers if number.isdecimal()]
    place = f"{ASIDE}{max(taken, default=0) + 1}"
    (folder / place).mkdir()
    for name in existing:
        (folder / name).replace(folder / place / name)
    return [(name, f"{place}/{name}") for name in existing]


def delete_abandoned(root: Path, *folders: str) -> None:
    """Delete temporary files anywhere in `folders` below `root`, except those that may still be written.

    Their age is the difference to a new file's time: both are of the file system, not of this machine.
    """
    with TemporaryFile(dir=root) as new:
        now = os.fstat(new.fileno()).st_mtime
    paths = (root / folder for folder in folders)
    for leftover in [file for path in paths for pattern in LEFTOVERS for file in path.rglob(pattern)]:
        with suppress(OSError):  # It may have been renamed just now.
            if leftover.stat().st_mtime < now - ABANDONED_AFTER:
                leftover.unlink()


class DiskFull(StorageError):
    """The disk is full, or the user's quota used up."""


def is_disk_full(error: Exception) -> bool:
    """Check whether an error of a write says that the disk is full, or the user's quota used up."""
    return getattr(error, "errno", None) in (ENOSPC, EDQUOT)


CONTINUES = "the same command continues from the last stored state"
REPEATS = "the same command starts over"


@contextmanager
def disk_errors(folder: Path, then: str = CONTINUES) -> Iterator[None]:
    """Convert disk errors in the block to a StorageError that names `folder`, the cause and what to do.

    `then` says what the same command does when the cause is gone.

    Raises:
        DeniedError: the folder may not be written.
        DiskFull: the disk is full, or the user's quota used up.
        StorageError: any other disk error.
    """
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error).splitlines()[0]
        if is_denied(error):
            raise DeniedError(
                f"{folder} cannot be written: {reason}; make it writable, then {then}, or name another folder"
            ) from error
        if error.errno == ENOSPC:
            cause = f"the disk of {folder} is full; free some space"
        else:
            cause = f"{folder} cannot be written: {reason}; fix that"
        kind = DiskFull if is_disk_full(error) else StorageError
        raise kind(f"{cause}, then {then}") from error
