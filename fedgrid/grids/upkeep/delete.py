"""`fedgrid delete`: a grid, or its superseded runs; what other grids have stays."""

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from rich.console import Console

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.atomic import disk_errors
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.plain import print_plain, warn
from fedgrid.grids.display.tables import readable_size
from fedgrid.grids.planning.keys import make_deletion_keys
from fedgrid.grids.results.grid_folder import GridFolder, list_grids
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow.runs import delete_runs
from fedgrid.grids.trackers.tensorboard import delete_events
from fedgrid.redaction import redacted

Ask: TypeAlias = Callable[[str], bool]


@dataclass(frozen=True)
class DeletionPlan:
    """The runs that are deleted, and those that stay."""

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


def delete_grid(
    name: str, storage: Storage, console: Console, ask: Ask | None = None, *, only_superseded: bool = False
) -> None:
    """Delete a grid, or only its superseded runs, once `ask` agrees to a question; without `ask` at once.

    An interrupted call is completed by the same one: the grid's own folder, or its list of runs, goes last.

    Raises:
        ConfigError: if there is no such grid, another one cannot be read (its runs might go too), another
            driver needs the runs, or nobody can be asked.
        RunError: if the storage cannot be read or written.
    """
    storage.pull_marks()
    folder = GridFolder(storage, name)
    old = folder.read().superseded if only_superseded else ()
    if only_superseded and not old:
        print_plain(console, f"No run of {name} is superseded.")
        return
    planned = _plan_deletion(folder, storage, only_superseded)
    what = f"the superseded runs of {name}" if only_superseded else f"the grid {name} in {storage}"
    if ask is not None and not _confirm(ask, f"Delete {what}: {planned.words}?", console):
        return
    with Lease(storage, name, make_deletion_keys(planned.runs), warn), disk_errors(storage.root):
        now = _plan_deletion(folder, storage, only_superseded)
        # Another grid may have got some of the runs since.
        plan = replace(now, runs=tuple(run for run in now.runs if run in planned.runs))
        # A launch that has just ended may ask for some of them again.
        still = {run.run_id for run in folder.read().superseded if run in old} if only_superseded else None
        logged = _forget(name, storage, still)
        folders = [folder_of(storage.root, run) for run in plan.runs]
        last = [] if only_superseded else [folder.path]
        storage.remove(*map(storage.name_path, (*folders, *last)))
        if still is not None:
            folder.drop(still)
    print_plain(console, f"Deleted {'of ' if only_superseded else ''}{name}: {plan.words}.")
    if logged:
        marked = f"MLflow: {logged} runs marked as deleted; `mlflow gc` removes such runs for good."
        print_plain(console, marked)


def _plan_deletion(folder: GridFolder, storage: Storage, only_superseded: bool) -> DeletionPlan:
    """Return what would go: those of the runs that no other grid has, and with all of them the grid."""
    others = {
        run.run_id
        for grid in list_grids(storage)
        if grid != folder.name
        for run in GridFolder(storage, grid).read().every
    }
    stored = folder.read()
    runs = stored.superseded if only_superseded else stored.every
    own = [run for run in runs if run.run_id not in others]
    stored_runs = tuple(run for run in own if folder_of(storage.root, run).exists())
    paths = [folder_of(storage.root, run) for run in stored_runs]
    paths += [] if only_superseded else [folder.path]
    return DeletionPlan(stored_runs, len(runs) - len(own), sum(_size(path, storage) for path in paths))


def _size(folder: Path, storage: Storage) -> int:
    return sum(storage.sizes(storage.name_path(folder)).values())


def _confirm(ask: Ask, question: str, console: Console) -> bool:
    question = redacted(question)
    if not sys.stdin.isatty():
        raise ConfigError(f"{question} There is no terminal to confirm on: add --yes")
    if ask(question):
        return True
    print_plain(console, "Nothing was deleted.")
    return False


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
