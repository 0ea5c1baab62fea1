"""Where clients live: the interface that a federation needs, and the pool in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fedgrid.algorithms.contract.updates import Vector
from fedgrid.engine.clients.messages import (
    ClientData,
    EvaluateReport,
    EvaluateTask,
    ImageSet,
    TrainReport,
    TrainTask,
)
from fedgrid.engine.plugins.source import Source
from fedgrid.engine.settings import Training

if TYPE_CHECKING:
    from fedgrid.engine.clients.worker import ClientWorker


@dataclass(frozen=True)
class Trained:
    """What comes back from one client's local training."""

    report: TrainReport
    update: Vector
    """After minus before, shape (P,); with Ray a read-only view of the object store."""
    memory: Vector | None
    """What the client's optimizer remembers, if it is told to."""


@dataclass(frozen=True)
class Setup:
    """What clients need to know before a run."""

    model: str
    num_classes: int
    training: Training
    seed: int
    clients: tuple[ClientData, ...]
    server_set: ImageSet
    server_parts: Mapping[int, slice]
    """Client -> its part of the server's test set, for testing aggregated models together."""
    plugins: tuple[Source, ...] = ()
    """That the run names: a client may need its model or local rule from them."""


class Pool(Protocol):
    """Trains and tests clients, wherever they are; results come back in the order of the tasks."""

    @property
    def device(self) -> str:
        """What kind of device clients train on, as torch calls it."""

    def prepare(self, setup: Setup) -> None:
        """Hand the clients of a run their data; what an earlier run left is dropped."""

    def train(
        self, tasks: Sequence[TrainTask], models: Sequence[Vector], memories: Mapping[int, Vector]
    ) -> list[Trained]:
        """Train the clients of `tasks`, each from one of `models`."""

    def evaluate(self, tasks: Sequence[EvaluateTask], models: Sequence[Vector]) -> list[EvaluateReport]:
        """Test `models` at the clients of `tasks`."""


class OnDemand:
    """Hands the clients of a run their data when there is something to do: a run that takes all of its rounds
    from others needs no client."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._setup: Setup | None = None

    @property
    def device(self) -> str:
        """What kind of device clients train on."""
        return self._pool.device

    def prepare(self, setup: Setup) -> None:
        """Note what the clients are to be handed."""
        self._setup = setup

    def train(
        self, tasks: Sequence[TrainTask], models: Sequence[Vector], memories: Mapping[int, Vector]
    ) -> list[Trained]:
        """Train the clients of `tasks`, each from one of `models`."""
        return self._prepared().train(tasks, models, memories)

    def evaluate(self, tasks: Sequence[EvaluateTask], models: Sequence[Vector]) -> list[EvaluateReport]:
        """Test `models` at the clients of `tasks`."""
        return self._prepared().evaluate(tasks, models)

    def _prepared(self) -> Pool:
        if self._setup is not None:
            self._pool.prepare(self._setup)
            self._setup = None
        return self._pool


class InProcessPool:
    """All clients in this process, one after the other: for tests, debuggers and profilers."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self._host: ClientWorker | None = None

    def prepare(self, setup: Setup) -> None:
        """Hand the clients of a run their data."""
        # It brings torch, which whoever only reads what runs left does without.
        from fedgrid.engine.clients.worker import ClientWorker

        self._host = ClientWorker(
            model=setup.model,
            num_classes=setup.num_classes,
            training=setup.training,
            seed=setup.seed,
            clients=setup.clients,
            server_set=setup.server_set,
            server_parts=setup.server_parts,
            device=self.device,
        )

    @property
    def host(self) -> ClientWorker:
        """The host of all clients."""
        assert self._host is not None, "prepare() comes first"
        return self._host

    def train(
        self, tasks: Sequence[TrainTask], models: Sequence[Vector], memories: Mapping[int, Vector]
    ) -> list[Trained]:
        """Train the clients of `tasks`, each from one of `models`."""
        return [Trained(*result) for result in self.host.train(tasks, models, memories)]

    def evaluate(self, tasks: Sequence[EvaluateTask], models: Sequence[Vector]) -> list[EvaluateReport]:
        """Test `models` at the clients of `tasks`."""
        return self.host.evaluate(tasks, models)
