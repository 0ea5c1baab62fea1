"""Logs attacks to MLflow: a run's means as its metrics, results and pictures as its artifacts."""

from collections.abc import Sequence
from math import isnan
from pathlib import Path

from fedgrid.engine.format import DamagedFile, seal, unseal
from fedgrid.engine.storage.atomic import disk_errors, write_text
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.attack.results import FOLDER, AttackFiles, Row
from fedgrid.grids.attack.show import COLUMNS
from fedgrid.grids.display.plain import warn
from fedgrid.grids.mlflow_log.run_log import artifact_root
from fedgrid.grids.mlflow_log.run_writer import Writer
from fedgrid.grids.results.axes import further_axes
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.redaction import redacted
from fedgrid.tracking.mlflow.store import TrackingError, default_uri, tracking_uri


def log_to_mlflow(grid: GridFolder, storage: Storage, attacks: Sequence[AttackFiles]) -> None:
    """Log those of the attacks that MLflow lacks; if it fails, a warning says so.

    Raises:
        RunError: the storage cannot be written.
    """
    uri = tracking_uri(storage.root)
    todo = [(files, rows) for files in attacks if (rows := files.read()) and not _is_logged(files, uri)]
    if not todo:
        return
    try:
        logged = _logged(grid, storage, todo, uri)
    except TrackingError as error:
        warn(f"{error}; the attacks are on disk, and the same command logs them when MLflow is back")
        return
    if unknown := len(todo) - logged:
        warn(f"MLflow does not know {unknown} of the runs: `fedgrid sync {grid.name}`, then the same command")


def _logged(
    grid: GridFolder, storage: Storage, todo: Sequence[tuple[AttackFiles, Sequence[Row]]], uri: str
) -> int:
    """Log attacks; return of how many MLflow knows the runs."""
    if (writer := _writer(grid, storage, uri)) is None:
        return 0
    logged = 0
    for files, rows in todo:
        pictures = sorted(files.path.parent.glob(f"{files.settings.key}-*.png"))
        scores = metrics_of(files, rows)
        if writer.write_explanations(files.config, scores, [files.path, *pictures], FOLDER):
            logged += 1
            with disk_errors(files.run):
                write_text(_mark(files), seal({"uri": redacted(uri), "state": files.state()}))
            files.push(_mark(files))
    return logged


def _writer(grid: GridFolder, storage: Storage, uri: str) -> Writer | None:
    """Return a writer to the store; None if the storage should have one of its own, and has none."""
    if uri == default_uri(storage.root) and not Path(uri.removeprefix("sqlite:///")).exists():
        return None
    return Writer(uri, grid.name, storage.root, artifact_root(storage.root), further_axes(grid.runs()))


def metrics_of(files: AttackFiles, rows: Sequence[Row]) -> dict[str, float]:
    """Return a run's means by name, as `attack/membership_updates_auc`; those that are defined."""
    at = "" if files.settings.round is None else f"_round_{files.settings.round}"
    found = {}
    for heading, of in COLUMNS[files.settings.kind].items():
        words = " ".join((files.settings.kind, *heading)).lower().replace("'s", "")
        found["attack/" + words.replace(" ", "_") + at] = of(rows)
    return {name: value for name, value in found.items() if not isnan(value)}


def _mark(files: AttackFiles) -> Path:
    return files.path.with_suffix(".mlflow.json")


def _is_logged(files: AttackFiles, uri: str) -> bool:
    try:
        mark = unseal(_mark(files))
    except (FileNotFoundError, DamagedFile):
        return False
    return (mark.get("uri"), mark.get("state")) == (redacted(uri), files.state())
