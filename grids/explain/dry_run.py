"""`fedgrid explain --dry-run`: what would be explained, and how long it takes; nothing is started."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console

from fedgrid.engine.clients.placement import Node
from fedgrid.engine.data.datasets import find
from fedgrid.grids.display.plain import print_plain
from fedgrid.grids.display.tables import choice_table, duration
from fedgrid.grids.explain.job import Job

ENOUGH = 0.5
"""Seconds that the model of a data set is timed for."""
MARGIN = 1.25
"""The backward pass, the single images and the reading of data, beside the passes that are counted."""
HEADINGS = ("data set", "images of", "runs", "explained", "images", "forward passes", "time")


def passes(job: Job, num_pixels: int) -> int:
    """Return the forward passes of an image: its ends, and twice two curves of all steps between."""
    step = job.settings.pixels(num_pixels)
    return 2 + 4 * (-(-num_pixels // step) - 1)


def show_plan(
    jobs: Sequence[Job],
    todo: Sequence[Job],
    waiting: Sequence[str],
    data_dir: Path,
    nodes: Sequence[Node],
    *,
    as_json: bool,
    console: Console,
) -> None:
    """Show the jobs by data set and distribution, those to do and the hours that they take on `nodes`."""
    cores = max(1, sum(int(node.cpus) for node in nodes))
    rows = _rows(jobs, todo, data_dir, cores)
    hours = sum(float(row["hours"]) for row in rows)
    if as_json:
        print(json.dumps({"rows": rows, "hours": hours, "cores": cores, "not_finished": list(waiting)}))
        return
    console.print(choice_table(HEADINGS, [_shown(row) for row in rows]))
    print_plain(
        console,
        f"\nAbout {hours:.2g} hours on {cores} cores, from a model timed here on random images; a GPU takes "
        "much less. Nothing was started or written.",
    )


def _rows(jobs: Sequence[Job], todo: Sequence[Job], data_dir: Path, cores: int) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str, str], list[Job]] = {}
    for job in jobs:
        groups.setdefault((job.config.dataset, job.config.model, job.settings.on), []).append(job)
    speeds: dict[tuple[str, str], float] = {}
    rows = []
    for (dataset, model, on), members in groups.items():
        left = [job for job in members if job in todo]
        shape = find(dataset, data_dir).shape
        if left and (dataset, model) not in speeds:
            speeds[dataset, model] = _seconds_a_pass(model, shape)
        work = sum(_images(job) * passes(job, shape[1] * shape[2]) for job in left)
        seconds = work * speeds.get((dataset, model), 0.0) * MARGIN / min(cores, max(1, len(left)))
        rows.append(
            {
                "dataset": dataset,
                "on": on,
                "runs": len(members),
                "explained": len(members) - len(left),
                "images": sum(map(_images, members)),
                "forward_passes": work,
                "hours": seconds / 3600,
            }
        )
    return rows


def _shown(row: Mapping[str, Any]) -> tuple[str, ...]:
    images, work, seconds = row["images"], row["forward_passes"], row["hours"] * 3600
    names = (str(row[key]) for key in ("dataset", "on", "runs", "explained"))
    return (*names, f"{images:,}", f"{work:,}", duration(seconds))


def _images(job: Job) -> int:
    """Return the images of a job; as published of one cluster for each three clients, as nobody knows."""
    clusters = max(1, job.config.clients // 3)
    return job.settings.images * (clusters if job.settings.as_published else job.config.clients)


def _seconds_a_pass(model: str, shape: tuple[int, int, int]) -> float:
    """Return the seconds of a forward pass of one of a batch of images on a core here."""
    # Importing torch takes seconds.
    import torch

    from fedgrid.engine.clients.machine import fixed_numerics
    from fedgrid.engine.models import registry
    from fedgrid.engine.training.evaluation import TEST_BATCH

    module = registry.build(model, shape, 10).eval()
    images = torch.rand(TEST_BATCH, *shape)
    with fixed_numerics(tf32=False), torch.inference_mode():
        module(images)
        count, started = 0, perf_counter()
        while not count or perf_counter() - started < ENOUGH:
            module(images)
            count += 1
        return (perf_counter() - started) / (count * TEST_BATCH)
