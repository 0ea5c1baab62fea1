"""How much memory a client actor takes on a GPU: one trains and tests there, and is measured.

Two processes: a process's CUDA context cannot be told from inside. The outer one looks at the GPU's free
memory before and after the inner one, which does what client actors do and says what torch has reserved.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.clients.messages import ClientData, EvaluateTask, Setup, TrainTask
from fedgrid.engine.clients.worker import ClientWorker
from fedgrid.engine.data.images import ImageSet
from fedgrid.engine.data.pixel_statistics import PixelStatistics
from fedgrid.engine.errors import FedgridError, RunError
from fedgrid.engine.models.initialisation import initial_vector
from fedgrid.engine.plugins import active
from fedgrid.engine.plugins.source import PluginSource
from fedgrid.engine.training.evaluation import TEST_BATCH
from fedgrid.engine.training.settings import LocalTraining

TIMEOUT = 240.0
"""Seconds for the inner process to start, and to train a batch of each workload."""
END_TIMEOUT = 10.0


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


Start = Callable[[Callable[..., None], Connection, Sequence[Workload], str], Any]
"""Starts a function elsewhere with its arguments; returns a process, or what can be joined like one."""


def measure(workloads: Sequence[Workload], device: str = "cuda", start: Start | None = None) -> Taken:
    """Return what a client actor takes on the first GPU of this process; takes some ten seconds.

    Raises:
        ConfigError: a model cannot be trained with these settings.
        RunError: the inner process has died or does not answer.
    """
    free, total = torch.cuda.mem_get_info()
    ours, theirs = get_context("spawn").Pipe()
    process = (start or _as_process)(_inner, theirs, workloads, device)
    try:
        if not ours.poll(TIMEOUT):
            raise RunError(f"measuring the memory of a client on the GPU took more than {TIMEOUT:g} s")
        answer = ours.recv()
        if isinstance(answer, FedgridError):
            raise answer
        peaks, still_reserved = answer
        context = max(0, free - torch.cuda.mem_get_info()[0] - still_reserved)
        ours.send("done")
    except EOFError as error:
        raise RunError("the process that measures the memory of a client on the GPU has died") from error
    finally:
        ours.close()
        process.join(END_TIMEOUT)
        if process.is_alive():
            process.kill()
    return Taken(total, context, tuple(peaks))


def _as_process(
    function: Callable[..., None], pipe: Connection, workloads: Sequence[Workload], device: str
) -> Any:
    process = get_context("spawn").Process(target=function, args=(pipe, workloads, device), daemon=True)
    process.start()
    # Its copy is then the only one, so that its death ends the other side's wait.
    pipe.close()
    return process


def _inner(pipe: Connection, workloads: Sequence[Workload], device: str) -> None:
    """Send the peak of each workload and what is reserved now; keep it until the other side has looked."""
    with pipe:
        if device != "cpu":
            # Statistics cannot be reset before there is a context.
            torch.cuda.init()  # type: ignore[no-untyped-call]
        try:
            peaks = [_peak(workload, device) for workload in workloads]
        except FedgridError as error:
            pipe.send(error)
            return
        pipe.send((peaks, torch.cuda.memory_reserved()))
        pipe.poll(TIMEOUT)


def _peak(workload: Workload, device: str) -> int | None:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    try:
        work_once(workload, device)
    except torch.OutOfMemoryError:
        return None
    return int(torch.cuda.max_memory_reserved())


def work_once(workload: Workload, device: str) -> None:
    """Train a whole batch, and test a whole one, as a client actor does; of stacked clients all at once."""
    active.know(workload.plugins)
    active.activate([plugin.digest for plugin in workload.plugins])
    worker = ClientWorker(_setup(workload), device)
    start = initial_vector(workload.model, workload.shape, workload.num_classes, seed=0)
    clients = range(workload.training.stacked)
    worker.train([TrainTask(Order(client, (0,)), 0, evaluate=False) for client in clients], [start], {})
    worker.evaluate([EvaluateTask(0, 0)], [start])


def _setup(workload: Workload) -> Setup:
    """Return a setup of clients with a batch of black images each, and a batch of tests at the server."""
    channels, *_ = workload.shape
    held, tests = (
        ImageSet(np.zeros((count, *workload.shape), np.uint8), np.zeros(count, np.int64))
        for count in (workload.training.batch_size, TEST_BATCH)
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
        server_parts={client: slice(0, TEST_BATCH) for client in clients},
        normalised_by=PixelStatistics((0.5,) * channels, (0.5,) * channels) if normalised else None,
        plugins=workload.plugins,
    )
