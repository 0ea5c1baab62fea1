"""The files of a storage's own MLflow store, before SQLite and MLflow open them: they may be a stranger's.

SQLite follows links, and waits for pipes. It writes to `mlflow.db-wal`, and deletes a file that
`mlflow.db-journal` names in its last bytes, a *super-journal* (sqlite.org/fileformat.html, section 3, the
rollback journal). MLflow writes through links below its folder of artifacts, and serves what they lead to.
A view or a trigger is a stranger's code, which SQLite runs when MLflow reads or writes.
"""

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

from fedgrid.regular_files import LARGEST_STATE, check_below, open_file
from fedgrid.tracking.mlflow.store import TrackingError, database_file, one_line

JOURNAL, BESIDE = "-journal", ("-journal", "-wal", "-shm")
"""What SQLite appends to the name of its file."""
MADE_BY_OTHERS = """
SELECT type || ' ' || name FROM sqlite_master
WHERE type = 'view' OR (type = 'trigger' AND tbl_name <> 'secrets')
"""
"""MLflow makes a trigger of that table, to which this package does not write, and no other."""
MAGIC = bytes.fromhex("d9d505f920a163d7")
"""The last bytes of a journal that names a super-journal, as they are its first ones."""


def own_file(uri: str, artifact_root: Path) -> Path | None:
    """Return the SQLite file of `uri` if it is the storage's own, beside `artifact_root`, and safe to open.

    None for a store that the user named.

    Raises:
        TrackingError: it, a file that SQLite has beside it, or anything below `artifact_root` is a link or
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
        raise TrackingError(
            f"the MLflow store of {file.parent} is not opened: {error.strerror or error}; move that away, or "
            "name a store of your own in MLFLOW_TRACKING_URI"
        ) from error
    if file.exists():
        with one_line(uri), closing(sqlite3.connect(file)) as database:
            if odd := database.execute(MADE_BY_OTHERS).fetchone():
                raise TrackingError(f"{file} has the {odd[0]:.80}, which MLflow does not make; move it away")
    return file


def _check_journal(journal: Path) -> None:
    """Raise OSError if a journal names a super-journal: SQLite has one only for several attached files."""
    if journal.exists():
        with open_file(journal, LARGEST_STATE) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - len(MAGIC)))
            if file.read() == MAGIC:
                raise OSError(f"{journal.name} names another file, which SQLite would delete")
