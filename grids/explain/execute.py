"""Explains the images of many jobs: each in a Ray task of its own, or one after the other in this process.

A job keeps nothing between its images, so its records are the same wherever it runs. One that is killed is
done again as a whole; those before it stay.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from fedgrid.engine.clients.placement import cluster_nodes
from fedgrid.engine.data import own_images
from fedgrid.engine.errors import FedgridError, RunError, in_one_line
from fedgrid.engine.plugins import active
from fedgrid.engine.plugins.source import PluginSource
from fedgrid.engine.storage.driver import check_driver
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.explain.job import Job, JobFiles, explain

CPUS, GPUS = 1, 0.05
"""What a task reserves; a share of a GPU if the cluster has one, as a client actor's default."""
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
    jobs: Sequence[Job],
    storage: Storage,
    data_dir: Path,
    tick: Callable[[], None],
    done: Callable[[int], object],
    ended: Callable[[Ended], None],
) -> None:
    """Do jobs in this process.

    Args:
        jobs: what to explain.
        storage: where the runs are.
        data_dir: the folder of the images.
        tick: called between two models; raises if the work must end.
        done: gets the number of images that were explained since its last call.
        ended: gets each job that ends.
    """

    def note(images: int) -> None:
        done(images)
        tick()

    for job in jobs:
        tick()
        started = perf_counter()
        cause = _tried(JobFiles(storage, job), data_dir, "cpu", note, tick)
        ended(Ended(job, cause, perf_counter() - started))


def run_on_ray(
    jobs: Sequence[Job],
    storage: Storage,
    data_dir: Path,
    token: str,
    tick: Callable[[], None],
    ended: Callable[[Ended], None],
) -> None:
    """Do jobs on the Ray cluster that this process is connected to.

    `token` is that of the lease that this driver holds; the rest is as in `run_here`.
    """
    import ray

    has_gpu = any(node.gpus for node in cluster_nodes())
    task = ray.remote(num_cpus=CPUS, num_gpus=GPUS if has_gpu else 0, max_retries=RETRIES)(_task)
    device = "cuda" if has_gpu else "cpu"
    plugins = active.sources(digest for job in jobs for digest in job.config.plugin_digests)
    images = own_images.places(name for job in jobs for name in job.config.own_images)
    waiting: dict[Any, Job] = {
        task.remote(JobFiles(storage, job), data_dir, device, token, plugins, images): job for job in jobs
    }
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
    files: JobFiles,
    data_dir: Path,
    device: str,
    token: str,
    plugins: Sequence[PluginSource],
    images: own_images.Places,
) -> tuple[str | None, float]:
    """Do a job in a process of the cluster; return why it failed, if it did, and the seconds it took."""
    own_images.know(images)
    active.know(plugins)
    active.activate(files.job.config.plugin_digests)
    started = perf_counter()
    cause = _tried(files, data_dir, device, lambda images: None, lambda: check_driver(files.storage, token))
    return cause, perf_counter() - started


def _tried(
    files: JobFiles,
    data_dir: Path,
    device: str,
    done: Callable[[int], object],
    may_write: Callable[[], None],
) -> str | None:
    try:
        explain(files, data_dir, device, done, may_write)
    except Stopped:
        raise
    except FedgridError as error:
        return in_one_line(error)
    except Exception as error:
        # Also a bug of ours or of a library: it must not stop the other jobs.
        return f"{type(error).__name__}: {in_one_line(RunError(str(error)))}"
    return None
