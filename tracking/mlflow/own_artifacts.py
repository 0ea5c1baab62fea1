"""The artifacts of a storage's own store stay in the storage, where its SQLite file names other places too.

MLflow keeps the absolute address of each run's artifacts. In a copy of a storage they are those of the
original, in a stranger's anything. So the addresses are set anew from where the storage is now.
"""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from fedgrid.tracking.mlflow.store import TrackingError, database_file, one_line

RUN = re.compile("[0-9a-f]{32}")
"""An MLflow run id, which is the name of a folder too."""
SERVED = re.compile(r"mlflow-artifacts:/\d+(/[0-9a-f]{32}/artifacts)?")
"""An address below the folder that a server of this store has, which is the same one."""
TABLES = {"experiments", "runs"}


def keep_inside(uri: str, artifact_root: Path) -> int:
    """Set the addresses of artifacts to `artifact_root`, and return how many runs had another one.

    Nothing is done unless `uri` is a SQLite file beside `artifact_root`: the user named any other store.

    Raises:
        TrackingError: the file or `artifact_root` is a link to another place, a run's id is none of
            MLflow's, or the store fails.
    """
    file = database_file(uri)
    if file is None or file.parent != artifact_root.parent.absolute() or not file.exists():
        return 0
    home = file.parent.resolve()
    for path in (file, artifact_root):
        if path.resolve() != home / path.name:
            raise TrackingError(
                f"{path} is a link to {path.resolve()}; move that here, or name a store of your own in "
                "MLFLOW_TRACKING_URI"
            )
    with one_line(uri), closing(sqlite3.connect(file)) as database, database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        return _set_anew(database, artifact_root.resolve().as_uri()) if tables >= TABLES else 0


def _set_anew(database: sqlite3.Connection, root: str) -> int:
    runs = []
    for run_id, address in database.execute("SELECT run_uuid, artifact_uri FROM runs"):
        if not RUN.fullmatch(str(run_id)):
            raise TrackingError(f"the store of {root} has a run {str(run_id)[:80]!r}: no id of MLflow's")
        inside = f"{root}/{run_id}/artifacts"
        if address != inside and not SERVED.fullmatch(str(address)):
            runs.append((inside, run_id))
    if runs:
        database.executemany("UPDATE runs SET artifact_uri = ? WHERE run_uuid = ?", runs)
    places = database.execute("SELECT experiment_id, artifact_location FROM experiments").fetchall()
    foreign = [
        (root, number) for number, place in places if place != root and not SERVED.fullmatch(str(place))
    ]
    if foreign:
        database.executemany("UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?", foreign)
    return len(runs)
