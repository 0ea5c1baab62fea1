"""How long explanations take, from a model that is timed here."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from fedgrid.engine.runtime.data.datasets import find
from fedgrid.grids.analyses.analysis import Job

ENOUGH = 0.5
"""Seconds that the model of a data set is timed for."""
MARGIN = 1.25
"""The backward pass, the single images and the reading of data, beside the passes that are counted."""


def passes(job: Job, num_pixels: int) -> int:
    """Return the forward passes of an image: its ends, and twice two curves of all steps between."""
    step: int = job.settings.pixels(num_pixels)
    return 2 + 4 * (-(-num_pixels // step) - 1)


def rows_of(jobs: Sequence[Job], todo: Sequence[Job], data_dir: Path, cores: int) -> Iterator[dict[str, Any]]:
    """Yield for each data set and distribution the jobs, and the hours that those to do take on `cores`."""
    groups: dict[tuple[str, str, str], list[Job]] = {}
    for job in jobs:
        groups.setdefault((job.config.dataset, job.config.model, job.settings.on), []).append(job)
    speeds: dict[tuple[str, str], float] = {}
    for (dataset, model, on), members in groups.items():
        left = [job for job in members if job in todo]
        _, height, width = find(dataset, data_dir).inputs.shape
        if left and (dataset, model) not in speeds:
            speeds[dataset, model] = _seconds_a_pass(model, dataset, data_dir)
        work = sum(_images(job) * passes(job, height * width) for job in left)
        seconds = work * speeds.get((dataset, model), 0.0) * MARGIN / min(cores, max(1, len(left)))
        yield {
            "dataset": dataset,
            "on": on,
            "runs": len(members),
            "explained": len(members) - len(left),
            "images": sum(map(_images, members)),
            "forward_passes": work,
            "hours": seconds / 3600,
        }


def _images(job: Job) -> int:
    """Return the images of a job; as published of one cluster for each three clients, a guess."""
    clusters = max(1, job.config.clients // 3)
    images: int = job.settings.images
    return images * (clusters if job.settings.as_published else job.config.clients)


def _seconds_a_pass(model: str, dataset: str, data_dir: Path) -> float:
    """Return the seconds of a forward pass of one of a batch of images on a core here."""
    # Importing torch takes seconds.
    import torch

    from fedgrid.engine.federation.clients.process import fixed_numerics
    from fedgrid.engine.federation.models.flat_vectors import blank
    from fedgrid.engine.federation.training.evaluation import TEST_BATCH

    inputs = find(dataset, data_dir).inputs
    module = blank(model, inputs, 10).eval()
    images = torch.rand(TEST_BATCH, *inputs.shape)
    with fixed_numerics(tf32=False), torch.inference_mode():
        module(images)
        count, started = 0, perf_counter()
        while not count or perf_counter() - started < ENOUGH:
            module(images)
            count += 1
        return (perf_counter() - started) / (count * TEST_BATCH)
