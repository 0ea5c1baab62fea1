"""The other side of the benchmarks: federated averaging as a plain PyTorch loop in two processes.

The same clients, images, model, batches and epochs; no Ray, no records, no clustering. Each process trains
every second client, one after the other, and sends back the sum of its updates through a pipe.
"""

from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgrid.engine.clients.messages import ClientData, Setup
from fedgrid.engine.models.registry import build
from fedgrid.engine.training.settings import Training

PROCESSES = 2


class PlainLoop:
    """Two processes that train a round when told to."""

    def __init__(self, setup: Setup) -> None:
        context = get_context("spawn")
        shape = setup.clients[0].train.images.shape[1:]
        self._num_clients = len(setup.clients)
        module = build(setup.model, shape, setup.num_classes)
        self._model = nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
        self._workers = []
        for index in range(PROCESSES):
            ours, theirs = context.Pipe()
            share = setup.clients[index::PROCESSES]
            arguments = (theirs, share, setup.model, shape, setup.num_classes, setup.training)
            process = context.Process(target=work, args=arguments, daemon=True)
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
        """Train every client and move the model by the mean of their updates."""
        for _, pipe in self._workers:
            pipe.send(self._model)
        self._model = self._model + sum(pipe.recv() for _, pipe in self._workers) / self._num_clients


def work(
    pipe: Connection,
    clients: list[ClientData],
    model: str,
    shape: tuple[int, int, int],
    num_classes: int,
    training: Training,
) -> None:
    """Train `clients` whenever a model comes through the pipe, until None does."""
    torch.set_num_threads(1)
    module = build(model, shape, num_classes)
    data = [
        (torch.from_numpy(client.train.images).float() / 255, torch.from_numpy(client.train.labels))
        for client in clients
    ]
    pipe.send("ready")
    while (start := pipe.recv()) is not None:
        vector = torch.from_numpy(start)
        updates: Any = [train(module, vector, images, labels, training) - vector for images, labels in data]
        pipe.send(torch.stack(updates).sum(0).numpy())


def train(module: nn.Module, start: Tensor, images: Tensor, labels: Tensor, training: Training) -> Tensor:
    """Train one client from `start`; return its weights."""
    nn.utils.vector_to_parameters(start.clone(), module.parameters())
    optimizer = torch.optim.SGD(module.parameters(), lr=training.learning_rate)
    for _ in range(training.local_epochs):
        order = torch.randperm(len(labels))
        for batch in order.split(training.batch_size):
            optimizer.zero_grad()
            functional.cross_entropy(module(images[batch]), labels[batch]).backward()
            optimizer.step()
    return nn.utils.parameters_to_vector(module.parameters()).detach()
