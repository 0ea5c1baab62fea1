"""The records of a run that another machine takes forward, as they are at the storage's URI."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.storage import Storage

RECORDS = re.compile(r"(rounds|clients|timings)(-\d+)?\.parquet")
"""Whole files, and segments."""


@contextmanager
def records_at_uri(storage: Storage, config: RunConfig) -> Iterator[Path]:
    """Yield a folder with a copy of a run's records.

    The mirror is left alone: a server on this machine may be writing into it.

    Raises:
        RunError: the URI cannot be read.
    """
    folder = folder_of(storage.root, config).name
    with TemporaryDirectory(prefix="fedgrid-") as scratch:
        for name in storage.sizes(folder):
            path = Path(scratch, Path(name).name)
            if RECORDS.fullmatch(path.name) and (data := storage.read(name)) is not None:
                path.write_bytes(data)
        yield Path(scratch)
