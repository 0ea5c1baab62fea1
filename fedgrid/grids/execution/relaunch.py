"""Continue or log a grid that was launched before, for `fedgrid run --failed` and `fedgrid sync`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.leases.storage_id import claim_storage_id
from fedgrid.engine.runtime.run.run_folder import RunFolder
from fedgrid.engine.runtime.storage.hints import format_command
from fedgrid.grids.display.plain_console import print_plain, warn
from fedgrid.grids.execution.run import Launcher
from fedgrid.grids.following.registry import find_tracker
from fedgrid.grids.following.session import TrackerSession
from fedgrid.grids.planning.keys import make_launch_keys
from fedgrid.grids.planning.options import DEFAULT_TRACKERS, NO_TRACKER
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.results import stored_plugins
from fedgrid.grids.results.axes import find_naming_keys
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import find_damage, select_unfinished
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.tracker import TrackedGrid

if TYPE_CHECKING:
    from rich.console import Console

    from fedgrid.engine.federation.configuration.run_config import RunConfig
    from fedgrid.engine.runtime.storage.storage import Storage
    from fedgrid.grids.execution.watch import LaunchResult
    from fedgrid.grids.planning.options import LaunchOptions


def load_launched_grid(name: str, storage: Storage) -> Grid:
    """Load a grid as it was last launched.

    Raises:
        ConfigError: if no grid of that name was launched.
    """
    storage.pull_marks()
    folder = GridFolder(storage, name)
    stored = folder.read_definition()
    runs = stored.runs
    text = folder.read_preset().decode(errors="replace")
    return Grid(name, runs, text, find_naming_keys(runs), source=stored.source)


def run_failed(
    name: str,
    storage: Storage,
    options: LaunchOptions,
    console: Console,
    *,
    trust: bool = False,
) -> LaunchResult:
    """Run the failed runs of a grid again, and no others.

        The plugins that they were launched with must be in use.

    Args:
        name: the grid.
        storage: where it is.
        options: how the runs are launched.
        console: where progress is shown.
        trust: whether plugins that are not in use are taken from the grid's folder, if the files there have
            the digests that the runs name; default False.

    Raises:
        ConfigError: if there is no such grid, none of its runs failed, or a plugin of theirs is missing.
    """
    grid = load_launched_grid(name, storage)
    failed = [run for run in grid.runs if RunFolder(storage, run).read_failure()]
    if not failed:
        raise ConfigError(
            f"no run of {name} failed; `{format_command(storage, 'status', name)}` shows its progress"
        )
    stored_plugins.restore_plugins(GridFolder(storage, name).path, storage, failed, trust=trust)
    return Launcher(storage, options, console).run_unfinished(grid, failed, shows_scores=True)


def _is_damaged(run: RunConfig, storage: Storage) -> bool:
    """Check whether a finished run's files are damaged; warn if they are."""
    reason = find_damage(storage, run)
    if reason:
        warn(f"{reason}: {run.name} is not logged; the next launch repeats it")
    return reason is not None


def sync_grid(
    name: str,
    storage: Storage,
    console: Console,
    trackers: Sequence[str] = DEFAULT_TRACKERS,
    *,
    with_figures: bool = False,
) -> None:
    """Log to trackers the runs and rounds of a grid that they lack; the first tracker that fails ends it.

    Args:
        name: the grid.
        storage: where it is.
        console: where the result is printed.
        trackers: names of the trackers; default: `DEFAULT_TRACKERS`.
        drawn: whether the figures of finished runs are drawn and logged too; default False.

    Raises:
        ConfigError: if there is no such grid or tracker, no tracker is named, or a driver is running it.
        RunError: if a tracker fails, as when MLflow cannot be reached; what it has logged before stays.
    """
    grid = load_launched_grid(name, storage)
    if not trackers:
        raise ConfigError(
            f"--track {NO_TRACKER} (or FEDGRID_TRACK): there is no tracker to log to; name one, as in "
            f"--track {DEFAULT_TRACKERS[0]}"
        )
    # Another driver may be training a run of this grid too.
    keys = make_launch_keys(grid.runs, select_unfinished(grid.runs, storage))
    with Lease(storage, name, keys, warn):
        for run in grid.runs:
            storage.pull(RunFolder(storage, run).path.name, skip=("state-",))
        claim_storage_id(storage)
        intact = [run for run in grid.runs if not _is_damaged(run, storage)]
        tracked = TrackedGrid(name, storage, axes=grid.varied, text=grid.text, is_launch=False)
        # What is logged already is read from the trackers, not from the marks in the folders: this tracker
        # may be another one, or its runs may have been deleted.
        for tracker in map(find_tracker, trackers):
            tracker.check(tracked)
            try:
                num_runs, rounds = TrackerSession(tracker, tracked).sync_runs(
                    intact, with_figures=with_figures
                )
            except TrackerFailed as error:
                raise RunError(f"{error}; run the same command again when it answers") from error
            logged = f"{rounds} rounds of {num_runs} runs logged"
            print_plain(console, f"{logged}; {tracker.title()} has all of {name}")
