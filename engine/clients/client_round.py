"""The clients' part of one round, as a lazy source of its updates.

Shapes: K clients of the federation, P entries of a state vector.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from types import TracebackType
from typing import Any, Self, TypeVar

from numpy.typing import NDArray

from fedgrid.algorithms.contract.orders import Served
from fedgrid.algorithms.contract.source import UPDATE, Arrays, Compute
from fedgrid.algorithms.contract.updates import Vector
from fedgrid.engine.clients import peak_memory
from fedgrid.engine.clients.messages import (
    EvaluateReport,
    EvaluateTask,
    Memory,
    Reply,
    TrainReport,
    TrainTask,
)
from fedgrid.engine.clients.pool import Pool
from fedgrid.engine.training.confusion import Counts

R = TypeVar("R")


@dataclass(frozen=True)
class Evaluations:
    """The served models' tests."""

    __test__ = False
    """For pytest: this is no class of tests."""

    own: Mapping[int, Counts]
    """Client -> its model on its own test set."""
    server: Sequence[Counts]
    """Each model on the server's test set."""
    chosen: Mapping[int, int] = field(default_factory=dict)
    """Client -> the position of its model, for the clients that chose one."""


class ClientRound:
    """One round's work at the clients, in a `with` block. This one computes everything and caches nothing."""

    def __init__(
        self,
        tasks: Sequence[TrainTask],
        models: Sequence[Vector],
        memories: Mapping[int, Memory],
        pool: Pool,
        round_index: int,
    ) -> None:
        """Prepare a round; nothing is trained before it is asked for.

        Args:
            tasks: of the clients that are reached.
            models: what the orders' candidates count, each float32, shape (P,).
            memories: client -> what its last training left.
            pool: where the clients are.
            round_index: from 0.
        """
        self._tasks = {task.client: task for task in tasks}
        self._models = models
        self._memories = memories
        self._pool = pool
        self._round_index = round_index
        self._replies: dict[int, Reply] = {}
        self.trained: list[TrainReport] = []
        """The reports of the clients that this run trained itself."""
        self.train_seconds = 0.0
        """The time that took."""
        self.waited_seconds = 0.0
        """The time spent waiting for another run to finish the same round."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the round."""

    @property
    def num_reached(self) -> int:
        """How many clients train in this round, in whatever run."""
        return len(self._tasks)

    @property
    def computed_by(self) -> str | None:
        """The run whose results were taken; None if this run trained."""
        return None

    @property
    def saved_seconds(self) -> float:
        """What the results taken from other runs would have cost this one."""
        return 0.0

    def timed(self, function: Callable[[], R]) -> tuple[R, float]:
        """Return what a function returns, and the seconds that took but for training and waiting."""
        start, before = time.perf_counter(), self.train_seconds + self.waited_seconds
        result = function()
        return result, time.perf_counter() - start - (self.train_seconds + self.waited_seconds - before)

    def account(self, run_id: str, seconds: float) -> dict[str, object]:
        """Return what a round of `run_id` that took `seconds` cost, and which client was the slowest."""
        slowest = max(self.trained, key=lambda report: report.seconds, default=None)
        peaks = [peak_memory.own_peak(), *(report.peak_memory for report in self.trained)]
        return {
            "seconds": seconds - self.waited_seconds,
            "train_seconds": self.train_seconds,
            "slowest_client": slowest and slowest.client,
            "slowest_client_seconds": slowest and slowest.seconds,
            "peak_memory_mb": peak_memory.total(peaks),
            "computed_by": self.computed_by or run_id,
            "reached_clients": self.num_reached,
            "trained_clients": len(self.trained),
            "waited_seconds": self.waited_seconds,
            "uncached_seconds": seconds - self.waited_seconds + self.saved_seconds,
            "ended_ms": int(time.time() * 1000),
        }

    def reports(self) -> list[TrainReport]:
        """Return the clients' reports, in the order of the tasks."""
        self._train(list(self._tasks))
        return [self._replies[client].report for client in self._tasks]

    def fetch(self, clients: Sequence[int], output: str = UPDATE) -> list[NDArray[Any]]:
        """Return the updates of clients, or another output of their replies."""
        self._train(clients)
        replies = [self._replies[client] for client in clients]
        return [reply.update if output == UPDATE else reply.outputs[output] for reply in replies]

    def cached(self, wanted: Mapping[str, Sequence[int]], compute: Compute) -> list[Arrays]:
        """Compute statistics."""
        return compute(list(wanted))

    def memories(self) -> dict[int, Memory]:
        """Return what clients with a usable update are to remember; `reports` comes first."""
        return {
            client: reply.memory
            for client, reply in self._replies.items()
            if reply.memory and reply.report.usable
        }

    def test(self, served: Served, memories: Mapping[int, Memory], testing: Collection[int]) -> Evaluations:
        """Test served models: each client on its part of the server's images, `testing` on their own too.

        `memories` are those after this round, for models that are adapted before their test.
        """
        tasks = [
            EvaluateTask(
                client,
                int(place) if client in testing else None,
                served.adaptation,
                self._round_index,
                served.choose_on if client in served.choosing else None,
                served.choose_by,
            )
            for client, place in enumerate(served.model_K)
        ]
        return _summed(self._pool.evaluate(tasks, served.models, memories))

    def _train(self, clients: Sequence[int]) -> None:
        """Train those of `clients` that have not been trained in this round."""
        tasks = [self._tasks[client] for client in clients if client not in self._replies]
        if not tasks:
            return
        start = time.perf_counter()
        for reply in self._pool.train(tasks, self._models, self._memories):
            self._replies[reply.report.client] = reply
            self.trained.append(reply.report)
        self.train_seconds += time.perf_counter() - start


def _summed(reports: Sequence[EvaluateReport]) -> Evaluations:
    """Return the tests, the parts of the server's set added up by client."""
    parts = zip(*(report.server_parts for report in reports), strict=True)
    own = {report.client: report.own for report in reports if report.own is not None}
    chosen = {report.client: report.chosen for report in reports if report.chosen is not None}
    return Evaluations(own, [reduce(add, each) for each in parts], chosen)
