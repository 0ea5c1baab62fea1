"""The baseline of the benchmarks: federated averaging as a plain PyTorch loop in two processes.

It has the same clients, images, model, batch size and epochs, but no Ray, no records and no clustering. Each
process draws clients from a queue and returns the sum of their updates through a pipe. As in the engine's
workers, memory that training frees stays with the process: without that, a quarter of the time are page
faults.
"""

from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.queues import SimpleQueue
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgrid.engine.federation.clients.messages import Setup
from fedgrid.engine.federation.clients.process import keep_freed_memory
from fedgrid.engine.federation.models.registry import build_model
from fedgrid.engine.federation.training.settings import LocalTraining

PROCESSES = 2


class PlainLoop:
    """Federated averaging in two processes; `next_round` trains one round."""

    def __init__(self, setup: Setup) -> None:
        context = get_context("spawn")
        self._num_clients = len(setup.clients)
        module = build_model(setup.model, setup.inputs, setup.num_classes)
        self._model = nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
        self._workers = []
        self._waiting: SimpleQueue[int | None] = context.SimpleQueue()
        for _ in range(PROCESSES):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve_rounds, args=(theirs, self._waiting, setup), daemon=True)
            process.start()
            ours.recv()
            self._workers.append((process, ours))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        for process, pipe in self._workers:
            pipe.send(None)
            process.join()

    def next_round(self) -> None:
        """Train every client and add the mean of their updates to the model."""
        for _, pipe in self._workers:
            pipe.send(self._model)
        for client in (*range(self._num_clients), *[None] * PROCESSES):
            self._waiting.put(client)
        self._model = self._model + sum(pipe.recv() for _, pipe in self._workers) / self._num_clients


def serve_rounds(
    pipe: Connection,
    waiting: "SimpleQueue[int | None]",
    setup: Setup,
) -> None:
    """Train the waiting clients from each model from the pipe, until it sends None."""
    keep_freed_memory()
    # Two processes on two cores: more threads would compete with each other.
    torch.set_num_threads(1)
    module = build_model(setup.model, setup.inputs, setup.num_classes)
    data = [
        (torch.from_numpy(client.train.images).float() / 255, torch.from_numpy(client.train.labels))
        for client in setup.clients
    ]
    pipe.send("ready")
    while (start := pipe.recv()) is not None:
        vector = torch.from_numpy(start)
        total = torch.zeros_like(vector)
        for client in iter(waiting.get, None):
            total += train_client(module, vector, *data[client], setup.training) - vector
        pipe.send(total.numpy())


def train_client(
    module: nn.Module, start: Tensor, images: Tensor, labels: Tensor, training: LocalTraining
) -> Tensor:
    """Train one client from `start`, and read its weights.

    Args:
        module: a module of the model, whose weights are overwritten.
        start: the global model as a vector.
        images: the client's images, from 0 to 1.
        labels: their classes.
        training: epochs, batch size and learning rate; the optimizer is SGD.
    """
    nn.utils.vector_to_parameters(start.clone(), module.parameters())
    optimizer = torch.optim.SGD(module.parameters(), lr=training.learning_rate)
    for _ in range(training.local_epochs):
        order = torch.randperm(len(labels))
        for batch in torch.split(order, training.batch_size):
            optimizer.zero_grad()
            torch.autograd.backward(functional.cross_entropy(module(images[batch]), labels[batch]))
            optimizer.step()
    return nn.utils.parameters_to_vector(module.parameters()).detach()
