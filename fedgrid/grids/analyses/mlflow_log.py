"""Logs the results of an analysis to MLflow: metrics of the run, files and pictures as its artifacts."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from fedgrid.engine.runtime.storage.atomic import disk_errors, write_text
from fedgrid.engine.runtime.storage.format import DamagedFile, UnreadableFile, seal, unseal
from fedgrid.engine.runtime.storage.hints import command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.analyses.analysis import Analysis, Found
from fedgrid.grids.analyses.files import JobFiles
from fedgrid.grids.display.plain import warn
from fedgrid.grids.mlflow_log.run_writer import Writer
from fedgrid.grids.results.axes import further_axes
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.redaction import redacted
from fedgrid.regular_files import read_file
from fedgrid.tracking.mlflow.store import TrackingError, artifact_root, default_uri, tracking_uri


def log_to_mlflow(analysis: Analysis, found: Sequence[Found], storage: Storage, grid: GridFolder) -> bool:
    """Log what MLflow lacks; return whether it has all of it. If it fails, a warning says so.

    Raises:
        RunError: the storage cannot be written.
    """
    uri = tracking_uri(storage.root)
    lacking = [each for each in found if not _is_logged(each, uri)]
    unknown = {each.job.config.run_id for each in lacking}
    try:
        # Without a store nobody has logged the runs.
        if lacking and not (uri == default_uri(storage.root) and not Path(uri[len("sqlite:///") :]).exists()):
            writer = Writer(
                uri, grid.name, storage.root, artifact_root(storage.root), further_axes(grid.runs())
            )
            unknown = {
                each.job.config.run_id for each in lacking if not _log(analysis, each, storage, writer, uri)
            }
    except TrackingError as error:
        warn(f"{error}; the results are on disk, and the same command logs them when MLflow is back")
        return False
    if unknown:
        warn(
            f"MLflow does not know {len(unknown)} of the runs: `{command(storage, 'sync', grid.name)}`, "
            "then the same command"
        )
    return not unknown


def _log(analysis: Analysis, found: Found, storage: Storage, writer: Writer, uri: str) -> bool:
    """Log the results of a job; return whether MLflow knows the run."""
    with TemporaryDirectory() as folder:
        paths = [*found.files.values(), *analysis.pictures(found, Path(folder))]
        known = writer.write_results(found.job.config, analysis.finite(found), paths, analysis.folder)
    if known:
        files = JobFiles(storage, analysis.folder, found.job)
        with disk_errors(files.run):
            write_text(files.file(".mlflow.json"), seal({"uri": redacted(uri), "results": _digest(found)}))
            files.push(files.file(".mlflow.json"))
    return known


def _is_logged(found: Found, uri: str) -> bool:
    try:
        mark = unseal(found.files[".json"].with_suffix(".mlflow.json"))
    except (FileNotFoundError, DamagedFile, UnreadableFile):
        return False
    return (mark.get("uri"), mark.get("results")) == (redacted(uri), _digest(found))


def _digest(found: Found) -> str:
    return sha256(read_file(found.files[".json"])).hexdigest()
