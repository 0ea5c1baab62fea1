"""`fedgrid ui`: the MLflow server for the store of a folder of runs."""

import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from fedgrid.engine.configuration.run_config import RunConfig
from fedgrid.engine.errors import ConfigError
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.display.plain import print_plain
from fedgrid.grids.mlflow_log.own_store import keep_artifacts
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.tracking.mlflow import ui
from fedgrid.tracking.mlflow.store import TrackingError, artifact_root, tracking_uri


def serve_ui(grid: str | None, storage: Storage, port: int, console: Console) -> int:
    """Serve the MLflow UI on loopback until interrupted; return the server's exit code.

    Raises:
        ConfigError: if there is no store or no such grid, or the port is taken.
    """
    if "MLFLOW_TRACKING_URI" not in os.environ and not (storage.root / "mlflow.db").exists():
        raise ConfigError(
            f"no runs in {storage.root}: run something first, or name the folder with --storage"
        )
    runs = () if grid is None else GridFolder(storage, grid).runs()
    try:
        uri, artifacts = tracking_uri(storage.root), artifact_root(storage.root)
        keep_artifacts(uri, artifacts)
        return ui.serve(
            uri,
            artifacts,
            port,
            lambda: _announce(grid, runs, storage.root, port, console),
        )
    except TrackingError as error:
        raise ConfigError(str(error)) from error


def _announce(grid: str | None, runs: Sequence[RunConfig], root: Path, port: int, console: Console) -> None:
    uri = tracking_uri(root)
    where = ui.address(port) if grid is None else ui.experiment_address(uri, port, grid)
    print_plain(console, f"MLflow at {where} (Ctrl-C ends it)")
