"""How much memory a client actor takes on a GPU: one trains and tests there, and is measured.

Two processes: a process's CUDA context cannot be told from inside. The outer one looks at the GPU's free
memory before and after the inner one, which does what client actors do and says what torch has reserved.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import TimeoutError, get_context
from typing import Any

import numpy as np
import torch

from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.federation.clients.messages import ClientData, EvaluateTask, Setup, TrainTask
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.data.pixel_statistics import PixelStatistics
from fedgrid.engine.federation.errors import FedgridError, RunError
from fedgrid.engine.federation.models.initialisation import initial_vector
from fedgrid.engine.federation.training.evaluation import TEST_BATCH
from fedgrid.engine.federation.training.settings import LocalTraining
from fedgrid.engine.runtime.clients.gpu_errors import is_out_of_memory, telling
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.plugins.source import PluginSource

TIMEOUT = 240.0
"""Seconds for the inner process to start, and to train a batch of each workload."""


@dataclass(frozen=True)
class Workload:
    """All that decides what a client actor's training takes, but for the images that it holds."""

    model: str
    shape: tuple[int, int, int]
    """Channels, height, width of an image."""
    num_classes: int
    training: LocalTraining
    plugins: tuple[PluginSource, ...] = ()


@dataclass(frozen=True)
class Taken:
    """What was measured on one GPU, in bytes."""

    total: int
    """The GPU's memory."""
    context: int
    """What a process takes before it has a tensor: CUDA's context and the libraries' code."""
    reserved: tuple[int | None, ...]
    """For each workload what torch reserved at most; None: it does not fit on the GPU at all."""


def measure(
    workloads: Sequence[Workload], device: str = "cuda", pool: Callable[[int], Any] | None = None
) -> Taken:
    """Return what a client actor takes on the first GPU of this process; takes some ten seconds.

    Raises:
        ConfigError: a model cannot be trained with these settings.
        RunError: the inner process fails, has died or does not answer.
    """
    free, total = torch.cuda.mem_get_info()
    with (pool or get_context("spawn").Pool)(1) as inner:
        try:
            peaks, still_reserved = inner.apply_async(_measured, (workloads, device)).get(TIMEOUT)
        except TimeoutError as error:
            raise RunError(
                f"measuring the memory of a client on the GPU took more than {TIMEOUT:g} s, "
                "or its process died"
            ) from error
        except FedgridError:
            raise
        except Exception as error:
            # Such as a GPU in exclusive mode, which this process has opened.
            raise RunError(
                f"measuring the memory of a client on the GPU failed ({telling(error)})"
            ) from error
        # The inner process still has its context.
        context = max(0, free - torch.cuda.mem_get_info()[0] - still_reserved)
    return Taken(total, context, tuple(peaks))


def _measured(workloads: Sequence[Workload], device: str) -> tuple[list[int | None], int]:
    """Return the peak of each workload, and what is reserved now."""
    if device != "cpu":
        # Statistics cannot be reset before there is a context.
        torch.cuda.init()  # type: ignore[no-untyped-call]
    return [_peak(workload, device) for workload in workloads], torch.cuda.memory_reserved()


def _peak(workload: Workload, device: str) -> int | None:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    try:
        work_once(workload, device)
    except (torch.OutOfMemoryError, RunError) as error:
        # Training wraps every error, to name the client.
        if not is_out_of_memory(error):
            raise
        return None
    return int(torch.cuda.max_memory_reserved())


def work_once(workload: Workload, device: str) -> None:
    """Train a whole batch, and test a whole one, as a client actor does; of stacked clients all at once."""
    active.know(workload.plugins)
    active.activate([plugin.digest for plugin in workload.plugins])
    worker = ClientWorker(setup_of(workload, workload.training.batch_size, TEST_BATCH), device)
    start = initial_vector(workload.model, workload.shape, workload.num_classes, seed=0)
    clients = range(workload.training.stacked)
    worker.train([TrainTask(Order(client, (0,)), 0, evaluate=False) for client in clients], [start], {})
    worker.evaluate([EvaluateTask(0, 0)], [start])


def setup_of(workload: Workload, train: int, test: int) -> Setup:
    """Return a setup of a stack of clients with black images: how many each trains and is tested on."""
    channels, *_ = workload.shape
    held, tests = (
        ImageSet(np.zeros((count, *workload.shape), np.uint8), np.zeros(count, np.int64))
        for count in (train, test)
    )
    clients = range(workload.training.stacked)
    normalised = workload.training.normalise == "dataset"
    return Setup(
        model=workload.model,
        num_classes=workload.num_classes,
        training=workload.training.model_copy(update={"local_epochs": 1}),
        seed=0,
        clients=tuple(ClientData(client, held, tests) for client in clients),
        server_set=tests,
        server_parts={client: slice(0, test) for client in clients},
        normalised_by=PixelStatistics((0.5,) * channels, (0.5,) * channels) if normalised else None,
        plugins=tuple(plugin.digest for plugin in workload.plugins),
    )
