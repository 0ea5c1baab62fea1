"""The storage's own MLflow store: its SQLite file, and its artifacts beside it.

Addresses of artifacts are absolute: in a storage that was moved or copied they are those of the original.
"""

import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.atomic import link, unlink_copies
from fedgrid.engine.runtime.storage.user_files import cache_folder
from fedgrid.grids.display.plain import warn
from fedgrid.grids.trackers.mlflow.store import connect, database_file, default_uri, one_line

ADDRESSES = {"experiments": "artifact_location", "runs": "artifact_uri"}
"""Table -> its column of addresses."""
MOVED = re.compile(r"file://[^?#]*/mlartifacts((?:/[\w.-]+)*)")
"""A folder of this storage, where it is or was."""
LIVING_RUNS = """
SELECT r.run_uuid, r.artifact_uri FROM runs r JOIN experiments e USING (experiment_id)
WHERE e.name = ? AND r.lifecycle_stage = 'active' AND e.lifecycle_stage = 'active'
"""
TAGGED = "AND EXISTS (SELECT * FROM tags t WHERE t.run_uuid = r.run_uuid AND t.key = ? AND t.value = ?) "


def make_ready(uri: str, artifacts: Path) -> None:
    """Create a SQLite store that is missing, and see to its artifacts.

    Raises:
        TrackerFailed: the store fails, or its folder cannot be written.
    """
    ensure_file(uri)
    keep_artifacts(uri, artifacts)


def own_file(uri: str, artifact_root: Path) -> Path | None:
    """Return the SQLite file of `uri` if it is the storage's own; None for a store that the user named."""
    file = database_file(uri)
    return file if file is not None and file.parent == artifact_root.parent.absolute() else None


def keep_artifacts(uri: str, artifact_root: Path) -> int:
    """Set the addresses of artifacts to `artifact_root`; say and return how many runs had another one.

    Raises:
        TrackerFailed: the store fails.
    """
    file, root = own_file(uri, artifact_root), artifact_root.resolve().as_uri()
    if file is None or not file.exists():
        return 0
    with one_line(uri):
        unlink_copies(file)  # A copy by `cp -l` would share its bytes with the original.
    with one_line(uri), closing(sqlite3.connect(file)) as database, database:
        # All is read before: SQLite refuses at once who would write after reading, while another one writes.
        elsewhere = {table: _elsewhere(database, table, root) for table in ADDRESSES}
        for table, rows in elsewhere.items():
            database.executemany(f"UPDATE {table} SET {ADDRESSES[table]} = ? WHERE rowid = ?", rows)
    if moved := len(elsewhere["runs"]):
        warn(
            f"MLflow's store named another place for the artifacts of {moved} runs, as in a storage that was "
            f"moved or copied; from now on they are in {artifact_root.resolve()}"
        )
    return moved


def _elsewhere(database: sqlite3.Connection, table: str, root: str) -> list[tuple[str, int]]:
    """Return the new address and the row of each that leads elsewhere."""
    rows = database.execute(f"SELECT rowid, {ADDRESSES[table]} FROM {table}")
    moved = ((row, address, MOVED.fullmatch(str(address))) for row, address in rows)
    return [(root + to[1], row) for row, address, to in moved if to and address != root + to[1]]


def find_artifacts(uri: str, artifact_root: Path, experiment: str, tags: Mapping[str, str]) -> Path | None:
    """Return the folder of the artifacts of the run with these tags, without the import of MLflow.

    None if the store is none of the storage's own, or has no such run with a folder below `artifact_root`.

    Raises:
        TrackerFailed: as `keep_artifacts`.
    """
    keep_artifacts(uri, artifact_root)
    if (file := own_file(uri, artifact_root)) is None:
        return None
    values = (experiment, *chain.from_iterable(tags.items()))
    with one_line(uri), closing(sqlite3.connect(file)) as database:
        for run, address in database.execute(LIVING_RUNS + TAGGED * len(tags), values):
            folder = artifact_root.resolve() / str(run) / "artifacts"
            if address == folder.as_uri():
                return folder
    return None


def ensure_file(uri: str) -> None:
    """Create a SQLite store that is missing, from the empty one in the user's cache.

    That one, of this version of MLflow, is made if it is not there. A store that another driver has made
    meanwhile stays. Does nothing for other stores, and where the cache cannot be written: MLflow then makes
    the store.

    Raises:
        TrackerFailed: if the store's folder cannot be written.
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
