"""The clients of one process: their data on one device, and one module that they take turns with.

Nothing that a round depends on is kept here: the same tasks give the same bits whoever hosts the clients
and whatever was trained before.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf, isnan, sqrt
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from fedgrid.algorithms.contract.updates import Vector
from fedgrid.engine.clients.messages import ClientData, EvaluateReport, EvaluateTask, TrainReport, TrainTask
from fedgrid.engine.clients.peak_memory import own_peak
from fedgrid.engine.data.images import ImageSet
from fedgrid.engine.errors import FedgridError, RunError
from fedgrid.engine.models.flat_vectors import FlatModule
from fedgrid.engine.models.initialisation import blank
from fedgrid.engine.seeds import generator
from fedgrid.engine.training import evaluation, local
from fedgrid.engine.training.confusion import Counts
from fedgrid.engine.training.settings import Training

Trained = tuple[TrainReport, Vector, Vector | None]
"""Report, update (after minus before, shape (P,)), and what the optimizer remembers, if it is told to."""

BLOCK = 1 << 18
"""Entries of an update squared at a time, in float64: two megabytes."""


class _DeviceSet:
    """Images and labels on a device: one uint8 tensor with channels last, one int64 tensor."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images, labels

    @classmethod
    def of(cls, held: ImageSet, device: str) -> "_DeviceSet":
        # `np.array` copies: what comes from shared memory is read-only and may go away.
        images = torch.from_numpy(np.array(held.images.transpose(0, 2, 3, 1), order="C"))
        labels = torch.from_numpy(np.array(held.labels))
        return cls(
            images.to(device, non_blocking=True).permute(0, 3, 1, 2), labels.to(device, non_blocking=True)
        )

    def part(self, where: slice) -> "_DeviceSet":
        return _DeviceSet(self.images[where], self.labels[where])


class ClientWorker:
    """Trains and tests the clients it holds, one after the other."""

    def __init__(
        self,
        *,
        model: str,
        num_classes: int,
        training: Training,
        seed: int,
        clients: Sequence[ClientData],
        server_set: ImageSet,
        server_parts: Mapping[int, slice],
        device: str = "cpu",
    ) -> None:
        """Put the data of `clients` and the server's test set on `device`.

        Args:
            model: a key of `engine.models.registry.MODELS`.
            num_classes: L, of the whole data set.
            training: local training's settings.
            seed: the run's seed.
            clients: whom to host.
            server_set: the server's test set.
            server_parts: client -> the part of that set on which it tests aggregated models.
            device: a torch device.

        Raises:
            ConfigError: the model is unknown, or the images are too small for it.
        """
        _, channels, height, width = server_set.images.shape
        self._flat = FlatModule(blank(model, (channels, height, width), num_classes).to(device))
        self._num_classes, self._training, self._seed = num_classes, training, seed
        self._train_sets = {data.client: _DeviceSet.of(data.train, device) for data in clients}
        self._test_sets = {data.client: _DeviceSet.of(data.test, device) for data in clients}
        self._server_set = _DeviceSet.of(server_set, device)
        self._server_parts = {
            data.client: self._server_set.part(server_parts[data.client]) for data in clients
        }

    def train(
        self, tasks: Sequence[TrainTask], models: Sequence[Vector], memories: Mapping[int, Vector]
    ) -> list[Trained]:
        """Train the client of each task from one of `models`, each of shape (P,), which are only read.

        `memories` holds, by client, what the optimizer remembered after the client's last round.

        Raises:
            RunError: whatever goes wrong in a client's training; names client, round and cause.
        """
        results = []
        with _one_torch_thread():
            for task in tasks:
                with _named(task):
                    results.append(self._train(task, models, memories.get(task.client)))
        return results

    def evaluate(self, tasks: Sequence[EvaluateTask], models: Sequence[Vector]) -> list[EvaluateReport]:
        """Test, for each task, the client's own model on its test set and every model on its server part."""
        own: dict[int, Counts] = {}
        parts: dict[int, list[Counts]] = {task.client: [] for task in tasks}
        with _one_torch_thread():
            for position, model in enumerate(models):
                self._flat.write(model)
                for task in tasks:
                    parts[task.client].append(self._test(self._server_parts[task.client]))
                    if task.own == position:
                        own[task.client] = self._test(self._test_sets[task.client])
        return [EvaluateReport(task.client, own[task.client], tuple(parts[task.client])) for task in tasks]

    def _train(self, task: TrainTask, models: Sequence[Vector], memory: Vector | None) -> Trained:
        started = perf_counter()
        held = self._train_sets[task.client]
        chosen = self._choose(task, models)
        rng = generator(self._seed, "batches", client=task.client, round_index=task.round_index)
        result = local.train(
            self._flat, models[chosen], held.images, held.labels, self._training, rng, memory
        )
        update = np.subtract(result.model, models[chosen], out=result.model)
        squared = _squared_norm(update)
        report = TrainReport(
            client=task.client,
            chosen=chosen,
            train_loss=result.losses[-1],
            train_accuracy=result.accuracies[-1],
            update_norm=sqrt(squared),
            usable=squared <= float(np.finfo(np.float32).max),
            local=self._test(self._test_sets[task.client]) if task.evaluate else None,
            local_server=self._test(self._server_set) if task.evaluate else None,
            seconds=perf_counter() - started,
            memory=own_peak(),
        )
        return report, update, result.memory

    def _choose(self, task: TrainTask, models: Sequence[Vector]) -> int:
        """Return the candidate with the least loss on the client's training data, the first of equals."""
        if len(task.candidates) == 1:
            return task.candidates[0]
        losses = {}
        for candidate in task.candidates:
            self._flat.write(models[candidate])
            loss = self._test(self._train_sets[task.client]).loss_sum
            losses[candidate] = inf if isnan(loss) else loss
        return min(task.candidates, key=losses.__getitem__)

    def _test(self, held: _DeviceSet) -> Counts:
        return evaluation.test(
            self._flat.module, held.images, held.labels, self._num_classes, evaluation.TEST_BATCH
        )


@contextmanager
def _named(task: TrainTask) -> Iterator[None]:
    """Put the client and the round in front of what goes wrong meanwhile."""
    try:
        yield
    except Exception as error:
        cause = f"{error}" if isinstance(error, FedgridError) else f"{type(error).__name__}: {error}"
        raise RunError(f"client {task.client}, round {task.round_index + 1}: {cause}") from error


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    """Give torch one thread for a while, whatever the process has.

    The last bits of a convolution depend on the number of threads, and a run's may not depend on where
    its clients live: more cores are for more actors.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _squared_norm(update: Vector) -> float:
    """Return the squared Euclidean norm, summed in float64; NaN or infinite if and only if an entry is.

    Not by a BLAS product, whose last bits depend on the process's number of threads.
    """
    starts = range(0, len(update), BLOCK)
    return float(sum(np.square(update[i : i + BLOCK], dtype=np.float64).sum() for i in starts))
