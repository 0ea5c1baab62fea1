"""Logs to MLflow what it lacks of a grid's runs, from the records in their folders."""

from collections.abc import Sequence
from pathlib import Path

from fedgrid.engine.configuration.run_config import RunConfig
from fedgrid.engine.errors import RunError
from fedgrid.engine.run_folder import folder_of
from fedgrid.grids.mlflow_log.run_log import RunLog
from fedgrid.tracking.mlflow.runs import Status
from fedgrid.tracking.mlflow.store import TrackingError
from fedgrid.tracking.records import num_rounds


def sync(runs: Sequence[RunConfig], storage: Path, log: RunLog, text: str) -> tuple[int, int]:
    """Log what MLflow lacks of finished, failed and unfinished runs; runs without records are skipped.

    The store itself is asked, not the marks in the folders. No other process may write to it meanwhile.

    Args:
        runs: runs of the grid that `log` belongs to.
        storage: the folder with their folders.
        log: its context must not be entered, as its thread would write too.
        text: the preset, for the grid's own run.

    Raises:
        RunError: if the store fails; what was added before stays.
    """
    changed = rounds = 0
    try:
        log.writer.connect(text)
        for config in runs:
            folder = folder_of(storage, config)
            status = status_of(folder)
            if status is None or (
                log.writer.has(config, status, num_rounds(folder))
                and (status != "FINISHED" or log.is_logged(config))
            ):
                continue
            rounds += log.writer.write(config, status)
            changed += 1
        is_whole = all(status_of(folder_of(storage, config)) == "FINISHED" for config in runs)
        log.writer.close("FINISHED" if is_whole else "KILLED")
    except TrackingError as error:
        raise RunError(f"{error}; run the same command again when it answers") from error
    return changed, rounds


def status_of(folder: Path) -> Status | None:
    """Return how the run in a folder ended, None if it has no record yet."""
    if (folder / "done.json").exists():
        return "FINISHED"
    if (folder / "failed.json").exists():
        return "FAILED"
    return "KILLED" if (folder / "rounds.parquet").exists() else None
