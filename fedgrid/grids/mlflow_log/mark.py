"""The mark in a run's folder that MLflow has the run, as finished."""

from collections.abc import Iterable
from pathlib import Path

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.atomic import write_text
from fedgrid.engine.runtime.storage.format import DamagedFile, UnreadableFile, seal, unseal
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.redaction import redacted
from fedgrid.tracking.mlflow.store import database_file, one_line

MARK = "mlflow.json"
"""Its file."""


def is_logged(uri: str, folder: Path, rounds: int) -> bool:
    """Return whether the store has a whole run of this many rounds, according to the run's folder.

    Raises:
        NewerFormat: a newer fedgrid wrote it.
    """
    try:
        mark = unseal(folder / MARK)
    except (FileNotFoundError, DamagedFile, UnreadableFile):
        return False
    same = (mark.get("uri"), mark.get("rounds")) == (redacted(uri), rounds)
    file = database_file(uri)
    return same and (file is None or file.exists())


def mark(uri: str, folder: Path, mlflow_run_id: str, rounds: int) -> None:
    """Note in the run's folder, if there is one, that the store has a whole run of this many rounds.

    Raises:
        TrackingError: it cannot be written.
    """
    if folder.is_dir():
        with one_line(uri):
            content = {"uri": redacted(uri), "mlflow_run_id": mlflow_run_id, "rounds": rounds}
            write_text(folder / MARK, seal(content))


def unmark(folder: Path) -> None:
    """Forget that the store has the run."""
    (folder / MARK).unlink(missing_ok=True)


def push_marks(runs: Iterable[RunConfig], storage: Storage) -> None:
    """Send to the storage which runs are in MLflow, so that the next driver does not log them again."""
    marks = (folder_of(storage.root, run) / MARK for run in runs)
    storage.push(*(f"{mark.parent.name}/{mark.name}" for mark in marks if mark.exists()))
