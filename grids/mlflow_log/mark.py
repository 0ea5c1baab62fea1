"""The mark in a run's folder that MLflow has the run, as finished."""

from pathlib import Path

from fedgrid.engine.format import DamagedFile, unseal
from fedgrid.redaction import redacted
from fedgrid.tracking.mlflow.store import database_file

MARK = "mlflow.json"
"""Its file."""


def is_logged(uri: str, folder: Path, rounds: int) -> bool:
    """Return whether the store has a whole run of so many rounds, according to the run's folder.

    Raises:
        NewerFormat: a newer fedgrid wrote it.
    """
    try:
        mark = unseal(folder / MARK)
    except (FileNotFoundError, DamagedFile):
        return False
    same = (mark.get("uri"), mark.get("rounds")) == (redacted(uri), rounds)
    file = database_file(uri)
    return same and (file is None or file.exists())
