"""Pools in this process: one that trains here, and one that waits for the first task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedgrid.algorithms.contract.orders import Message
from fedgrid.engine.federation.clients.messages import (
    ClientDescription,
    EvaluateReport,
    EvaluateTask,
    Memories,
    Models,
    Reply,
    Setup,
    TrainTask,
)
from fedgrid.engine.federation.clients.pool import Machine, Pool
from fedgrid.engine.runtime.clients.machine import describe_machine

if TYPE_CHECKING:
    from fedgrid.engine.federation.clients.worker import ClientWorker
    from fedgrid.engine.federation.encoders.encoder import Encoder


class _ForwardingPool(ABC):
    """Forwards the tasks of a `Pool` to the place where the clients are."""

    @abstractmethod
    def _find_pool(self) -> Pool | ClientWorker:
        """Find the place where the clients are, prepared."""

    def describe(
        self, clients: Sequence[int], message: Message, encoder: Encoder | None = None
    ) -> list[ClientDescription]:
        """Describe the clients' data there."""
        return self._find_pool().describe(clients, message, encoder)

    def train(self, tasks: Sequence[TrainTask], models: Models, memories: Memories) -> list[Reply]:
        """Train the clients there."""
        return self._find_pool().train(tasks, models, memories)

    def evaluate(
        self, tasks: Sequence[EvaluateTask], models: Models, memories: Memories
    ) -> list[EvaluateReport]:
        """Test the models there."""
        return self._find_pool().evaluate(tasks, models, memories)


class InProcessPool(_ForwardingPool):
    """All clients in this process, one after the other: for tests, debuggers and profilers."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self._worker: ClientWorker | None = None

    def machines(self) -> Sequence[Machine]:
        """List this machine."""
        return [describe_machine(self.device)]

    def prepare(self, setup: Setup) -> None:
        """Give the clients of a run their data."""
        # Imports torch, which takes seconds; commands that only read results do without.
        from fedgrid.engine.federation.clients.worker import ClientWorker

        # Drop the models and images of the run before first: the device may not hold both.
        self._worker = None
        self._worker = ClientWorker(setup, self.device)

    def _find_pool(self) -> ClientWorker:
        """Return the worker, which `prepare` has made."""
        assert self._worker is not None, "prepare() comes first"
        return self._worker


class LazyPool(_ForwardingPool):
    """Prepares a pool at the first task: a run that finds all of its rounds in the round cache needs none."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._setup: Setup | None = None

    def machines(self) -> Sequence[Machine]:
        """List the machines that clients train on."""
        return self._pool.machines()

    def prepare(self, setup: Setup) -> None:
        """Note what the clients need."""
        self._setup = setup

    def _find_pool(self) -> Pool:
        """Return the pool, prepared now if it was not."""
        if self._setup is not None:
            self._pool.prepare(self._setup)
            self._setup = None
        return self._pool
