"""One launch of a grid: takes the lease, starts Ray and MLflow, runs what is left, and ends them again."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stdout
from shutil import rmtree

from rich.console import Console

from engine.errors import RunError
from engine.resources import Placement, at_once, cluster_nodes, most_at_once
from engine.round_store import FOLDER
from engine.run_config import RunConfig
from engine.run_folder import RunFolder, folder_of
from engine.storage import Storage
from grids.checks import check_data, check_storage
from grids.cluster import connected, known_nodes, placements
from grids.commands import warn
from grids.ended import Ended
from grids.grid_folder import GridFolder
from grids.how import How
from grids.in_process import run_in_process
from grids.interrupt import graceful
from grids.lease import Lease
from grids.order import in_order
from grids.outcome import is_finished, unfinished
from grids.presets import Grid
from grids.report import Bars, JsonLines, Lines
from grids.results import write_summary
from grids.retention import Retention
from grids.run_writer import MARK
from grids.tally import Tally
from grids.track import RunLog
from grids.watch import Watch


def launch(
    grid: Grid,
    todo: Sequence[RunConfig],
    unlogged: Sequence[RunConfig],
    storage: Storage,
    how: How,
    log: RunLog,
    console: Console,
    then: Iterable[Grid] = (),
) -> Ended:
    """Run `todo`, and let MLflow have the finished runs that it lacks.

    `then` are the grids that this one grows to: each has more runs than the one before, or lets more of
    them go on, and is asked for when those that may go on have ended or failed.

    Raises:
        ConfigError, DataError: for what cannot be, before anything is started or written.
        RunError: if the grid as a whole cannot go on.
    """
    if todo:
        check_storage(grid.runs, storage)
        check_data(todo, how.data_dir)
        _check_room(todo, how)
    with_ray = bool(todo) and not how.in_process
    folder = GridFolder(storage, grid.name)
    reporter = _reporter(grid, how, console)
    with ExitStack() as stack:
        if how.as_json:
            # Ray prints news of its own, up to its very end.
            stack.enter_context(redirect_stdout(sys.stderr))
        lease = stack.enter_context(Lease(storage, grid.name))
        with _waiting(console, how, "Starting Ray and MLflow" if with_ray else "Starting MLflow"):
            stack.enter_context(connected() if with_ray else nullcontext())
            places = _places(todo, how) if with_ray else {}
            folder.keep(grid.runs, grid.text)
            folder.withdraw_stop()
            log.prepare(grid.text)
            if how.fresh:
                _forget(todo, storage, how, log)
            stack.enter_context(log)
        for run in unlogged:
            log.finish(run, "FINISHED")
        stack.enter_context(reporter)
        retention = Retention(folder, storage, warn, grows=then != ()) if how.store is not None else None
        if retention is not None:
            retention.begin()
        watch = Watch(
            folder=folder,
            storage=storage,
            tally=_tally(grid, todo, storage),
            log=log,
            reporter=reporter,
            lease=lease,
            retention=retention,
            check_cluster=lambda: _still_fits(places),
        )
        with graceful(watch.ask_to_stop):
            _run(grid, todo, places, storage, how, watch)
            growth = iter(then)
            while not watch.all_stopped and (grown := next(growth, None)) is not None:
                folder.keep(grown.runs, grown.text)
                _count_new(grid, grown, storage, watch.tally)
                grid, failed = grown, {failure.config.run_id for failure in watch.failures}
                todo = [run for run in unfinished(grid.runs, storage, grid.until) if run.run_id not in failed]
                if todo:
                    places = _places(todo, how) if with_ray else {}
                    _run(grid, todo, places, storage, how, watch)
            if retention is not None and not watch.stopping:
                retention.conclude(grid.until)
        watch.conclude()
        summary = write_summary(grid.runs, storage, folder.path)
        log.summary([summary], watch.tally.done, len(watch.failures))
    _push_what_mlflow_has(grid, storage)
    return Ended(tuple(watch.failures), watch.tally, watch.stopping)


def _run(
    grid: Grid,
    runs: Sequence[RunConfig],
    places: Mapping[int, Placement],
    storage: Storage,
    how: How,
    watch: Watch,
) -> None:
    """Run all `runs`, with Ray if they are placed."""
    if not places:
        run_in_process(in_order(runs), storage, how.data_dir, watch, how.retries, grid.until, how.store)
        return
    # It brings Ray Tune, which takes a second.
    from grids.trial import Job
    from grids.tune import run_trials

    side_by_side = most_at_once(places.values(), cluster_nodes()) if how.store is not None else 1
    runs = in_order(runs, max(1, side_by_side))
    job = Job(grid.name, runs, places, storage, how.data_dir, dict(grid.until), how.store)
    run_trials(job, watch, how.retries)


def _places(runs: Sequence[RunConfig], how: How) -> Mapping[int, Placement]:
    return placements(runs, cluster_nodes(), how.request, by_trunk=how.store is not None)


def _push_what_mlflow_has(grid: Grid, storage: Storage) -> None:
    """Let the next driver know, wherever it is, what need not be logged again."""
    marks = (folder_of(storage.root, run) / MARK for run in grid.runs)
    storage.push(*(f"{mark.parent.name}/{mark.name}" for mark in marks if mark.exists()))


def _tally(grid: Grid, todo: Sequence[RunConfig], storage: Storage) -> Tally:
    rounds_done = {run.run_id: RunFolder(storage, run).rounds_done for run in todo}
    finished = sum(is_finished(storage, run) for run in grid.runs)
    return Tally(todo, rounds_done, finished)


def _count_new(grid: Grid, grown: Grid, storage: Storage, tally: Tally) -> None:
    """Count the runs that a grid has grown by."""
    known = {run.run_id for run in grid.runs}
    new = [run for run in grown.runs if run.run_id not in known]
    todo = unfinished(new, storage)
    rounds_done = {run.run_id: RunFolder(storage, run).rounds_done for run in todo}
    tally.add(todo, rounds_done, len(new) - len(todo))


def _check_room(todo: Sequence[RunConfig], how: How) -> None:
    """Refuse what can never fit before Ray is started, where that is known."""
    nodes = None if how.in_process else known_nodes()
    if nodes is not None:
        placements(todo, nodes, how.request, by_trunk=how.store is not None)


def _still_fits(places: Mapping[int, Placement]) -> None:
    """Fail where nodes are gone for good and nothing could ever start again.

    Raises:
        RunError: if not one of the placements fits.
    """
    nodes = cluster_nodes()
    if places and not any(at_once(placement, nodes) for placement in places.values()):
        raise RunError(
            f"the cluster has shrunk to {len(nodes)} nodes, on which no run fits any more; bring nodes back, "
            "or give the same command with --clients-per-actor for fewer actors"
        )


def _forget(runs: Sequence[RunConfig], storage: Storage, how: How, log: RunLog) -> None:
    """Delete what is kept of these runs, on disk and in MLflow, and all rounds that they could take."""
    log.forget(runs)
    trunks = {f"{FOLDER}/{run.trunk}" for run in runs} if how.store is not None else set()
    for name in (*(folder_of(storage.root, run).name for run in runs), *sorted(trunks)):
        storage.remove_folder(name)
        rmtree(storage.root / name, ignore_errors=True)


@contextmanager
def _waiting(console: Console, how: How, what: str) -> Iterator[None]:
    """Say what takes seconds: a spinner on a terminal, a line in a log."""
    if how.as_json:
        yield
    elif console.is_terminal:
        with console.status(f"{what} ..."):
            yield
    else:
        console.print(f"{what} ...")
        yield


def _reporter(grid: Grid, how: How, console: Console) -> Bars | Lines | JsonLines:
    if how.as_json:
        return JsonLines()
    return Bars(console, grid.runs, grid.varied) if console.is_terminal else Lines(console, grid.varied)
