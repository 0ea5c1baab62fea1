"""The command `fedgrid analyse`: computes something of a grid's finished runs, and shows it.

Results are stored in the runs' folders; what is there is not computed again.
"""

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.leases.storage_id import claim_storage_id
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.analyses.analysis import Analysis, Context, Job
from fedgrid.grids.analyses.execute import Stopped, run_here, run_on_ray
from fedgrid.grids.analyses.mlflow_log import log_to_mlflow
from fedgrid.grids.analyses.report import describe_runs, find_results, select_for_report
from fedgrid.grids.analyses.run_selection import find_runs, split_finished
from fedgrid.grids.analyses.show import ProgressView, collect_facts, show_plan, show_results
from fedgrid.grids.display.plain_console import warn
from fedgrid.grids.planning.checks import check_origins
from fedgrid.grids.planning.keys import make_result_keys
from fedgrid.grids.ray_cluster.cluster import connect_to_ray, find_nodes
from fedgrid.grids.results import stored_plugins
from fedgrid.grids.results.grid_folder import GridFolder


@dataclass(frozen=True)
class AnalysisEnd:
    """How a command ended. Its fields are printed with `--json`."""

    failed: int = 0
    """Number of jobs that failed."""
    stopped: bool = False
    """Whether it ended early because of `fedgrid stop`."""


def analyse_runs(
    analysis: Analysis,
    name: str,
    storage: Storage,
    data_dir: Path,
    options: Any,
    console: Console,
    *,
    filters: Sequence[str] = (),
    in_process: bool = False,
    dry_run: bool = False,
    as_json: bool = False,
    trust: bool = False,
) -> AnalysisEnd:
    """Analyse the finished runs of a grid, or one run, and show the results; what is done is not repeated.

    Args:
        analysis: What is computed.
        name: Name of the grid, or name or id of a run.
        storage: Storage of the runs.
        data_dir: Folder of the data sets.
        options: What the command line sets, as `analysis.jobs` takes it.
        console: Where tables and progress are shown.
        filters: Conditions on runs; those that meet all of them are analysed. None by default.
        in_process: Whether jobs are done in this process instead of on Ray; False by default.
        dry_run: Whether only the plan is shown; False by default.
        as_json: Whether JSON is printed instead of tables; False by default.
        trust: Whether code of plugins in the storage may be executed; False by default.

    Raises:
        ConfigError: Settings are wrong; nothing is started or written.
        DataError: Images are missing; nothing is started or written.
        RunError: The storage cannot be written, or another driver has taken it over.
    """
    # 1. Select the runs and plan the jobs. All that can be refused is refused before anything is written.
    storage.pull_marks()
    grid_name, runs = find_runs(name, storage, filters)
    grid = GridFolder(storage, grid_name)
    stored_plugins.restore_plugins(grid.path, storage, runs, trust=trust)
    finished, waiting = split_finished(grid_name, runs, storage, "analyse")
    context = Context(storage, data_dir, describe_runs(grid.read_runs(), storage))
    jobs = analysis.jobs(finished, options, context)
    for made in check_origins(finished, storage, data_dir, accept=True, imported=None):
        warn(f"{made}; they are analysed with the code and images that are here")
    _, todo = find_results(analysis, jobs, context.runs, storage)
    in_process = in_process or analysis.in_process
    if todo and analysis.on_gpu and not in_process:
        # Refuses GPUs that torch cannot use: they are not silently left for the CPU.
        find_nodes()
    # 2. Show the plan, without the lease: it may be shown while another command works.
    if dry_run:
        show_plan(analysis, jobs, todo, waiting, as_json=as_json, console=console)
        return AnalysisEnd()
    # 3. Do the jobs while no other driver changes these runs.
    with Lease(storage, grid_name, make_result_keys(analysis.folder, finished), warn) as lease:
        # From here on an outage of the storage is waited for: finished jobs must not be lost for it.
        storage = storage.with_patience(warn)
        grid, context = GridFolder(storage, grid_name), replace(context, storage=storage)
        grid.withdraw_stop()
        # Before the jobs: after an interruption the report shows what is done, and says what is missing.
        select_for_report(analysis, grid, jobs)
        result = AnalysisEnd()
        if todo:
            view = ProgressView(analysis, todo, len(jobs) - len(todo), console, quiet=as_json)
            # Ray prints messages of its own, until it has shut down.
            with redirect_stdout(sys.stderr) if as_json else nullcontext():
                result = _run_jobs(analysis, todo, view, context, grid, lease, in_process=in_process)
        # Logging and the summary write to the storage, so the driver checks that it still owns it.
        claim_storage_id(storage)
        results, missing = find_results(analysis, jobs, context.runs, storage)
        in_mlflow = log_to_mlflow(analysis, results, storage, grid)
        summary = analysis.summary(results, missing, options, grid)
    # 4. Show the results, after the lease is given back.
    if as_json:
        counts = {"grid": grid_name, "jobs": len(jobs), "done_before": len(jobs) - len(todo), **vars(result)}
        print(json.dumps({**counts, "mlflow": in_mlflow, **collect_facts(analysis, results, summary)}))
    else:
        show_results(analysis, summary, jobs, todo, grid, console)
    return result


def _run_jobs(
    analysis: Analysis,
    todo: Sequence[Job],
    view: ProgressView,
    context: Context,
    grid: GridFolder,
    lease: Lease,
    *,
    in_process: bool,
) -> AnalysisEnd:
    """Do the jobs that are left, while holding the storage's lease."""

    def check_stop() -> None:
        """End the work if the lease is lost, or `fedgrid stop` was called."""
        lease.check_ownership()
        if grid.is_stop_requested():
            raise Stopped

    with nullcontext() if in_process else connect_to_ray(), view:
        try:
            if in_process:
                run_here(analysis, todo, context, check_stop, view.count_end)
            else:
                run_on_ray(analysis, todo, context, lease.token, check_stop, view.count_end)
        except Stopped:
            return AnalysisEnd(len(view.failures), stopped=True)
    return AnalysisEnd(len(view.failures))
