"""`fedgrid explain`: explain the images of finished runs from their states, and show the scores."""

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

from rich.console import Console

from fedgrid.engine.configuration.run_config import RunConfig
from fedgrid.engine.storage.atomic import ASIDE
from fedgrid.engine.storage.lease import Lease
from fedgrid.engine.storage.storage import Storage
from fedgrid.engine.storage.storage_id import claim
from fedgrid.grids.display.plain import print_plain, warn
from fedgrid.grids.display.tables import page_table
from fedgrid.grids.explain import chosen, mlflow_log
from fedgrid.grids.explain.choose import Asked, find_runs, jobs_of
from fedgrid.grids.explain.dry_run import show_plan
from fedgrid.grids.explain.execute import Stopped, run_here, run_on_ray
from fedgrid.grids.explain.job import Job, JobFiles
from fedgrid.grids.explain.progress import Shown
from fedgrid.grids.explain.read import ReadJob, read_jobs, summarised
from fedgrid.grids.mlflow_log.run_log import artifact_root
from fedgrid.grids.mlflow_log.run_writer import Writer
from fedgrid.grids.planning.claims import of_further_results
from fedgrid.grids.planning.cluster import connected, nodes_to_run_on
from fedgrid.grids.planning.origins import check_origins
from fedgrid.grids.results import kept_plugins
from fedgrid.grids.results.axes import further_axes
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.tracking.explained.results import ExplainedGrid, sentence
from fedgrid.tracking.explained.tables import own_scores
from fedgrid.tracking.mlflow.store import TrackingError, tracking_uri
from fedgrid.tracking.scoring.explanations import DISTRIBUTIONS, OWN_SCORES, of_runs


@dataclass(frozen=True)
class Explanation:
    """How `explain_grid` ended."""

    failed: int = 0
    """Number of jobs that failed."""
    stopped: bool = False
    """Whether it ended early because the grid was asked to stop."""


def explain_grid(
    name: str,
    storage: Storage,
    data_dir: Path,
    asked: Asked,
    filters: Sequence[str],
    console: Console,
    *,
    in_process: bool,
    dry_run: bool,
    as_json: bool,
) -> Explanation:
    """Explain the finished runs of a grid, or one run, and show the scores; what is done is not repeated.

    Raises:
        ConfigError, DataError: for wrong settings or missing data, before anything is started or written.
        RunError: if the storage cannot be written, or another driver has taken it over.
    """
    storage.pull_marks()
    grid_name, runs = find_runs(name, storage, filters)
    grid = GridFolder(storage, grid_name)
    kept_plugins.restore(grid.path, storage, runs)
    jobs, waiting = jobs_of(runs, asked, storage, data_dir)
    for made in check_origins([job.config for job in jobs[:: len(asked.on)]], storage, data_dir, accept=True):
        warn(f"{made}; they are explained by what is here")
    for run in dict.fromkeys(JobFiles(storage, job).run.name for job in jobs):
        storage.pull(run, skip=("state-", "figures/", ASIDE))
    todo = [job for job in jobs if JobFiles(storage, job).about() is None]
    if dry_run:
        show_plan(jobs, todo, waiting, data_dir, nodes_to_run_on(), as_json=as_json, console=console)
        return Explanation()
    if waiting:
        warn(f"{len(waiting)} of {len(runs)} runs are not finished and were skipped: {_named(waiting)}")
    claims = of_further_results("explanations", (job.config for job in jobs))
    with Lease(storage, grid_name, claims, warn) as lease:
        lease.confirm()
        storage = storage.patient(warn)
        grid = GridFolder(storage, grid_name)
        grid.withdraw_stop()
        chosen.note(grid, jobs)
        result = _work(todo, jobs, storage, grid, data_dir, lease, console, here=in_process, quiet=as_json)
        claim(storage)
        read = list(read_jobs(jobs, grid.runs(), storage))
        in_mlflow = _log(jobs, read, storage, grid)
    summary = summarised(read, missing=len(jobs) - len(read))
    if as_json:
        print(json.dumps(_as_json(grid_name, summary, jobs, todo, result, mlflow=in_mlflow)))
    else:
        _show(grid_name, summary, todo, console)
    return result


def _work(
    todo: Sequence[Job],
    jobs: Sequence[Job],
    storage: Storage,
    grid: GridFolder,
    data_dir: Path,
    lease: Lease,
    console: Console,
    *,
    here: bool,
    quiet: bool,
) -> Explanation:
    """Do the jobs that are left, while holding the storage's lease."""
    if not todo:
        return Explanation()

    def tick() -> None:
        lease.check()
        if grid.stop_asked():
            raise Stopped

    with ExitStack() as stack:
        if quiet:
            # Ray prints messages of its own, until it has shut down.
            stack.enter_context(redirect_stdout(sys.stderr))
        if not here:
            stack.enter_context(connected())
        shown = stack.enter_context(Shown(todo, len(jobs) - len(todo), console, quiet=quiet))
        try:
            if here:
                run_here(todo, storage, data_dir, tick, shown.explained, shown.ended)
            else:
                run_on_ray(todo, storage, data_dir, lease.token, tick, shown.ended)
        except Stopped:
            return Explanation(len(shown.failures), stopped=True)
    return Explanation(len(shown.failures))


def _log(jobs: Sequence[Job], read: Sequence[ReadJob], storage: Storage, grid: GridFolder) -> bool:
    """Log to MLflow what it lacks; return whether it has all of it. If it fails, a warning says so."""
    found = {f"{each.run.run_id} {each.settings.key}": each for each in read}
    configs: Sequence[RunConfig] = grid.runs()
    try:
        uri = tracking_uri(storage.root)
        artifacts = artifact_root(storage.root)
        writer = Writer(uri, grid.name, storage.root, artifacts, further_axes(configs))
        unknown = mlflow_log.log(jobs, found, storage, writer, uri)
    except TrackingError as error:
        warn(f"{error}; the explanations are on disk, and the same command logs them when MLflow is back")
        return False
    if unknown:
        warn(f"MLflow does not know {unknown} of the runs: `fedgrid sync {grid.name}`, then the same command")
    return not unknown


def _show(name: str, summary: ExplainedGrid, todo: Sequence[Job], console: Console) -> None:
    if summary.explained:
        for clients in sorted({each.scenario[1] for each in summary.explained}):
            part = summary.of_clients(clients)
            for on in DISTRIBUTIONS:
                if any(each.on == on for each in part.explained):
                    console.print(page_table(own_scores(part.explained, on), console.width))
        print_plain(console, summary.about)
        for text in (*(sentence(summary, on) for on in DISTRIBUTIONS), *summary.lacking):
            if text:
                print_plain(console, text)
    if not todo:
        print_plain(console, "already explained")
    print_plain(console, f"Curves, maps and tests:  fedgrid report {name}")


def _as_json(
    name: str,
    summary: ExplainedGrid,
    jobs: Sequence[Job],
    todo: Sequence[Job],
    result: Explanation,
    *,
    mlflow: bool,
) -> dict[str, Any]:
    rows = [
        {"on": on, "algorithm": algorithm, "scenario": list(scenario), "seed": seed, "score": score.name}
        | {"value": None if isnan(value) else value}
        for on in DISTRIBUTIONS
        for score in OWN_SCORES
        for algorithm, scenarios in of_runs(summary.explained, on, score).items()
        for scenario, seeds in scenarios.items()
        for seed, value in seeds.items()
    ]
    return {
        "grid": name,
        "jobs": len(jobs),
        "done_before": len(jobs) - len(todo),
        "failed": result.failed,
        "stopped": result.stopped,
        "about": summary.about,
        "sentences": [text for on in DISTRIBUTIONS if (text := sentence(summary, on))],
        "lacking": list(summary.lacking),
        "scores": rows,
        "mlflow": mlflow,
    }


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
