"""`fedgrid delete` and `fedgrid prune`: a grid, or its superseded runs; what other grids have stays."""

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import TypeAlias

from rich.console import Console

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.atomic import disk_errors
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.plain import print_plain, warn
from fedgrid.grids.planning.claims import of_deletion
from fedgrid.grids.results.grid_folder import GridFolder, list_grids
from fedgrid.grids.round_cache.table import readable_size
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow.runs import delete_runs
from fedgrid.grids.trackers.tensorboard import delete_events
from fedgrid.redaction import printable, redacted

Ask: TypeAlias = Callable[[str], bool]


@dataclass(frozen=True)
class Doomed:
    """What goes."""

    runs: tuple[RunConfig, ...]
    """Runs of this grid alone that have a folder."""
    shared: int
    """Runs that other grids have too: they stay."""
    size: int
    """Bytes of the folders that go."""

    @property
    def words(self) -> str:
        """What goes and what stays, in words."""
        count = len(self.runs)
        stays = f"; {self.shared} more stay, other grids have them" if self.shared else ""
        return f"{count} {'run' if count == 1 else 'runs'}, {readable_size(self.size)}{stays}"


def delete_grid(name: str, storage: Storage, console: Console, ask: Ask | None = None) -> None:
    """Delete a grid once `ask`, called with a question, agrees; without `ask` at once.

    An interrupted call is completed by the same one: the grid's own folder goes last.

    Raises:
        ConfigError: if there is no such grid, another driver needs it, or nobody can be asked.
        RunError: if the storage cannot be read or written.
    """
    storage.pull_marks()
    doomed = find_doomed(name, storage)
    if ask is not None and not _agreed(ask, f"Delete the grid {name} in {storage}", doomed, console):
        return
    with Lease(storage, name, of_deletion(doomed.runs), warn), disk_errors(storage.root):
        doomed = _still(doomed, find_doomed(name, storage))
        logged = _forget(name, storage, None)
        _remove([*_folders(doomed, storage), GridFolder(storage, name).path], storage)
    print_plain(console, f"Deleted {name}: {doomed.words}.")
    _say_logged(logged, console)


def prune_grid(name: str, storage: Storage, console: Console, ask: Ask | None = None) -> None:
    """Delete the superseded runs of a grid; `ask` is as for `delete_grid`.

    An interrupted call is completed by the same one: the grid's list of runs is written last.

    Raises:
        ConfigError: if there is no such grid, another driver needs these runs, or nobody can be asked.
        RunError: if the storage cannot be read or written.
    """
    storage.pull_marks()
    superseded = GridFolder(storage, name).read().superseded
    if not superseded:
        print_plain(console, f"No run of {name} is superseded.")
        return
    doomed = find_superseded(name, storage)
    if ask is not None and not _agreed(ask, f"Delete the superseded runs of {name}", doomed, console):
        return
    with Lease(storage, name, of_deletion(doomed.runs), warn), disk_errors(storage.root):
        doomed = _still(doomed, find_superseded(name, storage))
        # A launch that has just ended may ask for some of them again.
        still = {run.run_id for run in GridFolder(storage, name).read().superseded if run in superseded}
        logged = _forget(name, storage, still)
        _remove(_folders(doomed, storage), storage)
        GridFolder(storage, name).drop(still)
    print_plain(console, f"Deleted of {name}: {doomed.words}.")
    _say_logged(logged, console)


def find_doomed(name: str, storage: Storage) -> Doomed:
    """Return what would go with a grid.

    Raises:
        ConfigError: if there is no such grid, or another one cannot be read: its runs might go too.
    """
    found = _alone(GridFolder(storage, name).read().every, name, storage)
    return replace(found, size=found.size + _size(GridFolder(storage, name).path, storage))


def find_superseded(name: str, storage: Storage) -> Doomed:
    """Return what would go with a grid's superseded runs.

    Raises:
        ConfigError: as `find_doomed`.
    """
    return _alone(GridFolder(storage, name).read().superseded, name, storage)


def _alone(runs: Collection[RunConfig], name: str, storage: Storage) -> Doomed:
    """Return which of some runs of a grid no other grid has."""
    others = {
        run.run_id
        for grid in list_grids(storage)
        if grid != name
        for run in GridFolder(storage, grid).read().every
    }
    own = [run for run in runs if run.run_id not in others]
    there = tuple(run for run in own if folder_of(storage.root, run).exists())
    size = sum(_size(folder_of(storage.root, run), storage) for run in there)
    return Doomed(there, len(runs) - len(own), size)


def _size(folder: Path, storage: Storage) -> int:
    return sum(storage.sizes(folder.relative_to(storage.root).as_posix()).values())


def _agreed(ask: Ask, question: str, doomed: Doomed, console: Console) -> bool:
    question = printable(redacted(f"{question}: {doomed.words}?"))
    if not sys.stdin.isatty():
        raise ConfigError(f"{question} There is no terminal to confirm on: add --yes")
    if ask(question):
        return True
    print_plain(console, "Nothing was deleted.")
    return False


def _still(asked: Doomed, now: Doomed) -> Doomed:
    """Return what goes of what was asked about: another grid may have got some of the runs since."""
    return replace(now, runs=tuple(run for run in now.runs if run in asked.runs))


def _folders(doomed: Doomed, storage: Storage) -> list[Path]:
    return [folder_of(storage.root, run) for run in doomed.runs]


def _remove(folders: Collection[Path], storage: Storage) -> None:
    for folder in folders:
        storage.remove(folder.relative_to(storage.root).as_posix())
        if folder.exists():
            rmtree(folder)


def _forget(name: str, storage: Storage, run_ids: Collection[str] | None) -> int:
    """Delete runs of the grid in TensorBoard, and mark them in MLflow as deleted, as `delete_runs`.

    A store of MLflow's that fails is a warning.
    """
    delete_events(name, storage, run_ids)
    try:
        return delete_runs(name, storage, run_ids)
    except TrackerFailed as error:
        warn(f"{error}; its runs stay in MLflow, in the experiment {name}")
        return 0


def _say_logged(count: int, console: Console) -> None:
    if count:
        marked = f"MLflow: {count} runs marked as deleted; `mlflow gc` removes such runs for good."
        print_plain(console, marked)
