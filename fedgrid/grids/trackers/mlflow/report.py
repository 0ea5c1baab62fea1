"""Logging of a report to the own run of a grid in MLflow."""

from pathlib import Path
from shutil import copyfile

from fedgrid.engine.runtime.leases.storage_id import read_storage_id
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.trackers.mlflow import runs
from fedgrid.grids.trackers.mlflow.mlflow_tracker import GRID_KEY, MlflowTracker
from fedgrid.grids.trackers.mlflow.own_store import find_artifacts
from fedgrid.grids.trackers.mlflow.store import artifact_root, convert_errors, is_missing, tracking_uri
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
    tags = {runs.RUN_ID_TAG: GRID_KEY, runs.STORAGE_TAG: read_storage_id(storage.root)}
    if (place := find_artifacts(uri, artifacts, name, tags)) is not None:
        # Importing MLflow takes longer than all else of a small report.
        with convert_errors(uri):
            for path in (path for path in folder.rglob("*") if path.is_file()):
                copy = place / REPORT / path.relative_to(folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                # Another user's file cannot be written, but replaced in a folder that is shared.
                copy.unlink(missing_ok=True)
                copyfile(path, copy)
        return True
    tracker = MlflowTracker(TrackedGrid(name, storage))
    if is_there := GRID_KEY in tracker.runs:
        tracker.upload_folder(folder, REPORT)
    return is_there
