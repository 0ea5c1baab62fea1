"""The artifacts of a storage's own store stay in the storage, where its SQLite file names other places too.

MLflow keeps the absolute address of each run's artifacts. In a copy of a storage they are those of the
original, in a stranger's anything. So the addresses are set anew from where the storage is now.
"""

import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from fedgrid.tracking.mlflow.own_files import own_file
from fedgrid.tracking.mlflow.store import TrackingError, one_line

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
"""Where MLflow 3.17 has addresses; earlier versions lack some of the tables."""


def keep_inside(uri: str, artifact_root: Path) -> int:
    """Set the addresses of artifacts to `artifact_root`, and return how many runs had another one.

    Nothing is done unless `uri` is a SQLite file beside `artifact_root`: the user named any other store.

    Raises:
        TrackingError: the store is not safe to open, a key is none of MLflow's, or the store fails.
    """
    file = own_file(uri, artifact_root)
    if file is None or not file.exists():
        return 0
    with one_line(uri), closing(sqlite3.connect(file)) as database, database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        root = artifact_root.resolve().as_uri()
        changed = {each: _set_anew(database, each, root) for each in COLUMNS if each.table in tables}
        return changed.get(COLUMNS[0], 0)


def _set_anew(database: sqlite3.Connection, addresses: Addresses, root: str) -> int:
    """Set those addresses that lead elsewhere; return their number."""
    table, key, column = addresses.table, addresses.key, addresses.column
    foreign = []
    query = f"SELECT rowid, {key}, {column} FROM {table} WHERE {column} IS NOT NULL AND {addresses.where}"
    for row, name, address in database.execute(query):
        if not KEY.fullmatch(str(name)):
            raise TrackingError(f"the store of {root} has {key} {str(name)[:80]!r}: no id of MLflow's")
        moved = MOVED.fullmatch(str(address)) if addresses.below == ANYWHERE else None
        inside = root + (moved[1] if moved else addresses.below.format(key=name))
        if address != inside and not SERVED.fullmatch(str(address)):
            foreign.append((inside, row))
    database.executemany(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", foreign)
    return len(foreign)
