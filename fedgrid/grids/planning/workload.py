"""What decides how long a client's training takes and how much memory, and clients that train like that."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedgrid.engine.federation.clients.messages import ClientData, Setup
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.images import ChannelStatistics, ImageSet
from fedgrid.engine.federation.inputs import Inputs, random_examples
from fedgrid.engine.federation.training.settings import LocalTraining, Schedule
from fedgrid.engine.runtime.data.datasets import find
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.plugins.plugin import PluginSource

SAME: dict[str, Any] = {
    **{"local_epochs": 1, "local_steps": None},
    **{"learning_rate": 1e-6, "schedule": Schedule()},
}
"""Settings that change neither the time of a batch nor its memory."""


@dataclass(frozen=True)
class Workload:
    """All that decides what a client actor's training takes, but for the images that it holds."""

    model: str
    inputs: Inputs
    num_classes: int
    training: LocalTraining
    """`stacked`: how many clients train at once; a run of fewer clients has a smaller stack."""
    plugins: tuple[PluginSource, ...] = ()


def workload_of(run: RunConfig, data_dir: Path) -> Workload:
    """Return the workload of a run; settings that change nothing in it are those of all others."""
    dataset, training = find(run.dataset, data_dir), run.training.local
    return Workload(
        run.model,
        dataset.inputs,
        dataset.num_classes,
        training.model_copy(update={**SAME, "stacked": min(training.stacked, run.clients)}),
        active.sources(run.plugin_digests),
    )


def worker_of(workload: Workload, sizes: Sequence[int], device: str, test: int | None = None) -> ClientWorker:
    """Return a worker whose clients hold random images, all of one class.

    There is a stack for each of `sizes`, its clients' number of training images. They are tested on `test`
    images, their own and the server's; None: on their training images alone.

    Raises:
        ConfigError: the images are too small for the model, or it cannot be trained with these settings.
    """
    most = max(*sizes, test or 1)
    inputs = workload.inputs
    images = random_examples(inputs, most, np.random.default_rng(0))
    pool = ImageSet(images, np.zeros(most, np.int64), vocabulary=inputs.vocabulary)
    held = [pool.take(slice(size)) for size in sizes for _ in range(workload.training.stacked)]
    tests = None if test is None else pool.take(slice(test))
    channels = inputs.shape[0]
    normalised = workload.training.normalise == "dataset"
    setup = Setup(
        model=workload.model,
        num_classes=workload.num_classes,
        training=workload.training,
        seed=0,
        clients=tuple(ClientData(client, images, tests or images) for client, images in enumerate(held)),
        server_set=tests or pool.take(slice(1)),
        server_parts={} if test is None else {client: slice(test) for client in range(len(held))},
        normalised_by=ChannelStatistics((0.5,) * channels, (0.5,) * channels) if normalised else None,
        plugins=tuple(plugin.digest for plugin in workload.plugins),
    )
    return ClientWorker(setup, device)
