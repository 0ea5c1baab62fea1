"""The storage's own MLflow store, made ready: it is there, and its artifacts are the storage's.

MLflow makes a SQLite store with seventy migrations, which take seconds: an empty one is kept, and copied.
"""

import sqlite3
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.leases.held_file import link
from fedgrid.engine.runtime.storage.user_files import cache_folder
from fedgrid.grids.display.plain import warn
from fedgrid.tracking.mlflow.own_artifacts import keep_inside
from fedgrid.tracking.mlflow.own_files import own_file
from fedgrid.tracking.mlflow.store import connect, database_file, default_uri, one_line


def make_ready(uri: str, artifacts: Path) -> None:
    """Create a SQLite store that is missing, and see to its artifacts.

    Raises:
        TrackingError: as `keep_artifacts`, or the store's folder cannot be written.
    """
    own_file(uri, artifacts)  # A link that leads to no file looks like a store that is missing.
    ensure_file(uri)
    keep_artifacts(uri, artifacts)


def keep_artifacts(uri: str, artifacts: Path) -> None:
    """Set the addresses of artifacts to the storage's folder of them, and say so if runs had others.

    Raises:
        TrackingError: as `own_artifacts.keep_inside`.
    """
    if moved := keep_inside(uri, artifacts):
        warn(
            f"MLflow's store named another place for the artifacts of {moved} runs, as in a storage that was "
            f"moved or copied; from now on they are in {artifacts.resolve()}"
        )


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
            make_empty(empty)
    except (ConfigError, OSError):
        return
    with one_line(uri):
        file.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".fedgrid-", dir=file.parent) as scratch:
            copyfile(empty, copy := Path(scratch) / file.name)
            with suppress(FileExistsError):
                link(copy, file)


def make_empty(empty: Path) -> None:
    """Let MLflow make a store; its default experiment, which names a folder, is made by each copy anew."""
    empty.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=empty.parent) as scratch:
        connect(default_uri(Path(scratch)))
        made = Path(scratch, "mlflow.db")
        with closing(sqlite3.connect(made)) as database, database:
            database.execute("DELETE FROM experiments")
        made.rename(empty)
