"""Logs to MLflow what it lacks of a grid's runs, from the records in their folders."""

from collections.abc import Sequence
from pathlib import Path

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.run.run_folder import folder_of
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
    log.writer.is_launch = False
    ended = [(config, status_of(folder_of(storage, config))) for config in runs]
    of_grid: Status = "FINISHED" if all(status == "FINISHED" for _, status in ended) else "KILLED"
    try:
        lacking = [
            (config, status)
            for config, status in ended
            if status is not None and not _has(log, config, status, folder_of(storage, config))
        ]
        if not lacking and log.writer.has_ended(of_grid):
            return 0, 0
        log.writer.connect(text)
        rounds = sum(log.writer.write(config, status) for config, status in lacking)
        log.writer.close(of_grid)
    except TrackingError as error:
        raise RunError(f"{error}; run the same command again when it answers") from error
    return len(lacking), rounds


def _has(log: RunLog, config: RunConfig, status: Status, folder: Path) -> bool:
    """Return whether the store has all of a run."""
    is_marked = status != "FINISHED" or log.is_logged(config)
    return is_marked and log.writer.has(config, status, num_rounds(folder))


def status_of(folder: Path) -> Status | None:
    """Return how the run in a folder ended, None if it has no record yet."""
    if (folder / "done.json").exists():
        return "FINISHED"
    if (folder / "failed.json").exists():
        return "FAILED"
    return "KILLED" if (folder / "rounds.parquet").exists() else None
