"""Delete a grid, or its superseded runs, for `fedgrid delete`; what other grids use stays."""

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from rich.console import Console

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.atomic import disk_errors
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.plain_console import print_plain, warn
from fedgrid.grids.display.tables import format_size
from fedgrid.grids.planning.keys import make_deletion_keys
from fedgrid.grids.results.grid_folder import GridFolder, list_grids
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow.runs import delete_runs
from fedgrid.grids.trackers.tensorboard import delete_events
from fedgrid.redaction import redact_secrets

Confirm: TypeAlias = Callable[[str], bool]
"""Function that shows a question and returns whether the user agrees."""


@dataclass(frozen=True)
class DeletionPlan:
    """The runs that are deleted, and how many stay."""

    runs: tuple[RunConfig, ...]
    """Runs that belong to this grid alone and have a folder."""
    shared: int
    """Number of runs that other grids have too; they stay."""
    size: int
    """Bytes of the folders that are deleted."""

    @property
    def description(self) -> str:
        """Description of what is deleted and what stays."""
        count = len(self.runs)
        stays = f"; {self.shared} more stay, other grids have them" if self.shared else ""
        return f"{count} {'run' if count == 1 else 'runs'}, {format_size(self.size)}{stays}"


def delete_grid(
    name: str,
    storage: Storage,
    console: Console,
    confirm: Confirm | None = None,
    *,
    only_superseded: bool = False,
) -> None:
    """Delete a grid, or only its superseded runs.

    An interrupted call is completed by the same one: the grid's own folder, or its list of runs, is deleted
    last.

    Args:
        name: the grid.
        storage: where it is.
        console: where the result is printed.
        ask: confirms the deletion; default None: no question.
        only_superseded: whether only superseded runs are deleted; default False.

    Raises:
        ConfigError: if there is no such grid, another one cannot be read (its runs might be deleted too),
            another driver needs the runs, or there is no terminal to confirm on.
        RunError: if the storage cannot be read or written.
    """
    storage.pull_marks()
    folder = GridFolder(storage, name)
    old = folder.read_definition().superseded if only_superseded else ()
    if only_superseded and not old:
        print_plain(console, f"No run of {name} is superseded.")
        return
    planned = _plan_deletion(folder, storage, only_superseded)
    what = f"the superseded runs of {name}" if only_superseded else f"the grid {name} in {storage}"
    if confirm is not None and not _confirm_on_terminal(
        confirm, f"Delete {what}: {planned.description}?", console
    ):
        return
    with Lease(storage, name, make_deletion_keys(planned.runs), warn), disk_errors(storage.root):
        # 1. Plan again under the lease: what was planned for the question may have changed while the user
        # thought about it.
        now = _plan_deletion(folder, storage, only_superseded)
        # Another grid may have got some of the runs since, and nothing is deleted that the question did not
        # name.
        plan = replace(now, runs=tuple(run for run in now.runs if run in planned.runs))
        # A launch that has just ended may request some of them again.
        still = (
            {run.run_id for run in folder.read_definition().superseded if run in old}
            if only_superseded
            else None
        )
        # 2. Trackers before files: after an interruption the same call still finds the grid and its runs.
        logged = _delete_from_trackers(name, storage, still)
        # 3. Runs before the grid's own folder, in this order, so that a repeated call finds the rest.
        folders = [build_folder_path(storage.root, run) for run in plan.runs]
        last = [] if only_superseded else [folder.path]
        storage.remove(*map(storage.name_path, (*folders, *last)))
        if still is not None:
            folder.drop_superseded(still)
    print_plain(console, f"Deleted {'of ' if only_superseded else ''}{name}: {plan.description}.")
    if logged:
        marked = f"MLflow: {logged} runs marked as deleted; `mlflow gc` removes such runs for good."
        print_plain(console, marked)


def _plan_deletion(folder: GridFolder, storage: Storage, only_superseded: bool) -> DeletionPlan:
    """Plan what is deleted: runs that no other grid has, and, with all of them, the grid's folder."""
    others = {
        run.run_id
        for grid in list_grids(storage)
        if grid != folder.name
        for run in GridFolder(storage, grid).read_definition().all_runs
    }
    stored = folder.read_definition()
    runs = stored.superseded if only_superseded else stored.all_runs
    own = [run for run in runs if run.run_id not in others]
    stored_runs = tuple(run for run in own if build_folder_path(storage.root, run).exists())
    paths = [build_folder_path(storage.root, run) for run in stored_runs]
    paths += [] if only_superseded else [folder.path]
    return DeletionPlan(
        stored_runs, len(runs) - len(own), sum(_measure_folder(path, storage) for path in paths)
    )


def _measure_folder(folder: Path, storage: Storage) -> int:
    """Measure the bytes of a folder of the storage."""
    return sum(storage.list_sizes(storage.name_path(folder)).values())


def _confirm_on_terminal(confirm: Confirm, question: str, console: Console) -> bool:
    """Let the user confirm the deletion on a terminal; report if nothing is deleted."""
    question = redact_secrets(question)
    if not sys.stdin.isatty():
        raise ConfigError(f"{question} There is no terminal to confirm on: add --yes")
    if confirm(question):
        return True
    print_plain(console, "Nothing was deleted.")
    return False


def _delete_from_trackers(name: str, storage: Storage, run_ids: Collection[str] | None) -> int:
    """Delete a grid's runs in TensorBoard, mark them in MLflow as deleted, and return how many.

    A store of MLflow's that fails is a warning.
    """
    delete_events(name, storage, run_ids)
    try:
        return delete_runs(name, storage, run_ids)
    except TrackerFailed as error:
        warn(f"{error}; its runs stay in MLflow, in the experiment {name}")
        return 0
