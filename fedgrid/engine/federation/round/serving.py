"""Tests of what clients are served after a round, those included that never train in the federation.

A client that is held out is served once, after the last round, as a newcomer. It says what newcomers say
about their data, and trains what it is sent. By its reply the algorithm finds its place (`Algorithm.place`);
where that is a cluster that was split later, it trains again for the next level. Each is served on its own
from the state after the round, which stays as it is.

Shapes: K clients of the federation.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedgrid.algorithms.contract.base import Labels, State
from fedgrid.algorithms.contract.checks import check_global_model, check_orders, check_served
from fedgrid.algorithms.contract.orders import Presence, Served
from fedgrid.algorithms.updates.source import InMemory, Rng, read_only
from fedgrid.algorithms.updates.updates import Updates
from fedgrid.engine.federation.clients.messages import EvaluateTask, Reply, TrainReport, TrainTask
from fedgrid.engine.federation.clients.pool import Pool
from fedgrid.engine.federation.own_code import own_code
from fedgrid.engine.federation.record_names import GLOBAL_TESTS, SERVED_TESTS
from fedgrid.engine.federation.round.federation import Federation
from fedgrid.engine.federation.round.record import ModelTests
from fedgrid.engine.federation.seeds import generator
from fedgrid.engine.federation.training.confusion import Counts

if TYPE_CHECKING:
    from fedgrid.engine.federation.clients.client_round import ClientRound
    from fedgrid.engine.federation.clients.messages import Memories
    from fedgrid.engine.federation.round.plan import Plan


def run_tests(
    federation: Federation, plan: Plan, work: ClientRound, state: State, memories: Memories
) -> ModelTests:
    """Test the models that are served after a round and, if asked, the one for all; none if no test is due.

    Every client tests on the server's images; those that are present, or were asked, on their own too.
    `state` and `memories` are those after the round.
    """
    if not federation.evaluates(plan.round_index):
        return {}
    testing: Collection[int] = plan.attendance.present
    if federation.evaluation.clients == "asked":
        testing = [order.client for order in plan.orders]
    size = federation.layout.size
    served = check_served(federation.algorithm, state, size)
    model = None
    if federation.evaluation.global_model:
        model = check_global_model(federation.algorithm, state, size)
    of_served = _tests(served, work, memories, testing)
    tests = [(SERVED_TESTS, of_served)]
    if model is not None and served.adaptation is None and all(other is model for other in served.models):
        tests.append((GLOBAL_TESTS, of_served))
    elif model is not None:
        alone = Served((model,), np.zeros(len(served.model_K), np.int64))
        tests.append((GLOBAL_TESTS, _tests(alone, work, {}, testing)))
    return {
        client: {
            name: counts
            for names, by_client in tests
            for name, counts in zip(names, by_client[client], strict=False)
        }
        for client in of_served
    }


def _tests(
    served: Served, work: ClientRound, memories: Memories, testing: Collection[int]
) -> dict[int, tuple[Counts, ...]]:
    """Return each client's tests of its model: on its own images, and on the server's."""
    # Without the entries that clients keep to themselves, what the server has is no model.
    is_whole = served.adaptation is None or not served.adaptation.rule.personal
    tests: dict[int, tuple[Counts, ...]] = {}
    for report in work.test(served, memories, testing):
        if report.own is not None:
            place = served.model_K[report.client] if report.chosen is None else report.chosen
            on_server = (report.server[place],) if is_whole else ()
            tests[report.client] = (report.own, *on_server)
    return tests


@dataclass(frozen=True)
class HeldOut:
    """What the records have of clients that were held out; nothing before the last round."""

    labels_K: Labels
    """The clusters of all clients, with the places that these have found."""
    reports: Sequence[TrainReport] = ()
    """Of the last training of each."""
    tests: ModelTests = field(default_factory=dict)


def serve_held_out(federation: Federation, round_index: int, state: State, pool: Pool) -> HeldOut:
    """Return what the clients that were held out have after a round, from 0; `state` is that after it."""
    labels_K, reports, tests = state.labels_K.copy(), [], {}
    if round_index + 1 == federation.rounds:
        for client in sorted(federation.participation.held_out):
            newcomer = _Newcomer(federation, pool, client, federation.rounds)
            placed, reply = newcomer.place(state)
            labels_K[client] = placed.labels_K[client]
            reports += [] if reply is None else [reply.report]
            tests[client] = {SERVED_TESTS[0]: newcomer.test(placed, reply)}
    return HeldOut(labels_K, reports, tests)


@dataclass(frozen=True)
class _Newcomer:
    federation: Federation
    pool: Pool
    client: int
    round_index: int
    """That after the last one, in which it would join."""

    def place(self, state: State) -> tuple[State, Reply | None]:
        """Return the state in which it has its place, and its last reply; None if it is not asked."""
        state, reply = self._meet(state), None
        for _ in state.models:  # As many levels as there can be.
            if (reply := self._train(state)) is None or not reply.report.usable:
                break
            before, algorithm = state.labels_K[self.client], self.federation.algorithm
            with own_code(algorithm, "place"):
                state = algorithm.place(state, self._updates(state, reply))
            state = self.federation.checked("place", state)
            if state.labels_K[self.client] == before:
                break
        return state, reply

    def test(self, state: State, reply: Reply | None) -> Counts:
        """Return the test, on its own images, of the model that it is served."""
        served = check_served(self.federation.algorithm, state, self.federation.layout.size)
        is_choosing = self.client in served.choosing
        models = served.models if is_choosing else [served.models[served.model_K[self.client]]]
        choose_on = served.choose_on if is_choosing else None
        task = EvaluateTask(self.client, 0, served.adaptation, self.round_index, choose_on, served.choose_by)
        memories = {} if reply is None else {self.client: reply.memory}
        [report] = self.pool.evaluate([task], models, memories)
        assert report.own is not None, "a client is tested on its own images"
        return report.own

    def _rng(self, purpose: str) -> Rng:
        return generator(self.federation.seed, purpose, client=self.client, round_index=self.round_index)

    def _meet(self, state: State) -> State:
        """Return the state that knows what it says about its data."""
        algorithm, message = self.federation.algorithm, self.federation.algorithm.message()
        if message is None:
            return state
        message = message.model_copy(update={"round_index": self.round_index})
        [said] = self.pool.describe([self.client], message, self.federation.encoder)
        read_only(said.payload.values())
        rng = self._rng("messages")
        with own_code(algorithm, "meet"):
            state = algorithm.meet(state, {self.client: said.payload}, self.federation.layout, rng)
        return self.federation.checked("meet", state)

    def _train(self, state: State) -> Reply | None:
        algorithm, participation = self.federation.algorithm, self.federation.participation
        alone = Presence((self.client,), (self.client,), participation.participation)
        with own_code(algorithm, "orders"):
            orders = algorithm.orders(state, self.round_index, alone, self._rng("orders"))
        tasks = [
            TrainTask(order, self.round_index, evaluate=True)
            for order in check_orders(algorithm, orders, len(state.models), alone)
        ]
        return self.pool.train(tasks, state.models, {})[0] if tasks else None

    def _updates(self, state: State, reply: Reply) -> Updates:
        client, report = self.client, reply.report
        outputs = {name: {client: array} for name, array in reply.outputs.items()}
        return Updates(
            InMemory({client: reply.update}, outputs),
            self.federation.layout,
            similarity_over=self.federation.algorithm.settings.similarity_over,
            threads=self.federation.threads,
            chosen={client: report.chosen},
            absent=set(range(len(state.labels_K))) - {client},
            clients=[client],
            images={client: report.images},
            steps={client: report.steps},
        )
