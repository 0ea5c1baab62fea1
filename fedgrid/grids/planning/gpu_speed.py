"""How fast client actors work that share a GPU: as many processes train and test there at the same time."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from multiprocessing import TimeoutError, get_context
from threading import BrokenBarrierError
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.federation.clients.messages import EvaluateTask, TrainTask
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.errors import FedgridError, RunError
from fedgrid.engine.federation.models.initialisation import initial_vector
from fedgrid.engine.runtime.clients.gpu_errors import is_out_of_memory, telling
from fedgrid.engine.runtime.plugins import active
from fedgrid.grids.planning.gpu_probe import TIMEOUT, Workload, setup_of
from fedgrid.grids.ray_cluster.gpu_task import on_a_gpu

if TYPE_CHECKING:
    from threading import Barrier

    from fedgrid.algorithms.updates.updates import Vector

SECONDS = 2.0
"""How long each crowd works, after a first turn in which libraries choose their kernels."""
LONGEST = 3 * TIMEOUT


@dataclass(frozen=True)
class Crowd:
    """The client actors on a GPU, all of them alike."""

    workload: Workload
    """`training.stacked` of it: how many clients each trains at once."""
    processes: int
    train: int
    """Training images of a client."""
    test: int
    """Images of its tests, its own and of the server's."""


Speeds = tuple[float | None, ...]
"""Images trained a second by a crowd together, its tests included; None: it is out of memory."""


def speeds(crowds: Sequence[Crowd], device: str = "cuda", processes: Any = None) -> Speeds:
    """Return the speed of each crowd on the first GPU of this process, one after the other.

    Args:
        crowds: those that follow each other with as many processes use the same ones.
        device: as torch names it.
        processes: makes pools and barriers as `multiprocessing` does; None: spawned processes.

    Raises:
        ConfigError: a model cannot be trained with these settings.
        RunError: training fails, or the processes die or do not answer.
    """
    found: list[float | None] = []
    for count, alike in groupby(crowds, lambda crowd: crowd.processes):
        found += _together(count, tuple(alike), device, processes or get_context("spawn"))
    return tuple(found)


def speeds_on_cluster(crowds: tuple[Crowd, ...]) -> Speeds:
    """Return the same, measured on a GPU of the cluster that Ray is connected to.

    Raises:
        ConfigError: a model cannot be trained with these settings.
        RunError: no GPU is free, or measuring fails.
    """
    return on_a_gpu(speeds, "timing clients on a GPU", LONGEST, crowds)


def _together(count: int, crowds: tuple[Crowd, ...], device: str, processes: Any) -> list[float | None]:
    with processes.Pool(count, _join, (processes.Barrier(count),)) as pool:
        try:
            # Each process has one of the tasks, because none ends before all have begun.
            asked = pool.starmap_async(_speeds_of_one, [(crowds, device)] * count, chunksize=1)
            each = asked.get(TIMEOUT + 2 * SECONDS * len(crowds))
        except TimeoutError as error:
            raise RunError(
                f"timing {count} processes on the GPU took more than {TIMEOUT:g} s, or one of them died"
            ) from error
        except FedgridError:
            raise
        except Exception as error:
            raise RunError(f"timing clients on the GPU failed ({telling(error)})") from error
    return [None if None in speeds else sum(speeds) for speeds in zip(*each, strict=True)]


class _Started:
    """What a process of the crowd was started with: a barrier can only be inherited."""

    barrier: Barrier


def _join(barrier: Barrier) -> None:
    _Started.barrier = barrier


def _speeds_of_one(crowds: Sequence[Crowd], device: str) -> Speeds:
    """Return the speed of this process in each crowd."""
    try:
        return tuple([_speed(crowd, device, _Started.barrier) for crowd in crowds])
    except BrokenBarrierError:
        # Another process has failed, and says why.
        return (None,) * len(crowds)
    except BaseException:
        _Started.barrier.abort()
        raise


def _speed(crowd: Crowd, device: str, barrier: Barrier) -> float | None:
    _free(device)
    turn = _first_turn(crowd, device)
    barrier.wait(TIMEOUT)
    if turn is None:
        return None
    images, started, turns = crowd.train * crowd.workload.training.stacked, perf_counter(), 0
    while not turns or perf_counter() - started < SECONDS:
        if not turn():
            return None
        turns += 1
    return turns * images / (perf_counter() - started)


class _Turn:
    """A round of the clients of an actor: each trains from the same model, tests its own, and is tested."""

    def __init__(self, crowd: Crowd, device: str) -> None:
        load = crowd.workload
        active.know(load.plugins)
        active.activate([plugin.digest for plugin in load.plugins])
        self._worker = ClientWorker(setup_of(load, crowd.train, crowd.test), device)
        self._start: Vector = initial_vector(load.model, load.shape, load.num_classes, seed=0)
        clients = range(load.training.stacked)
        self._training = [TrainTask(Order(client, (0,)), 0, evaluate=True) for client in clients]
        self._tests = [EvaluateTask(client, 0) for client in clients]

    def __call__(self) -> bool:
        """Take it; return whether the memory suffices."""
        try:
            self._worker.train(self._training, [self._start], {})
            self._worker.evaluate(self._tests, [self._start])
        except (torch.OutOfMemoryError, RunError) as error:
            if not is_out_of_memory(error):
                raise
            return False
        return True


def _first_turn(crowd: Crowd, device: str) -> _Turn | None:
    """Return the turn that a process takes again and again, None if its first one is out of memory."""
    try:
        turn = _Turn(crowd, device)
    except torch.OutOfMemoryError:
        return None
    return turn if turn() else None


def _free(device: str) -> None:
    """Give back the memory of the crowd before."""
    gc.collect()
    if device != "cpu":
        torch.cuda.empty_cache()
