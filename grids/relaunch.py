"""What `fedgrid retry` and `fedgrid sync` do: take up a grid that was launched before, by its name."""

from rich.console import Console

from engine.errors import ConfigError
from engine.run_folder import RunFolder
from engine.storage import Storage
from grids.commands import run_grid, warn
from grids.ended import Ended
from grids.grid_folder import PRESET, GridFolder
from grids.how import How
from grids.lease import Lease
from grids.presets import Grid
from grids.sync import sync
from grids.track import RunLog


def launched(name: str, storage: Storage) -> Grid:
    """Return a grid as it was last launched.

    Raises:
        ConfigError: if none of that name was.
    """
    storage.pull_marks()
    folder = GridFolder(storage, name)
    runs = folder.runs()
    return Grid(name, runs, (folder.path / PRESET).read_text())


def retry(name: str, storage: Storage, how: How, console: Console) -> Ended:
    """Run the failed runs of a grid again, and no others.

    Raises:
        ConfigError: if there is no such grid, or none of its runs failed.
    """
    grid = launched(name, storage)
    failed = [run for run in grid.runs if RunFolder(storage, run).failure()]
    if not failed:
        raise ConfigError(f"no run of {name} failed; `fedgrid status {name}` shows how far it is")
    return run_grid(grid, storage, how, console, only=failed)


def sync_grid(name: str, storage: Storage, console: Console) -> None:
    """Log what MLflow lacks of a grid.

    Raises:
        ConfigError: if there is no such grid, or it is under way.
        RunError: if MLflow cannot be reached.
    """
    grid = launched(name, storage)
    log = RunLog(name, storage.root, warn)
    with Lease(storage, name):
        for run in grid.runs:
            storage.pull(RunFolder(storage, run).path.name, skip=("state-",))
        synced = sync(grid.runs, storage.root, log, grid.text)
    console.print(f"{synced.rounds} rounds of {synced.runs} runs logged; MLflow has all there is of {name}")
