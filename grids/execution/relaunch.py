"""`fedgrid retry` and `fedgrid sync`: continue or log a grid that was launched before, by its name."""

from rich.console import Console

from fedgrid.engine.errors import ConfigError
from fedgrid.engine.run_folder import RunFolder
from fedgrid.engine.storage.lease import Lease
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.display.plain import warn
from fedgrid.grids.execution.launch_types import LaunchOptions, LaunchResult
from fedgrid.grids.execution.run import run_grid
from fedgrid.grids.mlflow_log.run_log import RunLog
from fedgrid.grids.mlflow_log.sync import sync
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.results.axes import further_axes
from fedgrid.grids.results.grid_folder import PRESET, GridFolder


def launched(name: str, storage: Storage) -> Grid:
    """Return a grid as it was last launched.

    Raises:
        ConfigError: if no grid of that name was launched.
    """
    storage.pull_marks()
    folder = GridFolder(storage, name)
    runs = folder.runs()
    return Grid(name, runs, (folder.path / PRESET).read_text(), further_axes(runs))


def retry(name: str, storage: Storage, options: LaunchOptions, console: Console) -> LaunchResult:
    """Run the failed runs of a grid again, and no others.

    Raises:
        ConfigError: if there is no such grid, or none of its runs failed.
    """
    grid = launched(name, storage)
    failed = [run for run in grid.runs if RunFolder(storage, run).failure()]
    if not failed:
        raise ConfigError(f"no run of {name} failed; `fedgrid status {name}` shows how far it is")
    return run_grid(grid, storage, options, console, only=failed)


def sync_grid(name: str, storage: Storage, console: Console) -> None:
    """Log to MLflow the runs and rounds of a grid that it lacks.

    Raises:
        ConfigError: if there is no such grid, or a driver is running it.
        RunError: if MLflow cannot be reached.
    """
    grid = launched(name, storage)
    log = RunLog(name, storage.root, warn, axes=grid.varied)
    with Lease(storage, name):
        for run in grid.runs:
            storage.pull(RunFolder(storage, run).path.name, skip=("state-",))
        synced = sync(grid.runs, storage.root, log, grid.text)
    console.print(f"{synced.rounds} rounds of {synced.runs} runs logged; MLflow has all of {name}")
