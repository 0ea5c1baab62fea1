"""Serve the MLflow UI of a storage for `fedgrid ui`."""

import os

from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.runtime.storage.hints import format_command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.plain_console import print_plain
from fedgrid.grids.display.steps import StepDisplay
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow import ui
from fedgrid.grids.trackers.mlflow.own_store import relocate_artifacts
from fedgrid.grids.trackers.mlflow.store import (
    artifact_root,
    check_reachable,
    convert_errors,
    database_file,
    tracking_uri,
)


def serve_ui(grid: str | None, storage: Storage, port: int, console: Console) -> None:
    """Serve the MLflow UI on loopback until interrupted.

    Args:
        grid: the grid whose runs are shown first; None: MLflow's first page.
        storage: where the store is.
        port: port on the loopback address.
        console: where the address is printed.

    Raises:
        ConfigError: if there is no store or no such grid, the store is damaged, or the port is taken.
        RunError: MLflow's server ended by itself, as on a full disk.
    """
    # MLflow would create an empty store, and show a page without runs.
    if "MLFLOW_TRACKING_URI" not in os.environ and not (storage.root / "mlflow.db").exists():
        raise ConfigError(
            f"no runs in {storage.root}: run something first, or name the folder with --storage"
        )
    if grid is not None:
        GridFolder(storage, grid).read_runs()
    with StepDisplay(console, as_lines=True) as steps:
        steps.begin_step("Starting MLflow")
        try:
            uri, artifacts = tracking_uri(storage.root), artifact_root(storage.root)
            # A storage that was moved or copied still has the old addresses of its artifacts.
            relocate_artifacts(uri, artifacts)
            if database_file(uri) is not None:
                with convert_errors(uri):
                    check_reachable(uri)

            def print_announcement(text: str) -> None:
                steps.remove_line()
                print_plain(console, text)

            ui.serve(uri, artifacts, port, _format_announcement(grid, uri, port, storage), print_announcement)
        except ui.ServerEnded as error:
            raise RunError(str(error)) from error
        except TrackerFailed as error:
            raise ConfigError(str(error)) from error


def _format_announcement(grid: str | None, uri: str, port: int, storage: Storage) -> str:
    """Format the address of a grid's runs, or of MLflow's page, as a sentence."""
    where = None if grid is None else ui.experiment_address(uri, port, grid)
    lacks = f"; it has no runs of {grid}: `{format_command(storage, 'sync', grid)}` logs them" if grid else ""
    return f"MLflow at {where or ui.format_address(port)} (Ctrl-C ends it){'' if where else lacks}"
