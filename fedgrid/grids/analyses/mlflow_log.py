"""Logging of an analysis to MLflow: metrics of the run, and files and figures as its artifacts."""

from collections.abc import Sequence
from hashlib import sha256

from fedgrid.engine.runtime.leases.scratch import create_scratch_folder
from fedgrid.engine.runtime.storage.atomic import disk_errors
from fedgrid.engine.runtime.storage.hints import format_command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.analyses.analysis import Analysis, JobResult
from fedgrid.grids.analyses.files import JobFiles
from fedgrid.grids.display.plain_console import warn
from fedgrid.grids.results.axes import find_further_axes
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow.mlflow_tracker import MlflowTracker
from fedgrid.grids.trackers.mlflow.store import is_marked, is_missing, tracking_uri, write_mark
from fedgrid.grids.trackers.tracker import TrackedGrid, TrackedRun
from fedgrid.tracking import figures


def log_to_mlflow(
    analysis: Analysis, results: Sequence[JobResult], storage: Storage, grid: GridFolder
) -> bool:
    """Log the results that MLflow lacks. If MLflow fails, a warning says so.

    Args:
        analysis: The analysis.
        results: Results of its jobs.
        storage: Storage of the runs.
        grid: Folder of the grid.

    Returns:
        Whether MLflow has all of the results.

    Raises:
        RunError: The storage cannot be written.
    """
    uri = tracking_uri(storage.root)
    marks = {result.files[".json"].with_suffix(".mlflow.json"): result for result in results}
    # The digest of the mark stands for all files, whose checksums it has. Results that were computed again
    # are logged again.
    lacking = [
        result for mark, result in marks.items() if not is_marked(mark, uri, results=_digest_result(result))
    ]
    unknown = {result.job.config.run_id for result in lacking}
    try:
        # Without a store no run was logged; it is not for an analysis to create one.
        if lacking and not is_missing(uri):
            tracker = MlflowTracker(TrackedGrid(grid.name, storage, find_further_axes(grid.read_runs())))
            unknown = {
                result.job.config.run_id
                for result in lacking
                if not _log_result(analysis, result, storage, tracker, uri)
            }
    except TrackerFailed as error:
        warn(f"{error}; the results are on disk, and the same command logs them when MLflow is back")
        return False
    if unknown and not is_missing(uri):
        warn(
            f"MLflow does not know {len(unknown)} of the runs: "
            f"`{format_command(storage, 'sync', grid.name)}`, "
            "then the same command"
        )
    return not unknown


def _log_result(
    analysis: Analysis, result: JobResult, storage: Storage, tracker: MlflowTracker, uri: str
) -> bool:
    """Log the results of a job; return whether MLflow has the run."""
    run = TrackedRun.from_config(result.job.config, storage)
    if run.config.run_id not in tracker.runs:
        return False
    tracker.log_numbers(run.config.run_id, analysis.finite_metrics(result))
    for path in result.files.values():
        tracker.artifact(run, path, analysis.folder)
    # Figures are for MLflow only; the report draws its own.
    with create_scratch_folder() as folder:
        for name, figure in analysis.figures(result).items():
            figures.save(figure, folder / f"{name}.png")
            tracker.artifact(run, folder / f"{name}.png", analysis.folder)
    # The mark is written last: results that were logged by half are logged again.
    files = JobFiles(storage, analysis.folder, result.job)
    with disk_errors(files.run_folder):
        write_mark(storage, files.path_with_end(".mlflow.json"), uri, results=_digest_result(result))
    return True


def _digest_result(result: JobResult) -> str:
    """Compute the digest of a result's mark."""
    return sha256(result.files[".json"].read_bytes()).hexdigest()
