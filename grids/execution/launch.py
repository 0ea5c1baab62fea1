"""One launch of a grid: takes the lease, starts Ray and MLflow, runs what is not finished, and shuts down."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import replace
from shutil import rmtree

from rich.console import Console

from fedgrid.engine.clients.placement import Placement, at_once, cluster_nodes, most_at_once
from fedgrid.engine.configuration.run_config import RunConfig
from fedgrid.engine.data import own_images
from fedgrid.engine.errors import RunError
from fedgrid.engine.plugins import active
from fedgrid.engine.round_cache import speed
from fedgrid.engine.round_cache.files import FOLDER
from fedgrid.engine.run_folder import RunFolder, folder_of
from fedgrid.engine.storage.atomic import delete_abandoned
from fedgrid.engine.storage.lease import Lease
from fedgrid.engine.storage.storage import Storage
from fedgrid.engine.storage.storage_id import claim
from fedgrid.grids.display.plain import warn
from fedgrid.grids.display.progress import Bars, JsonLines, Lines
from fedgrid.grids.display.summary import write_summary
from fedgrid.grids.execution.import_meanwhile import import_meanwhile
from fedgrid.grids.execution.interrupt import graceful
from fedgrid.grids.execution.launch_types import LaunchOptions, LaunchResult
from fedgrid.grids.execution.watch import Watch
from fedgrid.grids.mlflow_log.mark import push_marks
from fedgrid.grids.mlflow_log.run_log import RunLog
from fedgrid.grids.planning.claims import of_launch
from fedgrid.grids.planning.cluster import actors_at_once, connected, known_nodes, placements
from fedgrid.grids.planning.start_order import in_order
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.results.grid_folder import GRIDS, GridFolder
from fedgrid.grids.results.outcome import is_finished, unfinished
from fedgrid.grids.results.tally import Tally
from fedgrid.grids.round_cache.retention import Retention


def launch(
    grid: Grid,
    todo: Sequence[RunConfig],
    unlogged: Sequence[RunConfig],
    storage: Storage,
    options: LaunchOptions,
    log: RunLog,
    console: Console,
    then: Iterable[Grid] = (),
) -> LaunchResult:
    """Run `todo`, which has been checked, and log to MLflow the finished runs that it lacks.

    Args:
        then: the grids that this one grows to. Each has more runs than the one before, or lets more of its
            runs go on. The next one is asked for once the runs of the last one have finished or failed.

    Raises:
        ConfigError: if a run can never fit on the cluster; nothing is started or written then.
        RunError: if the grid as a whole cannot go on.
    """
    with_ray = bool(todo) and not options.in_process
    workers = _check_room(todo, options) if with_ray else 0
    folder = GridFolder(storage, grid.name)
    view = _view(grid, options, console)
    with ExitStack() as stack:
        if options.as_json:
            # Ray prints messages of its own, until it has shut down.
            stack.enter_context(redirect_stdout(sys.stderr))
        cached = options.cache is not None
        claims = of_launch(grid.runs, todo, cached=cached, fresh=options.fresh)
        lease = stack.enter_context(Lease(storage, grid.name, claims, warn))
        stack.enter_context(log.own_process())
        if with_ray and not options.as_json:
            console.print("Starting Ray ...")
        if with_ray:
            # Starting Ray is mostly waiting: for its own processes.
            import_meanwhile("fedgrid.grids.execution.tune")
            stack.enter_context(connected(workers))
        places = _places(todo, options) if with_ray else {}
        folder.keep(grid.runs, grid.text, grid.source)
        folder.withdraw_stop()
        sweep(storage, grid.name, lease)
        claim(storage)
        if todo and options.cache is not None:
            options = replace(options, cache=replace(options.cache, speed=speed.measure(storage, FOLDER)))
        log.text = grid.text
        if options.fresh:
            _forget(todo, storage, options, log)
            lease.extend(of_launch(grid.runs, todo, cached=cached))
        stack.enter_context(log)
        lease.confirm()
        storage = storage.patient(warn)
        folder = GridFolder(storage, grid.name)
        for run in unlogged:
            log.finish(run, "FINISHED")
        stack.enter_context(view)
        retention = Retention(folder, storage, warn, grows=then != ()) if options.cache is not None else None
        if retention is not None:
            retention.begin()
        watch = Watch(
            folder=folder,
            storage=storage,
            tally=_tally(grid, todo, storage),
            log=log,
            view=view,
            lease=lease,
            retention=retention,
            check_cluster=lambda: _still_fits(places),
        )
        with graceful(watch.ask_to_stop):
            _run(grid, todo, places, storage, options, watch)
            growth = iter(then)
            while not watch.all_stopped and (grown := next(growth, None)) is not None:
                failed = {failure.config.run_id for failure in watch.failures}
                todo = [
                    run for run in unfinished(grown.runs, storage, grown.until) if run.run_id not in failed
                ]
                lease.extend(of_launch(grown.runs, todo, cached=cached))
                folder.keep(grown.runs, grown.text, grown.source)
                _count_new(grid, grown, storage, watch.tally)
                grid = grown
                if todo:
                    places = _places(todo, options) if with_ray else {}
                    _run(grid, todo, places, storage, options, watch)
            if retention is not None and not watch.stopping:
                retention.conclude(grid.until)
        watch.write_progress()
        summary = write_summary(folder.runs(), storage, folder.path)
        log.summary([summary], watch.tally.done, len(watch.failures), stopped=watch.stopping)
    push_marks(grid.runs, storage)
    return LaunchResult(tuple(watch.failures), watch.tally, watch.stopping)


def sweep(storage: Storage, grid: str, lease: Lease) -> None:
    """Delete the files that killed writers left half written: below the grid, and everywhere if it is alone.

    A writer of another driver may hang, and go on later.
    """
    delete_abandoned(storage.root, *([f"{GRIDS}/{grid}"] if lease.others() else [FOLDER, GRIDS]))


def _run(
    grid: Grid,
    runs: Sequence[RunConfig],
    places: Mapping[int, Placement],
    storage: Storage,
    options: LaunchOptions,
    watch: Watch,
) -> None:
    """Run all `runs`: on Ray if they have placements, else in this process."""
    if not places:
        # Imports torch, which a driver of actors does without.
        from fedgrid.grids.execution.in_process import run_in_process

        run_in_process(
            in_order(runs),
            storage,
            options.data_dir,
            watch,
            options.retries,
            grid.until,
            options.cache,
            accept_changes=options.accept_changes,
        )
        return
    # Importing Ray Tune takes a second.
    from fedgrid.grids.execution.server_trainable import LaunchContext
    from fedgrid.grids.execution.tune import run_trials

    side_by_side = most_at_once(places.values(), cluster_nodes()) if options.cache is not None else 1
    runs = in_order(runs, max(1, side_by_side))
    until = dict(grid.until)
    plugins = active.sources(digest for run in runs for digest in run.plugin_digests)
    context = LaunchContext(
        grid.name,
        runs,
        places,
        storage,
        options.data_dir,
        watch.lease.token,
        until,
        options.cache,
        plugins,
        own_images.places(name for run in runs for name in run.own_images),
        options.accept_changes,
    )
    run_trials(context, watch, options.retries)


def _places(runs: Sequence[RunConfig], options: LaunchOptions) -> Mapping[int, Placement]:
    nodes, request = cluster_nodes(), options.request
    if any(node.gpus for node in nodes):
        # Imports torch, which a driver of actors does without.
        from fedgrid.grids.planning.gpu_share import measure_on_cluster, with_measured_share

        request = with_measured_share(runs, nodes, request, options.data_dir, measure_on_cluster)
    return placements(runs, nodes, request, by_shared_prefix=options.cache is not None)


def _tally(grid: Grid, todo: Sequence[RunConfig], storage: Storage) -> Tally:
    rounds_done = {run.run_id: RunFolder(storage, run).rounds_done for run in todo}
    finished = sum(is_finished(storage, run) for run in grid.runs)
    return Tally(todo, rounds_done, finished)


def _count_new(grid: Grid, grown: Grid, storage: Storage, tally: Tally) -> None:
    """Count the runs that `grown` has and `grid` does not."""
    known = {run.run_id for run in grid.runs}
    new = [run for run in grown.runs if run.run_id not in known]
    todo = unfinished(new, storage)
    rounds_done = {run.run_id: RunFolder(storage, run).rounds_done for run in todo}
    tally.add(todo, rounds_done, len(new) - len(todo))


def _check_room(todo: Sequence[RunConfig], options: LaunchOptions) -> int:
    """Refuse runs that can never fit, before Ray is started, if the cluster's nodes are known.

    Return how many actors the runs will have at the same time, 0 if the nodes are not known.
    """
    nodes = known_nodes()
    if nodes is None:
        return 0
    return actors_at_once(todo, nodes, options.request, by_shared_prefix=options.cache is not None)


def _still_fits(places: Mapping[int, Placement]) -> None:
    """Check that at least one placement still fits on the cluster, which may have lost nodes.

    Raises:
        RunError: if none does.
    """
    nodes = cluster_nodes()
    if places and not any(at_once(placement, nodes) for placement in places.values()):
        raise RunError(
            f"the cluster has shrunk to {len(nodes)} nodes, and no run fits on them; add nodes, or repeat "
            "the command with --clients-per-actor for fewer actors"
        )


def _forget(runs: Sequence[RunConfig], storage: Storage, options: LaunchOptions, log: RunLog) -> None:
    """Delete these runs on disk and in MLflow, and all cached rounds that they could use."""
    log.forget(runs)
    shared_prefixes = (
        {f"{FOLDER}/{run.shared_prefix}" for run in runs} if options.cache is not None else set()
    )
    for name in (*(folder_of(storage.root, run).name for run in runs), *sorted(shared_prefixes)):
        storage.remove(name)
        rmtree(storage.root / name, ignore_errors=True)


def _view(grid: Grid, options: LaunchOptions, console: Console) -> Bars | Lines | JsonLines:
    if options.as_json:
        return JsonLines(grid.varied)
    return Bars(console, grid.runs, grid.varied) if console.is_terminal else Lines(console, grid.varied)
