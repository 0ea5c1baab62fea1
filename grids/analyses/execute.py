"""Does jobs: each in a Ray task of its own, or one after the other in this process.

A job keeps nothing for the next one, so its results are the same wherever it runs. One that is killed is done
again as a whole; those before it stay.
"""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from fedgrid.engine.data import own_images
from fedgrid.engine.errors import FedgridError, RunError, in_one_line
from fedgrid.engine.plugins import active
from fedgrid.engine.plugins.source import PluginSource
from fedgrid.engine.storage.atomic import ASIDE
from fedgrid.engine.storage.driver import check_driver
from fedgrid.grids.analyses.analysis import Analysis, Context, Job
from fedgrid.grids.analyses.files import JobFiles
from fedgrid.grids.ray_cluster.nodes import cluster_nodes

CPUS, GPUS = 1, 0.05
"""What a task reserves; the share of a GPU as a client actor's default."""
RETRIES = 2
"""How often a task is started again whose process died."""
LOOK_EVERY = 1.0
"""Seconds."""


@dataclass(frozen=True)
class Ended:
    """A job that has ended."""

    job: Job
    cause: str | None
    """Why it failed, in one line; None if it is done."""
    seconds: float


class Stopped(Exception):
    """The grid was asked to stop."""


def run_here(
    analysis: Analysis,
    jobs: Sequence[Job],
    context: Context,
    tick: Callable[[], None],
    ended: Callable[[Ended], None],
) -> None:
    """Do jobs in this process.

    Args:
        analysis: whose jobs they are.
        jobs: what to do.
        context: where they find what they need.
        tick: called now and then; raises if the work must end.
        ended: gets each job that ends.
    """

    def note(count: int) -> None:
        context.done(count)
        tick()

    for job in jobs:
        tick()
        started = perf_counter()
        cause = _tried(analysis, job, replace(context, done=note), tick)
        ended(Ended(job, cause, perf_counter() - started))


def run_on_ray(
    analysis: Analysis,
    jobs: Sequence[Job],
    context: Context,
    token: str,
    tick: Callable[[], None],
    ended: Callable[[Ended], None],
) -> None:
    """Do jobs on the Ray cluster that this process is connected to.

    `token` is that of the lease that this driver holds; the rest is as in `run_here`.
    """
    import ray

    has_gpu = analysis.on_gpu and any(node.gpus for node in cluster_nodes())
    task = ray.remote(num_cpus=CPUS, num_gpus=GPUS if has_gpu else 0, max_retries=RETRIES)(_task)
    there = Context(context.storage, context.data_dir, {}, "cuda" if has_gpu else "cpu")
    own = active.digest_of_analysis(analysis)
    images = own_images.places(name for job in jobs for name in job.config.own_images)
    waiting: dict[Any, Job] = {}
    for job in jobs:
        run_id = job.config.run_id
        plugins = [*active.sources([own] if own else []), *active.sources(job.config.plugin_digests)]
        work = pickle.dumps((analysis, job, replace(there, runs={run_id: context.runs[run_id]})))
        waiting[task.remote(work, token, plugins, images)] = job
    while waiting:
        ready, _ = ray.wait(list(waiting), timeout=LOOK_EVERY)
        tick()
        for ref in ready:
            job = waiting.pop(ref)
            try:
                cause, seconds = ray.get(ref)
            except ray.exceptions.RayError as error:
                cause, seconds = f"its process died: {str(error).strip().splitlines()[0]}", 0.0
            ended(Ended(job, cause, seconds))


def _task(
    work: bytes, token: str, plugins: Sequence[PluginSource], images: own_images.Places
) -> tuple[str | None, float]:
    """Do a job in a process of the cluster; return why it failed, if it did, and the seconds it took.

    `work` is the driver's analysis, job and context. A plugin's classes are pickled by the name of their
    module, so the plugins are loaded first: the analysis', then the run's, whose algorithms count.
    """
    own_images.know(images)
    active.know(plugins)
    for plugin in plugins:
        active.activate([plugin.digest])
    analysis, job, context = pickle.loads(work)
    started = perf_counter()
    cause = _tried(analysis, job, context, lambda: check_driver(context.storage, token))
    return cause, perf_counter() - started


def _tried(analysis: Analysis, job: Job, context: Context, may_write: Callable[[], None]) -> str | None:
    """Do a job; return why it failed, if it did. `may_write` raises if nothing must be written."""
    files = JobFiles(context.storage, analysis.folder, job)
    try:
        context.storage.pull(files.run.name, skip=(f"{analysis.folder}/", ASIDE))
        artifacts = analysis.compute(job, context)
        may_write()
        files.write(artifacts)
    except Stopped:
        raise
    except FedgridError as error:
        return in_one_line(error)
    except Exception as error:
        # Also a bug of ours, of a plugin or of a library: it must not stop the other jobs.
        return f"{type(error).__name__}: {in_one_line(RunError(str(error)))}"
    return None
