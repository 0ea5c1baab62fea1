"""The pool of a run's clients: what trains and tests them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

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

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.orders import Message
    from fedgrid.engine.federation.encoders.encoder import Encoder

Machine = Mapping[str, str]
"""Name -> version, model or setting, as in `torch build` -> `2.4.0+cpu`. Equal machines have equal values."""


class Pool(Protocol):
    """Trains and tests clients, wherever they are; results come back in the order of the tasks.

    A run calls `machines` and `prepare` before its first round, `describe` before rounds with messages, then
    `train` and `evaluate` in each round.
    """

    def machines(self) -> Sequence[Machine]:
        """List the machines that clients train on; equal ones count once."""

    def prepare(self, setup: Setup) -> None:
        """Give the clients of a run their data; data of an earlier run are dropped."""

    def describe(
        self, clients: Sequence[int], message: Message, encoder: Encoder | None = None
    ) -> list[ClientDescription]:
        """Describe the training images of each of `clients`, or their codes, as the message says."""

    def train(self, tasks: Sequence[TrainTask], models: Models, memories: Memories) -> list[Reply]:
        """Train the clients of `tasks`, each from one of `models`; `memories` are by client."""

    def evaluate(
        self, tasks: Sequence[EvaluateTask], models: Models, memories: Memories
    ) -> list[EvaluateReport]:
        """Test `models` at the clients of `tasks`."""
