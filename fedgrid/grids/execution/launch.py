"""Launch a grid: check it, acquire the lease, start Ray and trackers, execute unfinished runs, shut down."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stdout
from threading import current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console

from fedgrid.engine.runtime.configuration.idle_settings import format_idle_lines
from fedgrid.engine.runtime.leases.driver import list_drivers
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.leases.storage_id import claim_storage_id
from fedgrid.engine.runtime.round_cache.files import FOLDER
from fedgrid.engine.runtime.run.run_folder import RunFolder, build_folder_path
from fedgrid.engine.runtime.storage.atomic import delete_abandoned
from fedgrid.grids.display.plain_console import warn
from fedgrid.grids.display.progress import JsonEvents, ProgressBars, ProgressLines
from fedgrid.grids.display.summary import write_summary
from fedgrid.grids.display.tally import Tally
from fedgrid.grids.execution.executors import Executor, InProcessExecutor, RayExecutor
from fedgrid.grids.execution.watch import LaunchResult, Watch
from fedgrid.grids.planning.checks import check_data, check_stored, find_output_notes
from fedgrid.grids.planning.images import find_group_notes
from fedgrid.grids.planning.keys import make_launch_keys
from fedgrid.grids.results.grid_folder import GRIDS, GridFolder
from fedgrid.grids.results.outcome import is_finished, select_unfinished
from fedgrid.grids.round_cache.retention import Retention

if TYPE_CHECKING:
    from fedgrid.engine.federation.configuration.run_config import RunConfig
    from fedgrid.engine.runtime.storage.storage import Storage
    from fedgrid.grids.display.steps import StepDisplay
    from fedgrid.grids.following.trackers import Trackers
    from fedgrid.grids.planning.options import LaunchOptions
    from fedgrid.grids.presets.grid import Grid


def launch_grid(
    grid: Grid,
    todo: Sequence[RunConfig],
    done: Sequence[RunConfig],
    storage: Storage,
    options: LaunchOptions,
    trackers: Trackers,
    console: Console,
    grown_grids: Iterable[Grid] = (),
) -> LaunchResult:
    """Execute the runs `todo` of a grid, and log to the trackers what they lack of `done`.

    With nothing to do, nothing is started. A grid whose runs other grids have finished is stored all the
    same, for `status` and `report`.

    Args:
        grid: the grid with all its runs.
        todo: the runs to execute.
        done: the runs that are finished already.
        storage: where the grid is stored.
        options: how it is launched.
        trackers: where it is logged.
        console: where progress is shown.
        then: the grids that this one grows to; default: none. Each has more runs than the one before, or lets
            more of its runs continue. The next one is requested from the iterator once the runs of the last
            one have finished or failed.

    Returns:
        The failures and counts of the launch.

    Raises:
        ConfigError, DataError: for wrong settings, missing data, or a run that can never fit on the cluster;
            nothing is started or written then.
        RunError: if the grid as a whole cannot go on.
    """
    # Whatever can be refused without a cluster is refused before anything is started or written.
    check_stored(todo, done, storage, options)
    if todo:
        storage.check_writable()
    if not (todo or trackers.find_lacking_runs(done)) and GridFolder(storage, grid.name).is_launched(grid):
        return LaunchResult()
    if todo:
        _check_runs(todo, options, console)
    executor = InProcessExecutor(options) if options.in_process or not todo else RayExecutor(todo, options)
    cached = options.cache is not None
    keys = make_launch_keys(grid.runs, todo, cached=cached, fresh=options.fresh)
    # Before standard output is redirected.
    view = _choose_view(grid, options, console)
    with ExitStack() as stack:
        # Ray prints messages of its own, until it has shut down.
        stack.enter_context(redirect_stdout(sys.stderr) if options.as_json else nullcontext())
        # The order of the stack is the order of the shutdown, reversed: the view closes first, then trackers
        # end, Ray shuts down, and the lease is released last, when nothing of this launch can write any more.
        lease = stack.enter_context(Lease(storage, grid.name, keys, warn))
        stack.enter_context(trackers.start_processes())
        steps = stack.enter_context(options.open_steps(console, as_lines=True))
        stack.enter_context(executor.start_resources(steps))
        # Before `_prepare_grid`: a run that can never fit on the cluster must leave the grid's folder as it
        # was.
        executor.place_runs(todo)
        _prepare_grid(grid, storage, lease)
        if options.fresh:
            _delete_previous(grid, todo, storage, lease, cached=cached)
        stack.enter_context(trackers.follow_runs(grid.runs, todo if options.fresh else ()))
        watch: Watch | None = None
        # From here on runs are in progress, so a storage that does not respond is retried for minutes;
        # before, that was soon an error. `watch` does not exist yet, hence the closure.
        storage = storage.with_patience(warn, lambda: watch is not None and watch.stopping)
        stack.enter_context(_show_view(view, steps))
        folder = GridFolder(storage, grid.name)
        watch = Watch(
            folder=folder,
            storage=storage,
            tally=_build_tally(grid, todo, storage),
            view=view,
            lease=lease,
            retention=Retention(folder, storage, warn, grows=grown_grids != ()) if cached else None,
            check_cluster=executor.check_capacity,
        )
        with stop_gracefully(watch.request_stop):
            _run_and_grow(grid, todo, grown_grids, executor, watch)
        watch.write_progress()
        written = write_summary(folder.read_runs(), folder)
        trackers.set_end([written], watch.tally.done, len(watch.failures), stopped=watch.stopping)
    return LaunchResult(tuple(watch.failures), watch.tally, watch.stopping)


def _check_runs(todo: Sequence[RunConfig], options: LaunchOptions, console: Console) -> None:
    """Check the data and splits of runs, and warn of what may surprise in them."""
    for line in find_group_notes(todo, options.data_dir):
        warn(line)
    with options.open_steps(console) as steps:
        check_data(todo, options.data_dir, steps)
    for line in (*format_idle_lines(todo), *find_output_notes(todo, options.data_dir)):
        warn(line)


def _run_and_grow(
    grid: Grid, todo: Sequence[RunConfig], grown_grids: Iterable[Grid], executor: Executor, watch: Watch
) -> None:
    """Execute the runs of a grid, and of the grids that it grows to."""
    if watch.retention is not None:
        # States that earlier launches left are evicted first, so that they do not take the room of new
        # entries.
        watch.retention.begin_launch()
    executor.execute_runs(grid, todo, watch)
    growth = iter(grown_grids)
    while not watch.all_stopped and (grown := next(growth, None)) is not None:
        _run_grown_grid(grid, grown, executor, watch)
        grid = grown
    if watch.retention is not None and not watch.stopping:
        watch.retention.conclude_launch(grid.until)


def _run_grown_grid(grid: Grid, grown: Grid, executor: Executor, watch: Watch) -> None:
    """Execute the runs that `grown` adds to `grid`, or that may continue in it, except those that failed."""
    failed = {failure.run_id for failure in watch.failures}
    left = select_unfinished(grown.runs, watch.storage, grown.until)
    todo = [run for run in left if run.run_id not in failed]
    keys = make_launch_keys(grown.runs, todo, cached=watch.retention is not None)
    # The lease first: from here on no other driver may start these runs.
    watch.lease.replace_keys(keys)
    watch.folder.keep(grown.runs, grown.text, grown.source, grown.requested)
    # Runs that continue are counted already.
    _count_new_runs(grid, grown, watch.storage, watch.tally)
    if todo:
        executor.place_runs(todo)
        executor.execute_runs(grown, todo, watch)


def _prepare_grid(grid: Grid, storage: Storage, lease: Lease) -> None:
    """Store the grid's folder, and delete what killed drivers left."""
    # A new storage gets its id before anything of it is logged anywhere under that id.
    claim_storage_id(storage)
    folder = GridFolder(storage, grid.name)
    folder.keep(grid.runs, grid.text, grid.source, grid.requested)
    # A request to stop the last launch must not stop this one.
    folder.withdraw_stop()
    delete_leftovers(storage, grid.name, lease)


def delete_leftovers(storage: Storage, grid: str, lease: Lease) -> None:
    """Delete half-written files of killed writers, in the grid's folder or, as the only driver, everywhere.

    With another driver in the storage, a file that seems abandoned may be of a writer that is slow and
    continues.
    """
    is_alone = [driver.token for driver in list_drivers(storage)] == [lease.token]
    delete_abandoned(storage.root, *([FOLDER, GRIDS] if is_alone else [f"{GRIDS}/{grid}"]))


def _build_tally(grid: Grid, todo: Sequence[RunConfig], storage: Storage) -> Tally:
    """Build the counts of a launch, with the rounds that its runs have already."""
    rounds_done = {run.run_id: RunFolder(storage, run).rounds_done for run in todo}
    finished = sum(is_finished(storage, run) for run in grid.runs)
    return Tally(todo, rounds_done, finished)


def _count_new_runs(grid: Grid, grown: Grid, storage: Storage, tally: Tally) -> None:
    """Count the runs that `grown` has and `grid` does not."""
    before = {run.run_id for run in grid.runs}
    new = [run for run in grown.runs if run.run_id not in before]
    todo = select_unfinished(new, storage)
    rounds_done = {run.run_id: RunFolder(storage, run).rounds_done for run in todo}
    tally.add_runs(todo, rounds_done, len(new) - len(todo))


def _delete_previous(
    grid: Grid,
    todo: Sequence[RunConfig],
    storage: Storage,
    lease: Lease,
    *,
    cached: bool,
) -> None:
    """Delete the runs that are to be executed again, and the cached rounds that they could use."""
    shared_prefixes = {f"{FOLDER}/{run.shared_prefix}" for run in todo} if cached else set()
    storage.remove(*(build_folder_path(storage.root, run).name for run in todo), *sorted(shared_prefixes))
    # Until here the lease held these runs and cached rounds exclusively, so that no driver was reading what
    # is deleted; from here on others may use them again.
    lease.replace_keys(make_launch_keys(grid.runs, todo, cached=cached))


@contextmanager
def _show_view(view: ProgressBars | ProgressLines | JsonEvents, steps: StepDisplay) -> Iterator[None]:
    """Show the runs in place of the steps, within the block."""
    steps.begin_step("Starting the first run")
    steps.remove_line()
    with view:
        yield
    steps.begin_step("Waiting for the trackers")


def _choose_view(
    grid: Grid, options: LaunchOptions, console: Console
) -> ProgressBars | ProgressLines | JsonEvents:
    """Choose how progress is shown: JSON, live bars on a terminal, or lines."""
    if options.as_json:
        return JsonEvents(grid.varied)
    if console.is_terminal:
        return ProgressBars(console, grid.runs, grid.varied)
    return ProgressLines(console, grid.varied, by_round=options.by_round)


@contextmanager
def stop_gracefully(request_stop: Callable[[], None]) -> Iterator[None]:
    """Call `request_stop` at the first SIGINT or SIGTERM of the block; the second raises KeyboardInterrupt.

    Only the main thread may handle signals: in another one nothing changes.
    """
    if current_thread() is not main_thread():
        yield
        return

    def handle_signal(number: int, frame: FrameType | None) -> None:
        # Before the request to stop, which may hang on a storage that does not respond: a second Ctrl-C then
        # still works.
        for one in before:
            signal.signal(one, _raise_interrupt)
        request_stop()

    before = {number: signal.signal(number, handle_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise_interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, as Python's own handler of SIGINT does."""
    raise KeyboardInterrupt
