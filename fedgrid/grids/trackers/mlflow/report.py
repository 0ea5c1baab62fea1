"""Logging of a report to the own run of a grid in MLflow."""

from pathlib import Path
from shutil import copyfile

from fedgrid.engine.runtime.leases.storage_id import id_of
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.trackers.mlflow import runs
from fedgrid.grids.trackers.mlflow.mlflow_tracker import PARENT, MlflowTracker
from fedgrid.grids.trackers.mlflow.own_store import find_artifacts
from fedgrid.grids.trackers.mlflow.store import artifact_root, is_missing, one_line, tracking_uri
from fedgrid.grids.trackers.tracker import TrackedGrid

REPORT = "report"
"""Folder of the report among the run's artifacts."""


def log_report(name: str, storage: Storage, folder: Path) -> bool | None:
    """Log a folder to the own run of a grid, as `report`.

    Nothing is created if there is no store, as where nothing is tracked.

    Args:
        name: The grid's name.
        storage: Storage of the grid.
        folder: Folder with the report's files.

    Returns:
        Whether the store has the grid's own run; None without a store.

    Raises:
        TrackerFailed: The store fails.
    """
    uri, artifacts = tracking_uri(storage.root), artifact_root(storage.root)
    if is_missing(uri):
        return None
    tags = {runs.RUN_ID_TAG: PARENT, runs.STORAGE_TAG: id_of(storage.root)}
    if (place := find_artifacts(uri, artifacts, name, tags)) is not None:
        # Importing MLflow takes longer than all else of a small report.
        with one_line(uri):
            for path in (path for path in folder.rglob("*") if path.is_file()):
                copy = place / REPORT / path.relative_to(folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                # Another user's file cannot be written, but replaced in a folder that is shared.
                copy.unlink(missing_ok=True)
                copyfile(path, copy)
        return True
    tracker = MlflowTracker(TrackedGrid(name, storage))
    if is_there := PARENT in tracker.runs:
        tracker.upload(folder, REPORT)
    return is_there
