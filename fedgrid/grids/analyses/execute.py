"""Execution of jobs: on Ray, or one after the other in this process.

A job leaves nothing in memory for the next one, so its results are the same wherever it runs. A job that is
killed is done again as a whole; those before it stay.

On CPUs each job is a Ray task of its own, for which Ray reuses the process of the one before. After a task
with a GPU it ends the process each time, and torch and CUDA start again, which takes seconds. `max_calls=0`
would keep the process, but Ray may give its next task another GPU, and torch stays on the one that it has
opened. So these jobs are done by actors, which are on one GPU from start to end.
"""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from fedgrid.engine.federation.errors import FedgridError, RunError
from fedgrid.engine.federation.plugin_calls import plugin_call_context
from fedgrid.engine.federation.seeds import make_generator
from fedgrid.engine.runtime.clients.placement import Placement, PlacementRequest, plan_placement
from fedgrid.engine.runtime.data import own_images
from fedgrid.engine.runtime.leases.driver import check_driver
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.plugins.plugin import PluginSource
from fedgrid.engine.runtime.run.failure import describe_error
from fedgrid.grids.analyses.analysis import Analysis, Context, Job
from fedgrid.grids.analyses.files import JobFiles
from fedgrid.grids.ray_cluster.nodes import read_cluster_nodes

CPUS = 1
"""CPUs that a task reserves; an actor on a GPU has what a client actor has."""
RETRIES = 2
"""How often a job is started again whose process died."""
POLL_SECONDS = 1.0
"""Seconds between checks of the lease while jobs run."""


@dataclass(frozen=True)
class JobEnd:
    """The end of a job."""

    job: Job
    cause: str | None
    """Why it failed, in one line; None if it succeeded."""
    seconds: float


class Stopped(Exception):
    """The grid is to stop, by `fedgrid stop`."""


def run_here(
    analysis: Analysis,
    jobs: Sequence[Job],
    context: Context,
    tick: Callable[[], None],
    report_end: Callable[[JobEnd], None],
) -> None:
    """Do jobs in this process.

    Args:
        analysis: The analysis.
        jobs: Jobs to do, in this order.
        context: Where they find what they need.
        tick: Called before and after each job; raises an error if the work must end.
        report_end: Called with each job's end.
    """
    for job in jobs:
        tick()
        started = perf_counter()
        cause = _try_job(analysis, job, context, tick)
        report_end(JobEnd(job, cause, perf_counter() - started))


def run_on_ray(
    analysis: Analysis,
    jobs: Sequence[Job],
    context: Context,
    token: str,
    tick: Callable[[], None],
    report_end: Callable[[JobEnd], None],
) -> None:
    """Do jobs on the Ray cluster that this process is connected to.

    Args:
        analysis: The analysis.
        jobs: Jobs to do, in any order.
        context: Where they find what they need.
        token: Token of the lease that this driver holds.
        tick: Called about once a second; raises an error if the work must end.
        report_end: Called with each job's end.
    """
    import ray

    place = _plan_placement(analysis, jobs, context)
    actors = _start_actors(place) if place is not None and place.gpus_per_actor else []
    remote = Context(context.storage, context.data_dir, {}, "cuda" if actors else "cpu")
    own = active.find_analysis_digest(analysis)
    images = own_images.list_places(name for job in jobs for name in job.config.own_images)
    left, unfinished = iter(jobs), len(jobs)
    waiting: dict[Any, tuple[Job | None, Any]] = {}

    def submit_next(method: Any) -> None:
        """Send the next job, if one is left, to a task or an actor."""
        if (job := next(left, None)) is not None:
            run_id = job.config.run_id
            plugins = [
                *active.list_sources([own] if own else []),
                *active.list_sources(job.config.plugin_digests),
            ]
            # Pickled here, not by Ray: the task must load plugins before it can unpickle their classes. Each
            # job gets its own run only, as the context of thousands of runs would be sent with every job.
            work = pickle.dumps((analysis, job, replace(remote, runs={run_id: context.runs[run_id]})))
            waiting[method.remote(work, token, plugins, images)] = job, method

    # An actor gets its first job when it has started: it may have to wait for GPUs that others use, and its
    # jobs would wait with it.
    waiting |= {actor.start.remote(): (None, actor.do) for actor in actors}
    # Tasks are all sent at once; Ray starts as many as fit.
    task = ray.remote(num_cpus=CPUS, max_retries=RETRIES)(_task)
    for _ in () if actors else jobs:
        submit_next(task)
    while unfinished:
        ready, _ = ray.wait(list(waiting), timeout=POLL_SECONDS)
        tick()
        for ref in ready:
            job, method = waiting.pop(ref)
            submit_next(method)
            if job is None:
                continue
            unfinished -= 1
            try:
                cause, seconds = ray.get(ref)
            except ray.exceptions.RayError as error:
                cause, seconds = f"its process died: {str(error).strip().splitlines()[0]}", 0.0
            report_end(JobEnd(job, cause, seconds))


class _GpuActor:
    """An actor that does jobs on the GPU on which it was started."""

    def start(self) -> None:
        """Do nothing; Ray answers once the actor runs."""

    def do(self, *given: Any) -> tuple[str | None, float]:
        """Do a job, as in `_task`."""
        return _task(*given)


def _plan_placement(analysis: Analysis, jobs: Sequence[Job], context: Context) -> Placement | None:
    """Plan how jobs take turns on GPUs, as clients that train the runs' models do; None if they use CPUs."""
    nodes = read_cluster_nodes()
    if not analysis.on_gpu or not any(node.gpus for node in nodes):
        return None
    # Imports torch, which a driver of actors does without.
    from fedgrid.grids.planning.gpu_share import add_gpu_share

    request = add_gpu_share([job.config for job in jobs], nodes, PlacementRequest(), context.data_dir)
    return plan_placement(len(jobs), nodes, request)


def _start_actors(place: Placement) -> list[Any]:
    """Start the actors of a placement."""
    import ray

    actor = ray.remote(
        num_cpus=place.cpus_per_actor,
        num_gpus=place.gpus_per_actor,
        memory=place.memory_per_actor,
        max_restarts=-1,
        max_task_retries=RETRIES,
    )(_GpuActor)
    return [actor.remote() for _ in range(place.num_actors)]


def _task(
    work: bytes, token: str, plugins: Sequence[PluginSource], images: own_images.Places
) -> tuple[str | None, float]:
    """Do a job in a process of the cluster.

    A plugin's classes are pickled by the name of their module, so the plugins are loaded first: the
    analysis's, then the run's, whose algorithms count.

    Args:
        work: The pickled analysis, job and context of the driver.
        token: Token of the driver's lease.
        plugins: Plugins of the analysis and the run, with their code.
        images: Where data sets of the user are on the driver's machine.

    Returns:
        Why the job failed, None if it succeeded, and the seconds it took.
    """
    own_images.register_places(images)
    active.register_sources(plugins)
    for plugin in plugins:
        active.activate_plugins([plugin.digest])
    analysis, job, context = pickle.loads(work)
    started = perf_counter()
    cause = _try_job(analysis, job, context, lambda: check_driver(context.storage, token))
    return cause, perf_counter() - started


def _try_job(analysis: Analysis, job: Job, context: Context, may_write: Callable[[], None]) -> str | None:
    """Do a job; return why it failed, None if it succeeded.

    Args:
        analysis: The analysis.
        job: The job.
        context: Where it finds what it needs.
        may_write: Raises an error if nothing must be written any more.
    """
    files = JobFiles(context.storage, analysis.folder, job)
    try:
        # The run's files may be at the storage's URI only. Results of analyses are not needed.
        context.storage.pull(files.run_folder.name, skip=(f"{analysis.folder}/",))
        rng = make_generator(job.config.root_seed, f"own analysis {analysis.name}", round_index=job.round - 1)
        with plugin_call_context(analysis, "compute", rng, context.device):
            artifacts = analysis.compute(job, context)
        # After the computation and right before the write: a driver that has lost its lease must not write.
        may_write()
        files.write_files(artifacts)
    except Stopped:
        raise
    except FedgridError as error:
        return describe_error(error)
    except Exception as error:
        # Also a bug of ours, of a plugin or of a library: it must not stop the other jobs.
        return f"{type(error).__name__}: {describe_error(RunError(str(error)))}"
    return None
