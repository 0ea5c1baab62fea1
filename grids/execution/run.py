"""What `fedgrid run` and `fedgrid retry` do, once their options are read."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape

from fedgrid.engine.clients.placement import Request
from fedgrid.engine.errors import ConfigError
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.display.summary import show, tell_finished
from fedgrid.grids.execution.launch_types import LaunchOptions, LaunchResult
from fedgrid.grids.mlflow_log.run_log import RunLog
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.results.outcome import is_finished


def run_grid(
    grid: Grid,
    storage: Storage,
    options: LaunchOptions,
    console: Console,
    only: Sequence[RunConfig] | None = None,
) -> LaunchResult:
    """Run what is not finished of a grid (or `only` some of its runs) and show the results.

    Raises:
        ConfigError, DataError: for what cannot be, before anything is started or written.
        RunError: if the grid as a whole cannot go on.
    """
    log = RunLog(grid.name, storage.root, warn, axes=grid.varied)
    storage.pull_marks()
    chosen = grid.runs if only is None else only
    todo = [run for run in chosen if options.fresh or not is_finished(storage, run)]
    waiting = {run.run_id for run in todo}
    done = [run for run in chosen if run.run_id not in waiting]
    ended = run_left(grid, todo, done, storage, options, log, console)
    if not options.as_json:
        show(grid, storage, log.uri, ended.failures, ended.tally, console)
    else:
        tell_finished(done, storage, grid.varied)
    return ended


def run_left(
    grid: Grid,
    todo: Sequence[RunConfig],
    done: Sequence[RunConfig],
    storage: Storage,
    options: LaunchOptions,
    log: RunLog,
    console: Console,
    then: Iterable[Grid] = (),
) -> LaunchResult:
    """Run `todo`, log those that are `done` where MLflow lacks them; nothing to do starts nothing.

    `then` and the errors are as of `launch`.
    """
    if options.in_process and options.request != Request():
        raise ConfigError("--in-process has no actors: leave it out, or the options about clients per actor")
    unlogged = [run for run in done if not log.is_logged(run)]
    if not (todo or unlogged):
        return LaunchResult()
    # It brings what trains, which takes seconds.
    from fedgrid.grids.execution.launch import launch

    return launch(grid, todo, unlogged, storage, options, log, console, then)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    line = f"[yellow]warning:[/] {escape(text)}"
    Console(stderr=True).print(line, highlight=False, soft_wrap=True, emoji=False)
