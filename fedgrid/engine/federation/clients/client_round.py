"""The clients' part of one round, as a lazy source of its updates.

Shapes: K clients of the federation, P entries of a state vector.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from operator import add
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from numpy.typing import NDArray

from fedgrid.algorithms.updates.source import UPDATE, Arrays, ComputeStatistics, make_read_only
from fedgrid.engine.federation.clients.messages import (
    EvaluateTask,
    Memories,
    Memory,
    Models,
    Reply,
    RoundTests,
    TrainReport,
    TrainTask,
)

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.orders import Served
    from fedgrid.engine.federation.clients.pool import Pool
    from fedgrid.engine.federation.clients.stopwatch import Stopwatch


class ClientRound:
    """One round's work at the clients, in a `with` block; this one computes everything and caches nothing.

    The server calls, in this order, `collect_reports`, whatever its algorithm needs of `fetch` and `cached`,
    `collect_memories` and `test_models`. A client trains at the first call that needs its reply, and once a
    round.
    """

    def __init__(
        self,
        tasks: Sequence[TrainTask],
        models: Models,
        memories: Memories,
        pool: Pool,
        round_index: int,
        watch: Stopwatch,
    ) -> None:
        """Prepare a round; nothing is trained yet.

        Args:
            tasks: The training of each client that replies; candidates are positions among `models`.
            models: The models of the round, each float32, shape (P,).
            memories: What the clients' last training left, by client.
            pool: Where the clients are.
            round_index: The round, from 0.
            watch: Counts the time that training and waiting take.
        """
        # Tasks, models and memories are shared by clients of one process: a rule that wrote to them would
        # change the training of the next client.
        for arrays in [*memories.values(), *(task.order.payload for task in tasks)]:
            make_read_only(arrays.values())
        self._tasks = {task.client: task for task in tasks}
        self._models = models
        self._memories = memories
        self._pool = pool
        self._round_index = round_index
        self._watch = watch
        self._replies: dict[int, Reply] = {}
        self.trained: list[TrainReport] = []
        """Reports of the clients that this run trained itself."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the round."""

    @property
    def num_reached(self) -> int:
        """Number of clients that train in this round; another run may have trained them."""
        return len(self._tasks)

    @property
    def computed_by(self) -> str | None:
        """The run whose results were taken; None if this run trained."""
        return None

    @property
    def saved_seconds(self) -> float:
        """Seconds that the results taken from other runs would have cost this one."""
        return 0.0

    def collect_reports(self) -> list[TrainReport]:
        """Train all clients and collect their reports, in the order of the tasks."""
        self._train_missing(list(self._tasks))
        return [self._replies[client].report for client in self._tasks]

    def fetch(self, clients: Sequence[int], output: str = UPDATE) -> list[NDArray[Any]]:
        """Fetch the updates of clients, or another output of their replies.

        Clients that have not trained in this round do so now.
        """
        self._train_missing(clients)
        replies = [self._replies[client] for client in clients]
        return [reply.update if output == UPDATE else reply.outputs[output] for reply in replies]

    def cached(self, clients_of: Mapping[str, Sequence[int]], compute: ComputeStatistics) -> list[Arrays]:
        """Compute statistics; the round cache overrides this."""
        return compute(list(clients_of))

    def collect_memories(self) -> dict[int, Memory]:
        """Collect what clients with a usable update are to remember; `collect_reports` comes first."""
        return {
            client: reply.memory
            for client, reply in self._replies.items()
            if reply.report.usable and self.has_memory(reply)
        }

    def has_memory(self, reply: Reply) -> bool:
        """Check whether a reply replaces what its client remembers, be it by nothing."""
        return bool(reply.memory or self._tasks[reply.report.client].order.rule.remembers)

    def test_models(self, served: Served, memories: Memories, testing: Collection[int]) -> RoundTests:
        """Test served models on the server's images, and on those of the clients of `testing`.

        Each client tests all models on its part of the server's images; the parts are added up by model.

        Args:
            served: The models, and which of them is whose.
            memories: Those after this round, for models that are adapted before their test.
            testing: The clients that test on their own images.
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
        reports = self._pool.evaluate(tasks, served.models, memories)
        # Counts are sums, so the parts of the clients add up to the test of the complete set, whatever the
        # number of clients.
        parts = zip(*(report.server for report in reports if report.server), strict=True)
        return RoundTests(
            own={report.client: report.own for report in reports if report.own is not None},
            server=tuple(reduce(add, model_parts) for model_parts in parts),
            chosen={report.client: report.chosen for report in reports if report.chosen is not None},
        )

    def _train_missing(self, clients: Sequence[int]) -> None:
        """Train those of `clients` that have not been trained in this round."""
        tasks = [self._tasks[client] for client in clients if client not in self._replies]
        if not tasks:
            return
        with self._watch.time_training():
            replies = self._pool.train(tasks, self._models, self._memories)
        for reply in replies:
            # Replies may be views of Ray's object store, and statistics are cached by their content: nothing
            # may write to them.
            make_read_only([reply.update, *reply.outputs.values(), *reply.memory.values()])
        self._replies |= {reply.report.client: reply for reply in replies}
        self.trained += [reply.report for reply in replies]


class OtherBits(Exception):
    """Clients have trained again and got other bits than those behind the cached results of the round."""


ClientRoundFactory: TypeAlias = Callable[
    ["Sequence[TrainTask]", "Models", "Memories", "Pool", int, "Stopwatch"], ClientRound
]
"""Makes a round's work at the clients, of which other runs may have done some; takes what `ClientRound`
takes.

Methods of what it makes raise `OtherBits` if clients that train again get other bits than those in the cache.
"""
