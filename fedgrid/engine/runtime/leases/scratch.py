"""Folders for temporary files; what a killed process left is deleted by the next that makes such a folder."""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from fedgrid.engine.runtime.leases.held_file import read_holder
from fedgrid.engine.runtime.leases.processes import has_ended, identify_process
from fedgrid.engine.runtime.storage.atomic import ABANDONED_AFTER, PARTIAL, write_text

PREFIX = "fedgrid-"
HOLDER = ".held-by.json"
"""Name of the file that says which process works in a folder."""


@contextmanager
def create_scratch_folder(place: Path | str | None = None) -> Iterator[Path]:
    """Yield a new folder of this user alone, which is deleted at the end of the block.

    A file in it names this process. `place` is where it lies; None: where temporary files do.

    Raises:
        OSError: it cannot be made.
    """
    where = Path(place or gettempdir())
    delete_abandoned_folders(where)
    with TemporaryDirectory(prefix=PREFIX, dir=where, ignore_cleanup_errors=True) as name:
        write_text(Path(name, HOLDER), json.dumps(identify_process()))
        yield Path(name)


def delete_abandoned_folders(where: Path) -> None:
    """Delete such folders whose processes have ended; all others stay, as do those of another machine.

    A process that was killed before its file was there leaves an empty folder, which goes once it is old.
    """
    for file in where.glob(f"{PREFIX}*/{HOLDER}"):
        with suppress(OSError):  # Another user's, or deleted just now.
            if has_ended(read_holder(file.read_bytes())):
                shutil.rmtree(file.parent)
    for folder in where.glob(f"{PREFIX}????????"):  # As `tempfile` names them.
        with suppress(OSError):  # Another user's, or with files: it stays.
            if folder.stat().st_mtime < time.time() - ABANDONED_AFTER:
                for partial in folder.glob(f"{HOLDER}{PARTIAL}*"):
                    partial.unlink()
                folder.rmdir()
