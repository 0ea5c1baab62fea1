"""The temporary folder of a driver; those of killed drivers are deleted by the next one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, gettempdir

from fedgrid.engine.storage.processes import is_gone, machine, start_time

NAME = "fedgrid-driver"


@contextmanager
def scratch() -> Iterator[str]:
    """Provide a temporary folder, and delete those that killed drivers of this user have left."""
    place = f"{NAME}-{sha256(machine().encode()).hexdigest()[:8]}"
    for folder in Path(gettempdir()).glob(f"{place}-*-*-*"):
        pid, started, _ = folder.name.removeprefix(f"{place}-").split("-", 2)
        try:
            is_mine = folder.stat().st_uid == os.getuid()
        except FileNotFoundError:
            continue
        if is_mine and pid.isdecimal() and is_gone(int(pid), started):
            rmtree(folder, ignore_errors=True)
    own = f"{place}-{os.getpid()}-{start_time(os.getpid())}-"
    with TemporaryDirectory(prefix=own) as name:
        yield name
