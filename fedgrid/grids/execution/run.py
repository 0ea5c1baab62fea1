"""`fedgrid run` and `fedgrid retry`: find what is left to run, plan or launch it, and show the results."""

from collections.abc import Iterable, Sequence

from rich.console import Console

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.configuration.idle_settings import idle_lines
from fedgrid.engine.runtime.run.run_folder import RunFolder
from fedgrid.engine.runtime.storage.format import next_step
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.plain import warn
from fedgrid.grids.display.summary import print_finished, show
from fedgrid.grids.display.tables import failure_table
from fedgrid.grids.execution.launch_types import LaunchOptions, LaunchResult
from fedgrid.grids.mlflow_log.run_log import RunLog
from fedgrid.grids.planning.checks import check_data, check_storage
from fedgrid.grids.planning.origins import check_origins
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.results.axes import naming_keys
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import damage, is_finished, trusting_times
from fedgrid.grids.results.source import check_source

__all__ = ["Grid", "LaunchOptions", "LaunchResult", "RunConfig", "Storage", "plan_grid", "run_grid"]
"""Plans and runs a grid, and what that takes and returns."""


def plan_grid(
    grid: Grid, storage: Storage, options: LaunchOptions, console: Console, stacking: str = ""
) -> None:
    """Show what `run_grid` would do, as `dry_run`, on the nodes that it would use."""
    # They import torch and look for Ray, which a launch of actors does later.
    from fedgrid.grids.planning.dry_run import dry_run
    from fedgrid.grids.ray_cluster.cluster import nodes_to_run_on

    dry_run(
        grid,
        storage,
        options.data_dir,
        nodes_to_run_on(in_process=options.in_process, request=options.request),
        options.request,
        with_cache=options.cache is not None,
        as_json=options.as_json,
        console=console,
        stacking=stacking,
    )


def run_grid(
    grid: Grid,
    storage: Storage,
    options: LaunchOptions,
    console: Console,
    only: Sequence[RunConfig] | None = None,
    *,
    shows_scores: bool = True,
) -> LaunchResult:
    """Run the unfinished runs of a grid (or `only` some of its runs) and show the results.

    Without `shows_scores` only its failures are shown at the end.

    Raises:
        ConfigError, DataError: for wrong settings or missing data, before anything is started or written.
        RunError: if the grid as a whole cannot go on.
    """
    axes = tuple(dict.fromkeys((*grid.varied, *naming_keys(grid.runs))))
    log = RunLog(grid.name, storage, warn, axes=axes)
    storage.pull_marks()
    chosen = grid.runs if only is None else only
    check_source(grid, storage)
    with trusting_times(storage):
        result, done = _run_chosen(grid, chosen, storage, options, log, console)
        if options.as_json:
            print_finished(done, storage, grid.varied)
        elif shows_scores:
            show(grid, storage, log.uri, result.failures, result.tally, console, per_run=options.per_run)
        elif result.failures:
            console.print(failure_table(result.failures))
        return result


def _run_chosen(
    grid: Grid,
    chosen: Sequence[RunConfig],
    storage: Storage,
    options: LaunchOptions,
    log: RunLog,
    console: Console,
) -> tuple[LaunchResult, Sequence[RunConfig]]:
    """Return how the launch ended, and the runs that were finished before."""
    if not options.fresh:
        for note in check_origins(chosen, storage, options.data_dir, accept=options.accept_changes):
            warn(f"accepted: {note}")
    todo = [run for run in chosen if options.fresh or not is_finished(storage, run)]
    for run in todo if not options.fresh else ():
        if damaged := damage(storage, run):
            RunFolder(storage, run).check_config()
            warn(next_step(damaged, f"it is set aside, and {run.name} is run again"))
    waiting = {run.run_id for run in todo}
    done = [run for run in chosen if run.run_id not in waiting]
    return launch_remaining(grid, todo, done, storage, options, log, console), done


def launch_remaining(
    grid: Grid,
    todo: Sequence[RunConfig],
    done: Sequence[RunConfig],
    storage: Storage,
    options: LaunchOptions,
    log: RunLog,
    console: Console,
    then: Iterable[Grid] = (),
) -> LaunchResult:
    """Run `todo`, and log those of `done` that MLflow lacks. If nothing is left to do, nothing is started.

    A grid that other grids have finished is written down all the same, for `status` and `report`.

    `then` is as in `launch`.

    Raises:
        ConfigError, DataError: for wrong settings or missing data, before anything is started or written.
        RunError: if the grid as a whole cannot go on.
    """
    unlogged = [run for run in done if not log.is_logged(run)]
    if not (todo or unlogged) and GridFolder(storage, grid.name).is_launched(grid):
        return LaunchResult()
    if todo:
        check_storage(grid.runs, storage)
        with options.steps(console) as steps:
            check_data(todo, options.data_dir, steps)
        for line in idle_lines(todo):
            warn(line)
    # Importing torch takes seconds.
    from fedgrid.grids.execution.launch import launch

    return launch(grid, todo, unlogged, storage, options, log, console, then)
