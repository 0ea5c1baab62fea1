"""The storage's own MLflow store: its SQLite file, and its artifacts next to it.

MLflow stores absolute addresses of artifacts, so that a storage that was moved or copied still names the
folders of the original. They are set right before MLflow opens the store.
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
from fedgrid.engine.runtime.storage.atomic import link_file, unlink_copies
from fedgrid.engine.runtime.storage.user_files import find_cache_folder
from fedgrid.grids.display.plain_console import warn
from fedgrid.grids.trackers.mlflow.store import convert_errors, database_file, default_uri, open_client

ADDRESS_COLUMNS = {"experiments": "artifact_location", "runs": "artifact_uri"}
"""Table of MLflow's database -> its column of artifacts' addresses."""
MOVED_ADDRESS = re.compile(r"file://[^?#]*/mlartifacts((?:/[\w.-]+)*)")
"""Address of a folder of this storage's artifacts, at its present or an earlier place."""
ACTIVE_RUNS_QUERY = """
SELECT r.run_uuid, r.artifact_uri FROM runs r JOIN experiments e USING (experiment_id)
WHERE e.name = ? AND r.lifecycle_stage = 'active' AND e.lifecycle_stage = 'active'
"""
"""Query of the runs of an experiment, by its name, that are not deleted."""
TAG_CONDITION = (
    "AND EXISTS (SELECT * FROM tags t WHERE t.run_uuid = r.run_uuid AND t.key = ? AND t.value = ?) "
)
"""Condition that a run has a tag with this key and value."""


def prepare_store(uri: str, artifacts: Path) -> None:
    """Create a SQLite store that is missing, and set the addresses of its artifacts.

    Raises:
        TrackerFailed: The store fails, or its folder cannot be written.
    """
    create_missing_store(uri)
    relocate_artifacts(uri, artifacts)


def find_own_file(uri: str, artifact_root: Path) -> Path | None:
    """Find the SQLite file of `uri` if it is the storage's own; None for a store that the user named."""
    file = database_file(uri)
    return file if file is not None and file.parent == artifact_root.parent.absolute() else None


def relocate_artifacts(uri: str, artifact_root: Path) -> int:
    """Set the addresses of artifacts to `artifact_root`, and warn if some were elsewhere.

    Does nothing for a store that the user named: its artifacts are where the user put them.

    Returns:
        The number of runs that had another address.

    Raises:
        TrackerFailed: The store fails.
    """
    file, root = find_own_file(uri, artifact_root), artifact_root.resolve().as_uri()
    if file is None or not file.exists():
        return 0
    with convert_errors(uri):
        # A copy by `cp -l` shares its bytes with the original, which must keep its own addresses.
        unlink_copies(file)
    with convert_errors(uri), closing(sqlite3.connect(file)) as database, database:
        # `with database` commits both tables in one transaction, so that experiments and runs never disagree.
        # All rows are read before the first is written: within a transaction that has read, SQLite refuses a
        # write at once, without waiting, while another process writes.
        elsewhere = {table: _find_moved_addresses(database, table, root) for table in ADDRESS_COLUMNS}
        for table, rows in elsewhere.items():
            database.executemany(f"UPDATE {table} SET {ADDRESS_COLUMNS[table]} = ? WHERE rowid = ?", rows)
    if moved := len(elsewhere["runs"]):
        warn(
            f"MLflow's store named another place for the artifacts of {moved} runs, as in a storage that was "
            f"moved or copied; from now on they are in {artifact_root.resolve()}"
        )
    return moved


def _find_moved_addresses(database: sqlite3.Connection, table: str, root: str) -> list[tuple[str, int]]:
    """Find the rows with another address than below `root`.

    Returns:
        The right address, and the id of the row.
    """
    rows = database.execute(f"SELECT rowid, {ADDRESS_COLUMNS[table]} FROM {table}")
    moved = ((row, address, MOVED_ADDRESS.fullmatch(str(address))) for row, address in rows)
    return [(root + to[1], row) for row, address, to in moved if to and address != root + to[1]]


def find_artifacts(uri: str, artifact_root: Path, experiment: str, tags: Mapping[str, str]) -> Path | None:
    """Find the folder of a run's artifacts with SQLite alone, as importing MLflow takes seconds.

    Args:
        uri: Address of the store.
        artifact_root: Folder of the storage's artifacts.
        experiment: Name of the experiment.
        tags: Tags by which the run is found.

    Returns:
        The folder, or None if the store is not the storage's own, or has no such run with a folder below
        `artifact_root`.

    Raises:
        TrackerFailed: The store fails.
    """
    relocate_artifacts(uri, artifact_root)
    if (file := find_own_file(uri, artifact_root)) is None:
        return None
    values = (experiment, *chain.from_iterable(tags.items()))
    with convert_errors(uri), closing(sqlite3.connect(file)) as database:
        for run, address in database.execute(ACTIVE_RUNS_QUERY + TAG_CONDITION * len(tags), values):
            folder = artifact_root.resolve() / str(run) / "artifacts"
            if address == folder.as_uri():
                return folder
    return None


def create_missing_store(uri: str) -> None:
    """Create a SQLite store that is missing as a copy of an empty one in the user's cache.

    MLflow takes seconds to create the tables of a store, and copying takes milliseconds. The cache has an
    empty store for each version of MLflow, which is made on first use. Does nothing for stores of other
    kinds, and where the cache cannot be written: MLflow then makes the store.

    Raises:
        TrackerFailed: The store's folder cannot be written.
    """
    file = database_file(uri)
    if file is None or file.exists():
        return
    try:
        empty = find_cache_folder() / f"mlflow-{version('mlflow')}.db"
        if not empty.exists():
            build_empty_store(empty)
    except (ConfigError, OSError):
        return
    with convert_errors(uri):
        file.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".fedgrid-", dir=file.parent) as scratch:
            copyfile(empty, copy := Path(scratch) / file.name)
            # Link the finished copy to its place in one step: another driver sees no half of it, and the
            # store that another one has made meanwhile stays.
            with suppress(FileExistsError):
                link_file(copy, file)


def build_empty_store(empty: Path) -> None:
    """Create an empty store, without the default experiment.

    That experiment names a folder for artifacts, which differs in each copy; MLflow makes it again.
    """
    empty.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=empty.parent) as scratch:
        open_client(default_uri(Path(scratch)))
        made = Path(scratch, "mlflow.db")
        with closing(sqlite3.connect(made)) as database, database:
            database.execute("DELETE FROM experiments")
        # The rename is atomic: two drivers that do this at the same time leave one whole file.
        made.rename(empty)
