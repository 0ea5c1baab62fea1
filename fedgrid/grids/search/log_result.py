"""The result of a search in MLflow: its best trials as tags and scores, its files, and each run's trial."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from fedgrid.grids.display.plain import warn
from fedgrid.grids.results.grid_folder import FOUND, GridFolder
from fedgrid.grids.search import files
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow.mlflow_tracker import MARK, PARENT, MlflowTracker
from fedgrid.grids.trackers.mlflow.store import is_marked, tracking_uri, write_mark

if TYPE_CHECKING:
    from pathlib import Path

    from fedgrid.grids.search.definition import Search
    from fedgrid.grids.search.objectives import Trial
    from fedgrid.grids.trackers.tracker import TrackedGrid


def log_result(search: Search, trials: list[Trial], written: list[Path], grid: TrackedGrid) -> None:
    """Log the search's result to MLflow, unless it is there. A failure warns, and the next call retries."""
    storage = grid.storage
    folder = GridFolder(storage, search.name).path
    uri, digest = tracking_uri(storage.root), sha256((folder / FOUND).read_bytes()).hexdigest()[:12]
    if is_marked(folder / MARK, uri, search=digest):
        return
    results = files.read_results(search.name, storage)
    tags = {"search": "complete" if results["complete"] else "not complete", "objective": search.objective}
    scores = {}
    for kind, best in results["best"].items():
        tags |= {f"best.{kind}.{key}": str(value) for key, value in best["params"].items()}
        tags[f"best.{kind}.trial"] = str(best["trial"])
        scores[f"search/best_{kind}"] = best["scores"][best["by"]]
    numbers = {run_id: trial.number for trial in reversed(trials) for run_id in trial.run_ids}
    try:
        tracker = MlflowTracker(grid)
        if PARENT in tracker.runs:
            for path in written:
                tracker.artifact(None, path)
            tracker.upload(folder / files.FIGURES, files.FIGURES)
            tracker.log(PARENT, scores, tags)
            for run_id in numbers.keys() & tracker.runs.keys():
                tracker.log(run_id, {}, {"trial": str(numbers[run_id])})
            write_mark(folder / MARK, uri, search=digest)
    except TrackerFailed as error:
        warn(f"{error}; the same command logs the result of the search to MLflow later")
