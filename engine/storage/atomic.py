"""Files that are either the old one or the new one, whole, whoever is killed and whoever writes beside us."""

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from errno import ENOSPC
from pathlib import Path
from secrets import token_hex

from safetensors import SafetensorError

from fedgrid.engine.errors import RunError

ASIDE = ".writing-"
"""What the name of a file that is not whole yet contains."""


@contextmanager
def aside(*paths: Path) -> Iterator[tuple[Path, ...]]:
    """Give names to write `paths` under, nobody else's; then flush all and put one after the other in place.

    Flushed together, several files cost little more time than one.
    """
    token = f"{ASIDE}{os.getpid()}-{token_hex(4)}"
    temporaries = tuple(path.with_name(path.name + token) for path in paths)
    try:
        yield temporaries
        with ThreadPoolExecutor(len(paths)) as threads:
            for flushed in [threads.submit(flush, temporary) for temporary in temporaries]:
                flushed.result()
        for temporary, path in zip(temporaries, paths, strict=True):
            temporary.replace(path)
    except BaseException:
        for temporary in temporaries:
            temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a small file."""
    with aside(path) as (temporary,):
        temporary.write_text(text)


def flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep(folder: Path) -> None:
    """Delete what killed writers left aside in `folder`."""
    for leftover in folder.glob(f"*{ASIDE}*"):
        leftover.unlink(missing_ok=True)


@contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    """Raise what the disk of `folder` refuses as a RunError in one line."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        number, reason = _reason(error)
        if number == ENOSPC:
            cause = f"the disk of {folder} is full; free some space"
        else:
            cause = f"{folder} cannot be written: {reason}; see to it"
        raise RunError(f"{cause}, then the same command goes on from what is kept") from error


def _reason(error: Exception) -> tuple[int | None, str]:
    # safetensors has the number in its text only.
    found = re.search(r"os error (\d+)", str(error))
    number = int(found[1]) if found else getattr(error, "errno", None)
    return number, os.strerror(number) if number else str(error).splitlines()[0]
