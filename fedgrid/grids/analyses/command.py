"""A command that analyses the finished runs of a grid, keeps the results, and shows them."""

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.leases.storage_id import claim
from fedgrid.engine.runtime.storage.hints import command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.analyses.analysis import Analysis, Context, Job
from fedgrid.grids.analyses.choose import find_finished, find_runs, split_finished
from fedgrid.grids.analyses.execute import (
    Stopped,
    count_cores,
    run_here,
    run_on_ray,
)
from fedgrid.grids.analyses.mlflow_log import log_to_mlflow
from fedgrid.grids.analyses.report import describe_runs, find_results, note_asked
from fedgrid.grids.analyses.show import ProgressView, show_plan, show_results
from fedgrid.grids.display.plain import warn
from fedgrid.grids.planning.checks import check_origins
from fedgrid.grids.planning.keys import make_result_keys
from fedgrid.grids.ray_cluster.cluster import connected, known_nodes
from fedgrid.grids.results import kept_plugins
from fedgrid.grids.results.grid_folder import GridFolder


@dataclass(frozen=True)
class How:
    """How a command works and what it prints."""

    in_process: bool = False
    dry_run: bool = False
    as_json: bool = False
    trust: bool = False
    """Whether it may execute the code of plugins that is kept in the storage."""


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    failed: int = 0
    """Number of jobs that failed."""
    stopped: bool = False
    """Whether it ended early because the grid was asked to stop."""


def analyse(
    analysis: Analysis,
    name: str,
    storage: Storage,
    data_dir: Path,
    asked: Any,
    console: Console,
    *,
    filters: Sequence[str] = (),
    how: How,
) -> Result:
    """Analyse the finished runs of a grid, or one run, and show the results; what is done is not repeated.

    `asked` is what the command line asks for, as `analysis.jobs` takes it.

    Raises:
        ConfigError, DataError: for wrong settings or missing data, before anything is started or written.
        RunError: if the storage cannot be written, or another driver has taken it over.
    """
    storage.pull_marks()
    grid_name, runs = find_runs(name, storage, filters)
    grid = GridFolder(storage, grid_name)
    kept_plugins.restore(grid.path, storage, runs, trust=how.trust)
    finished, waiting = split_finished(name, runs, storage, analysis.verb)
    context = Context(storage, data_dir, describe_runs(grid.runs(), storage))
    jobs = analysis.jobs(finished, asked, context)
    for made in check_origins(finished, storage, data_dir, accept=True, imported=None):
        warn(f"{made}; they are {analysis.participle} with the code and images that are here")
    _, todo = find_results(analysis, jobs, context.runs, storage)
    in_process = how.in_process or analysis.in_process
    if todo and analysis.on_gpu and not in_process:
        # Refuses GPUs that torch cannot use: they are not silently left for the CPU.
        known_nodes()
    if waiting:
        warn(_skipped(waiting, len(runs), command(storage, "status", grid_name)))
    if how.dry_run:
        cores = count_cores(in_process=in_process)
        rows = list(analysis.plan(jobs, todo, data_dir, cores))
        show_plan(rows, cores, waiting, as_json=how.as_json, console=console)
        return Result()
    with Lease(storage, grid_name, make_result_keys(analysis.folder, finished), warn) as lease:
        storage = storage.patient(warn)
        grid, context = GridFolder(storage, grid_name), replace(context, storage=storage)
        grid.withdraw_stop()
        shown = _shown(analysis, jobs, asked, grid, context)
        note_asked(analysis, grid, shown)
        result = _work(analysis, todo, len(jobs) - len(todo), context, grid, lease, console, how)
        claim(storage)
        results, missing = find_results(analysis, shown, context.runs, storage)
        in_mlflow = log_to_mlflow(analysis, results, storage, grid)
        summary = analysis.summary(results, missing, asked, grid)
    counts = {"grid": grid_name, "jobs": len(jobs), "done_before": len(jobs) - len(todo)}
    if how.as_json:
        print(json.dumps({**counts, **vars(result), "mlflow": in_mlflow, **summary.facts}))
    else:
        show_results(analysis, summary, todo, console)
    return result


def _shown(
    analysis: Analysis, jobs: Sequence[Job], asked: Any, grid: GridFolder, context: Context
) -> Sequence[Job]:
    """Return the jobs whose results are shown: those of all finished runs of the grid, or those of `jobs`."""
    if not analysis.whole_grid:
        return jobs
    return analysis.jobs(find_finished(grid.runs(), context.storage), asked, context)


def _work(
    analysis: Analysis,
    todo: Sequence[Job],
    before: int,
    context: Context,
    grid: GridFolder,
    lease: Lease,
    console: Console,
    how: How,
) -> Result:
    """Do the jobs that are left, while holding the storage's lease; `before` are done already."""
    if not todo:
        return Result()

    def tick() -> None:
        lease.check()
        if grid.stop_asked():
            raise Stopped

    in_process = how.in_process or analysis.in_process
    with ExitStack() as stack:
        if how.as_json:
            # Ray prints messages of its own, until it has shut down.
            stack.enter_context(redirect_stdout(sys.stderr))
        if not in_process:
            stack.enter_context(connected())
        shown = stack.enter_context(ProgressView(analysis, todo, before, console, quiet=how.as_json))
        try:
            if in_process:
                run_here(analysis, todo, replace(context, done=shown.done), tick, shown.ended)
            else:
                run_on_ray(analysis, todo, context, lease.token, tick, shown.ended)
        except Stopped:
            return Result(len(shown.failures), stopped=True)
    return Result(len(shown.failures))


def _skipped(waiting: Sequence[str], total: int, next_step: str) -> str:
    """Return a sentence with the runs, by name, that are not analysed."""
    verb = "is" if len(waiting) == 1 else "are"
    return (
        f"{len(waiting)} of {total} runs {verb} not finished, or damaged, and skipped: {_named(waiting)}; "
        f"`{next_step}` says more"
    )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
