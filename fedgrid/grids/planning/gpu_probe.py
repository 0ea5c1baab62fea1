"""What client actors take on a GPU, and how fast they are: as many processes work there as actors would.

A CUDA context cannot be told from inside its process: the outer process looks at the GPU's free memory before
and after the others, which do what client actors do and say what torch has reserved.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from multiprocessing import TimeoutError, get_context
from threading import BrokenBarrierError
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.federation.clients.messages import EvaluateTask, TrainTask
from fedgrid.engine.federation.errors import FedgridError, RunError
from fedgrid.engine.federation.models.flat_vectors import initial_vector
from fedgrid.engine.federation.training.evaluation import TEST_BATCH
from fedgrid.engine.runtime.clients.gpu_errors import is_out_of_memory, telling
from fedgrid.engine.runtime.plugins import active
from fedgrid.grids.planning.workload import Workload, worker_of

if TYPE_CHECKING:
    from threading import Barrier

T = TypeVar("T")
TIMEOUT = 240.0
"""Seconds for processes to start, and to train a batch of each workload."""
SLIVER = 0.01
"""The share of a GPU of the cluster that is reserved to measure there."""


@dataclass(frozen=True)
class Crowd:
    """The client actors on a GPU, all of them alike; by default one that trains and tests a whole batch."""

    workload: Workload
    """`training.stacked` of it: how many clients each trains at once."""
    processes: int = 1
    train: int | None = None
    """Training images of a client; None: a batch."""
    test: int = TEST_BATCH
    """Images of its tests, its own and of the server's."""
    seconds: float = 0.0
    """How long it is timed, after a first turn in which libraries choose their kernels."""


@dataclass(frozen=True)
class Work:
    """What a crowd did."""

    reserved: int
    """Bytes that torch reserved at most, in a process."""
    speed: float
    """Images trained a second by all processes together, their tests included."""


@dataclass(frozen=True)
class Probed:
    """What was measured on one GPU, in bytes."""

    total: int
    """The GPU's memory."""
    context: int
    """What a process takes before it has a tensor: CUDA's context and the libraries' code."""
    crowds: tuple[Work | None, ...]
    """None: a crowd runs out of memory."""


def probe(crowds: Sequence[Crowd], device: str = "cuda", processes: Any = None) -> Probed:
    """Measure each crowd on the first GPU of this process, one after the other; takes some ten seconds.

    Those that follow each other with as many processes use the same ones: spawned ones, or those of pools and
    barriers that `processes` makes as `multiprocessing` does.

    Raises:
        ConfigError: a model cannot be trained with these settings.
        RunError: training fails, or the processes die or do not answer.
    """
    free, total = torch.cuda.mem_get_info()
    context, done = 0, list[Work | None]()
    for count, alike in groupby(crowds, lambda crowd: crowd.processes):
        together = tuple(alike)
        makes = processes or get_context("spawn")
        with makes.Pool(count, _join, (makes.Barrier(count),)) as pool:
            works, reserved = zip(*_answers(pool, together, device, count), strict=True)
            # The processes still have their contexts.
            context = max(context, (free - torch.cuda.mem_get_info()[0] - sum(reserved)) // count)
        done += map(_add_up, zip(*works, strict=True))
    return Probed(total, context, tuple(done))


@cache
def probe_on_cluster(crowds: tuple[Crowd, ...]) -> Probed:
    """Measure on a GPU of the cluster that Ray is connected to, once for all launches of this process.

    Raises:
        ConfigError: a model cannot be trained with these settings.
        RunError: no GPU is free, or measuring fails.
    """
    import ray

    # A worker that stayed for further tasks would keep its CUDA context.
    # No CPU: all of them may be reserved.
    once = ray.remote(num_cpus=0, num_gpus=SLIVER, max_retries=0, max_calls=1)
    task = once(probe).remote(crowds)
    try:
        probed: Probed = ray.get(task, timeout=3 * TIMEOUT)
    except ray.exceptions.GetTimeoutError as error:
        ray.cancel(task, force=True)
        raise RunError(
            f"measuring clients on a GPU: none was free, or no answer, within {3 * TIMEOUT:g} s"
        ) from error
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        if isinstance(cause, FedgridError):
            raise cause from error
        raise RunError(f"measuring clients on a GPU failed ({telling(cause)})") from error
    return probed


def _answers(pool: Any, crowds: Sequence[Crowd], device: str, count: int) -> list[Any]:
    try:
        # Each process has one of the tasks, because none ends before all have begun.
        tasks = pool.starmap_async(_work, [(crowds, device)] * count, chunksize=1)
        answers: list[Any] = tasks.get(TIMEOUT + 2 * sum(crowd.seconds for crowd in crowds))
    except TimeoutError as error:
        raise RunError(
            f"measuring clients on the GPU took more than {TIMEOUT:g} s, or a process died"
        ) from error
    except FedgridError:
        raise
    except Exception as error:
        # Such as a GPU in exclusive mode, which this process has opened.
        raise RunError(f"measuring clients on the GPU failed ({telling(error)})") from error
    return answers


def _add_up(works: Sequence[Work | None]) -> Work | None:
    """Return what the processes of a crowd did together, None if one of them ran out of memory."""
    fitting = [work for work in works if work is not None]
    if len(fitting) < len(works):
        return None
    return Work(max(work.reserved for work in fitting), sum(work.speed for work in fitting))


class _Started:
    """What a process of the crowd was started with: a barrier can only be inherited."""

    barrier: Barrier


def _join(barrier: Barrier) -> None:
    _Started.barrier = barrier


def _work(crowds: Sequence[Crowd], device: str) -> tuple[list[Work | None], int]:
    """Return what this process does in each crowd, and the bytes that it has reserved now."""
    try:
        if device != "cpu":
            # Statistics cannot be reset before there is a context.
            torch.cuda.init()  # type: ignore[no-untyped-call]
        works = [_of_crowd(crowd, device) for crowd in crowds]
        return works, torch.cuda.memory_reserved()
    except BrokenBarrierError:
        # Another process has failed, and says why.
        return [None] * len(crowds), 0
    except BaseException:
        _Started.barrier.abort()
        raise


def _of_crowd(crowd: Crowd, device: str) -> Work | None:
    # Of the crowd before.
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    turn = _unless_full(lambda: _first_turn(crowd, device))
    reserved = int(torch.cuda.max_memory_reserved())
    _Started.barrier.wait(TIMEOUT)
    speed = None if turn is None else _unless_full(lambda: _speed(crowd, turn))
    return None if speed is None else Work(reserved, speed)


def _unless_full(work: Callable[[], T]) -> T | None:
    """Return what `work` returns, None if the GPU's memory runs out."""
    try:
        return work()
    except (torch.OutOfMemoryError, RunError) as error:
        # Training wraps every error, to name the client.
        if not is_out_of_memory(error):
            raise
        return None


def _speed(crowd: Crowd, turn: Callable[[], int]) -> float:
    if not crowd.seconds:
        return 0.0
    images, started = 0, perf_counter()
    while not images or perf_counter() - started < crowd.seconds:
        images += turn()
    return images / (perf_counter() - started)


def _first_turn(crowd: Crowd, device: str) -> Callable[[], int]:
    """Train and test the clients of an actor once; return what does it again and counts images."""
    load = crowd.workload
    active.know(load.plugins)
    active.activate([plugin.digest for plugin in load.plugins])
    train = load.training.batch_size if crowd.train is None else crowd.train
    worker = worker_of(load, [train], device, crowd.test)
    start = initial_vector(load.model, load.inputs, load.num_classes, seed=0)
    clients = range(load.training.stacked)
    training = [TrainTask(Order(client, (0,)), 0, evaluate=True) for client in clients]
    tests = [EvaluateTask(client, 0) for client in clients]

    def turn() -> int:
        replies = worker.train(training, [start], {})
        worker.evaluate(tests, [start])
        return sum(reply.report.images for reply in replies)

    turn()
    return turn
