"""The storage's own MLflow store: its SQLite file, and its artifacts beside it.

Both may be a stranger's. SQLite follows links, and waits for pipes. It writes to `mlflow.db-wal`, and deletes
a file that `mlflow.db-journal` names in its last bytes, a *super-journal* (sqlite.org/fileformat.html,
section 3, the rollback journal). MLflow writes through links below its folder of artifacts, and serves what
they lead to. A view or a trigger is a stranger's code, which SQLite runs when MLflow reads or writes.
Addresses of artifacts are absolute: in a copy of a storage those of the original, in a stranger's anything.
"""

import os
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.leases.held_file import link
from fedgrid.engine.runtime.storage.atomic import unlink_copies
from fedgrid.engine.runtime.storage.user_files import cache_folder
from fedgrid.grids.display.plain import warn
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow.store import connect, database_file, default_uri, one_line
from fedgrid.regular_files import LARGEST_STATE, check_below, open_file

JOURNAL, BESIDE = "-journal", ("-journal", "-wal", "-shm")
"""What SQLite appends to the name of its file."""
MADE_BY_OTHERS = """
SELECT type || ' ' || name FROM sqlite_master
WHERE type = 'view' OR (type = 'trigger' AND tbl_name <> 'secrets')
"""
"""MLflow makes a trigger of that table, to which this package does not write, and no other."""
LIVING_RUNS = """
SELECT r.run_uuid, r.artifact_uri FROM runs r JOIN experiments e USING (experiment_id)
WHERE e.name = ? AND r.lifecycle_stage = 'active' AND e.lifecycle_stage = 'active'
"""
TAGGED = "AND EXISTS (SELECT * FROM tags t WHERE t.run_uuid = r.run_uuid AND t.key = ? AND t.value = ?) "
PRESENT = """
SELECT lower(t.name), lower(c.name) FROM sqlite_master t, pragma_table_xinfo(t.name) c WHERE t.type = 'table'
"""
"""Tables and their columns, generated ones too; in capitals SQLite's names are the same."""
MAGIC = bytes.fromhex("d9d505f920a163d7")
"""The last bytes of a journal that names a super-journal, as they are its first ones."""
KEY = re.compile(r"[\w-]{1,64}")
"""An id of a run, a model or a trace, which is the name of a folder too."""
SERVED = re.compile(r"mlflow-artifacts:/\d+(/[0-9a-f]{32}/artifacts)?|(runs|models):/[\w/-]+")
"""An address below the folder that a server of this store has, the same one; or the name of a row."""
MOVED = re.compile(r"file://[^?#]*/mlartifacts((?:/\w[\w.-]*)+)")
"""A file of this storage, where it is or was."""


@dataclass(frozen=True)
class Addresses:
    """A column of addresses."""

    table: str
    key: str
    """The column that identifies a row."""
    column: str
    below: str
    """The folder, below that of all artifacts, in which MLflow puts those of `{key}`; without one, any."""
    where: str = "1"


ANYWHERE = "/models"
OF_TRACES = "key = 'mlflow.artifactLocation'"
COLUMNS = (
    Addresses("runs", "run_uuid", "artifact_uri", "/{key}/artifacts"),
    Addresses("experiments", "experiment_id", "artifact_location", ""),
    Addresses("logged_models", "model_id", "artifact_location", "/models/{key}/artifacts"),
    Addresses("trace_tags", "request_id", "value", "/traces/{key}/artifacts", OF_TRACES),
    Addresses("model_versions", "version", "source", ANYWHERE),
    Addresses("model_versions", "version", "storage_location", ANYWHERE),
    Addresses("workspaces", "name", "default_artifact_root", ""),
    Addresses("workspaces", "name", "trace_archival_location", ""),
)
"""Where MLflow 3.17 has addresses; earlier versions lack some of them."""


def make_ready(uri: str, artifacts: Path) -> None:
    """Create a SQLite store that is missing, and see to its artifacts.

    Raises:
        TrackerFailed: as `keep_artifacts`, or the store's folder cannot be written.
    """
    own_file(uri, artifacts)  # A link that leads to no file looks like a store that is missing.
    ensure_file(uri)
    keep_artifacts(uri, artifacts)


def keep_artifacts(uri: str, artifact_root: Path) -> int:
    """Set the addresses of artifacts to `artifact_root`; say and return how many runs had another one.

    Nothing is done unless `uri` is a SQLite file beside `artifact_root`: the user named any other store.

    Raises:
        TrackerFailed: the store is not safe to open, a key is none of MLflow's, or the store fails.
    """
    file = own_file(uri, artifact_root)
    if file is None or not file.exists():
        return 0
    root = artifact_root.resolve()
    with one_line(uri), closing(sqlite3.connect(file)) as database, database:
        present = set(database.execute(PRESENT))
        columns = [column for column in COLUMNS if (column.table, column.column) in present]
        elsewhere = {column: _elsewhere(database, column, root.as_uri()) for column in columns}
        # All is read before: SQLite refuses at once who would write after reading, while another one writes.
        for column, rows in elsewhere.items():
            query = f"UPDATE {column.table} SET {column.column} = ? WHERE rowid = ?"
            database.executemany(query, rows)
        moved = sum(len(rows) for column, rows in elsewhere.items() if column.table == "runs")
    if moved:
        warn(
            f"MLflow's store named another place for the artifacts of {moved} runs, as in a storage that was "
            f"moved or copied; from now on they are in {root}"
        )
    return moved


def find_artifacts(uri: str, artifact_root: Path, experiment: str, tags: Mapping[str, str]) -> Path | None:
    """Return the folder of the artifacts of the run with these tags, without the import of MLflow.

    None if the store is none of the storage's own, or has no such run with a folder below `artifact_root`.

    Raises:
        TrackerFailed: as `keep_artifacts`.
    """
    keep_artifacts(uri, artifact_root)
    if (file := own_file(uri, artifact_root)) is None:
        return None
    of_tags = TAGGED * len(tags)
    values = (experiment, *chain.from_iterable(tags.items()))
    with one_line(uri), closing(sqlite3.connect(file)) as database:
        for run, address in database.execute(LIVING_RUNS + of_tags, values):
            folder = artifact_root.resolve() / str(run) / "artifacts"
            if address == folder.as_uri():
                return folder
    return None


def _elsewhere(database: sqlite3.Connection, addresses: Addresses, root: str) -> list[tuple[str, int]]:
    """Return the new address and the row of each that leads elsewhere."""
    table, key, column = addresses.table, addresses.key, addresses.column
    rows = []
    query = f"SELECT rowid, {key}, {column} FROM {table} WHERE {column} IS NOT NULL AND {addresses.where}"
    for row, name, address in database.execute(query):
        if not KEY.fullmatch(str(name)):
            raise TrackerFailed(f"the store of {root} has {key} {str(name)[:80]!r}: no id of MLflow's")
        moved = MOVED.fullmatch(str(address)) if addresses.below == ANYWHERE else None
        inside = root + (moved[1] if moved else addresses.below.format(key=name))
        if address != inside and not SERVED.fullmatch(str(address)):
            rows.append((inside, row))
    return rows


def own_file(uri: str, artifact_root: Path) -> Path | None:
    """Return the SQLite file of `uri` if it is the storage's own, beside `artifact_root`, and safe to open.

    None for a store that the user named.

    Raises:
        TrackerFailed: it, a file that SQLite has beside it, or anything below `artifact_root` is a link or
            no regular file, its journal names another file, it has views or triggers that MLflow does not
            make, or it cannot be read.
    """
    file = database_file(uri)
    if file is None or file.parent != artifact_root.parent.absolute():
        return None
    try:
        own = (file.name, *(file.name + end for end in BESIDE), artifact_root.name)
        check_below(file.parent, re.compile("|".join(map(re.escape, own))))
        _check_journal(file.with_name(file.name + JOURNAL))
    except OSError as error:
        raise TrackerFailed(
            f"the MLflow store of {file.parent} is not opened: {error.strerror or error}; move that away, or "
            "name a store of your own in MLFLOW_TRACKING_URI"
        ) from error
    if file.exists():
        with one_line(uri):
            unlink_copies(file)
        with one_line(uri), closing(sqlite3.connect(file)) as database:
            if odd := database.execute(MADE_BY_OTHERS).fetchone():
                raise TrackerFailed(f"{file} has the {odd[0]:.80}, which MLflow does not make; move it away")
    return file


def _check_journal(journal: Path) -> None:
    """Raise OSError if a journal names a super-journal: SQLite has one only for several attached files."""
    if journal.exists():
        with open_file(journal, LARGEST_STATE) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - len(MAGIC)))
            if file.read() == MAGIC:
                raise OSError(f"{journal.name} names another file, which SQLite would delete")


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
