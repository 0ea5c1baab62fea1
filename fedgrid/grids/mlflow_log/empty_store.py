"""Copies of an empty SQLite store: MLflow makes one with seventy migrations, which take seconds."""

import sqlite3
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.leases.held_file import link
from fedgrid.engine.runtime.storage.user_paths import cache_folder
from fedgrid.tracking.mlflow.store import connect, database_file, default_uri, one_line


def ensure_file(uri: str) -> None:
    """Create a SQLite store that is missing, from the empty one in the user's cache.

    That one, of this version of MLflow, is made if it is not there. A store that another driver has made
    meanwhile stays. Does nothing for other stores, and where the cache cannot be written: MLflow then makes
    the store.

    Raises:
        TrackingError: if the store's folder cannot be written.
    """
    file = database_file(uri)
    if file is None or file.exists():
        return
    try:
        empty = cache_folder() / f"mlflow-{version('mlflow')}.db"
        if not empty.exists():
            make(empty)
    except (ConfigError, OSError):
        return
    with one_line(uri):
        file.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".fedgrid-", dir=file.parent) as scratch:
            copyfile(empty, copy := Path(scratch) / file.name)
            with suppress(FileExistsError):
                link(copy, file)


def make(empty: Path) -> None:
    """Let MLflow make a store; its default experiment, which names a folder, is made by each copy anew."""
    empty.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=empty.parent) as scratch:
        uri = default_uri(Path(scratch))
        connect(uri)
        made = database_file(uri)
        assert made is not None
        with closing(sqlite3.connect(made)) as database, database:
            database.execute("DELETE FROM experiments")
        made.rename(empty)
