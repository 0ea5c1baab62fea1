"""One round of a federation as a function: the run's state in, its state and a record out.

The order within a round is the published one: train every client, test the local models, measure the
temperature and cluster, aggregate inside the clusters, test the new cluster models.
"""

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fedgrid.algorithms.clustering.graph import is_defined, silhouette
from fedgrid.algorithms.contract.base import Algorithm, Diagnostics, Fresh, Labels, State
from fedgrid.algorithms.contract.layout import Layout
from fedgrid.algorithms.contract.orders import Order
from fedgrid.algorithms.contract.updates import Updates
from fedgrid.engine.before_training.meeting import Meeting, meet
from fedgrid.engine.checkpoint import RunState
from fedgrid.engine.clients.client_round import ClientRound
from fedgrid.engine.clients.messages import TrainReport, TrainTask
from fedgrid.engine.clients.model_tests import ModelTests, run_tests
from fedgrid.engine.clients.participation import Participation
from fedgrid.engine.clients.pool import Pool
from fedgrid.engine.disturbances.held import Changes
from fedgrid.engine.errors import RunError
from fedgrid.engine.records import RoundRecord, client_row, round_row, warnings_of
from fedgrid.engine.round_cache.cached_round import CachedRound, OtherBits
from fedgrid.engine.round_cache.old_partition import cache_means_of_old_partition
from fedgrid.engine.round_cache.session_cache import SessionCache
from fedgrid.engine.round_metrics import RoundOutcome
from fedgrid.engine.seeds import generator
from fedgrid.engine.training.settings import Evaluation
from fedgrid.engine.uplink import budget
from fedgrid.engine.uplink.accountant import Accountant
from fedgrid.engine.uplink.privacy import CentralNoise

if TYPE_CHECKING:
    from fedgrid.engine.encoders.encoder import Encoder


@dataclass(frozen=True)
class Federation:
    """What stays the same in every round of a run."""

    algorithm: Algorithm
    layout: Layout
    seed: int
    rounds: int
    evaluation: Evaluation
    truth_K: Labels
    participation: Participation
    train_images_K: Sequence[int]
    test_images_K: Sequence[int]
    run_id: str = ""
    threads: int = 1
    weights: str = "none"
    """`RunConfig.weights`."""
    changes: Changes = Changes()
    """Attackers, and clients whose data change: `truth_K` and the numbers of images are those of round 1."""
    accountant: Accountant = Accountant()
    """Of privacy; without noise it counts nothing."""
    encoder: "Encoder | None" = None
    """What the algorithm's message asks for."""

    def begin(self, fresh: Fresh) -> RunState:
        """Return the run's state before the first round; `fresh` draws initial models."""
        state = self.algorithm.init(self.layout, len(self.truth_K), fresh, generator(self.seed, "init"))
        return RunState(0, self.algorithm.reveal(state, self.truth_K), {})

    def next_round(
        self, run_state: RunState, pool: Pool, cache: SessionCache | None = None
    ) -> tuple[RunState, RoundRecord]:
        """Run one round; with `cache`, take what other runs computed of it and keep what is computed here.

        If clients that train again get other bits than those behind what was taken, as they may on a GPU, the
        whole round is computed here: all of its numbers are of the same updates.

        Raises:
            RunError: if no client has a usable update; `run_state` is still good.
        """
        try:
            return self._run_round(run_state, pool, cache)
        except OtherBits:
            return self._run_round(run_state, pool, None)

    def _run_round(
        self, run_state: RunState, pool: Pool, cache: SessionCache | None
    ) -> tuple[RunState, RoundRecord]:
        start = time.perf_counter()
        round_index, accountant = run_state.rounds_done, self.accountant
        evaluate = self._evaluates(round_index)
        if self.changes.begins(round_index):
            now_K, before_K = (self.changes.truth(self.truth_K, at) for at in (round_index, round_index - 1))
            run_state = replace(run_state, state=self.algorithm.reveal(run_state.state, now_K, before_K))
        present = self.participation.present(round_index)
        can_pay = budget.can_speak_again(accountant, run_state.spent_K, present)
        newcomers = self.participation.newcomers(round_index)
        state, meeting = meet(
            self.algorithm, newcomers, can_pay, run_state, pool, self.layout, self.seed, self.encoder
        )
        charges = accountant.charges(meeting.messages, round_index, meeting.again)
        spent_before_training_K = accountant.with_charges(run_state.spent_K, len(self.truth_K), charges)
        orders_before_budget = self._orders(state, round_index)
        orders = budget.affordable(
            accountant, spent_before_training_K, orders_before_budget, is_first=not round_index
        )
        with self._work(orders, state, run_state, pool, cache) as work:
            reports = work.reports()
            noise = accountant.central_noise(round_index)
            updates = self._updates(reports, work, round_index, noise)
            before = state
            sent = [report.client for report in reports]
            excluded = [report.client for report in reports if not report.usable]
            traffic = self._traffic(orders, reports, meeting)

            def step() -> tuple[State, Diagnostics, dict[str, object]]:
                after, diagnostics = before, Diagnostics()
                if orders or not orders_before_budget:
                    after, diagnostics = self._step(before, round_index, updates)
                diagnostics = accountant.warned(diagnostics, run_state.spent_K, orders, charges)
                diagnostics = budget.noted(accountant, diagnostics, spent_before_training_K, orders, sent)
                outcome = RoundOutcome(
                    updates, after, diagnostics, *traffic, len(excluded), meeting.up, sum(meeting.encoder)
                )
                return after, diagnostics, round_row(round_index + 1, outcome, self.algorithm.traits.columns)

            (state, diagnostics, row), step_seconds = work.timed(step)
            spent_K = accountant.after(spent_before_training_K, len(self.truth_K), orders, sent, noise)
            after = run_state.after_round(state, work.memories(), spent_K)
            tested = after.memories, self._testing(round_index, orders), self.evaluation
            tests, evaluate_seconds = work.timed(
                lambda: run_tests(work, self.algorithm, state, *tested) if evaluate else ModelTests()
            )
            if cache is not None and work.trained:
                cache_means_of_old_partition(orders, before, state, self._updates(reports, work, round_index))
        rows = self._client_rows(
            round_index, reports, state, diagnostics, tests, orders_before_budget, orders
        )
        return after, RoundRecord(
            round=accountant.of_round(row, spent_K),
            clients=accountant.of_clients(rows, spent_K),
            timing={
                "round": round_index + 1,
                "cluster_seconds": step_seconds,
                "evaluate_seconds": evaluate_seconds,
                **work.account(self.run_id, time.perf_counter() - start),
                **meeting.seconds(work.trained),
            },
            warnings=warnings_of(round_index + 1, excluded, diagnostics),
        )

    def _orders(self, state: State, round_index: int) -> Sequence[Order]:
        """Return the algorithm's orders, by client.

        Raises:
            RunError: several orders for a client, or one for a client that has not joined.
        """
        presence = self.participation.presence(round_index)
        rng = generator(self.seed, "orders", round_index=round_index)
        orders = self.algorithm.orders(state, round_index, presence, rng)
        counts = Counter(order.client for order in orders)
        wrong = [client for client, count in counts.items() if count > 1 or client not in presence.joined]
        if wrong:
            raise RunError(
                f"client {wrong[0]}, round {round_index + 1}: {type(self.algorithm).__name__} gave it "
                f"{counts[wrong[0]]} orders; expected at most one, and only for clients that have joined"
            )
        return sorted(orders, key=lambda order: order.client)

    def _work(
        self,
        orders: Sequence[Order],
        state: State,
        run_state: RunState,
        pool: Pool,
        cache: SessionCache | None,
    ) -> ClientRound:
        """Return the round's work at the clients that are reached."""
        round_index = run_state.rounds_done
        evaluate = self._evaluates(round_index)
        dropped = self.participation.dropped(round_index, [order.client for order in orders])
        on_server = evaluate and self.evaluation.local_server
        tasks = [
            TrainTask(order, round_index, evaluate, on_server, untrained=on_server and round_index == 0)
            for order in orders
            if order.client not in dropped
        ]
        inputs = tasks, state.models, run_state.memories, pool, round_index
        return ClientRound(*inputs) if cache is None else CachedRound(*inputs, cache)

    def _traffic(
        self, orders: Sequence[Order], reports: Sequence[TrainReport], meeting: Meeting
    ) -> tuple[int, int]:
        """Return the bytes of a round, down and up, with those of newcomers' messages."""
        by_client = {order.client: self.algorithm.traffic(order, self.layout) for order in orders}
        up = 0
        for report in reports:
            declared = by_client[report.client].up
            up += report.bytes_up if declared is None else declared
        down = sum(traffic.down for traffic in by_client.values())
        return down + meeting.encoder[0], up + meeting.encoder[1] + meeting.up

    def _evaluates(self, round_index: int) -> bool:
        return (round_index + 1) % self.evaluation.every == 0 or round_index + 1 == self.rounds

    def _testing(self, round_index: int, orders: Sequence[Order]) -> Collection[int]:
        """Return the clients that test the model they are served, in a round with tests."""
        if self.evaluation.clients == "asked":
            return [order.client for order in orders]
        return self.participation.present(round_index)

    def _updates(
        self,
        reports: Sequence[TrainReport],
        work: ClientRound,
        round_index: int,
        noise: CentralNoise | None = None,
    ) -> Updates:
        usable = [report for report in reports if report.usable]
        if reports and not usable:
            clients = ", ".join(str(report.client) for report in reports)
            raise RunError(
                f"clients {clients}, round {round_index + 1}: every update is NaN or infinite, so there is "
                f"nothing to aggregate; the state of round {round_index} is kept. "
                "Lower training.learning_rate (or algorithm.server_learning_rate)"
            )
        images = {report.client: report.images for report in usable}
        steps = {report.client: report.steps for report in usable}
        return Updates(
            work,
            self.layout,
            similarity_over=self.algorithm.settings.similarity_over,
            threads=self.threads,
            chosen={report.client: report.chosen for report in usable},
            absent=set(range(len(self.truth_K))) - {report.client for report in reports},
            clients=[report.client for report in usable],
            images=images,
            steps=steps,
            weights={"none": None, "images": images, "batches": steps}[self.weights],
            sampled=self.participation.sampled(round_index),
            noise=noise,
        )

    def _step(self, state: State, round_index: int, updates: Updates) -> tuple[State, Diagnostics]:
        """Run the algorithm's step; without any update nothing changes."""
        if not updates.clients:
            return state, Diagnostics(
                warnings=("every client that was asked dropped out: nothing has changed",)
            )
        rng = generator(self.seed, "algorithm", round_index=round_index)
        state, diagnostics = self.algorithm.step(state, round_index, updates, rng)
        if diagnostics.silhouette is None:
            labels = state.labels_K[list(updates.clients)]
            groups = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
            if is_defined(groups):  # Else a metric that is not cached would have clients train for nothing.
                distances_KK = self.algorithm.distances(updates)
                diagnostics = replace(diagnostics, silhouette=silhouette(distances_KK, groups))
        return state, diagnostics

    def _client_rows(
        self,
        round_index: int,
        reports: Sequence[TrainReport],
        state: State,
        diagnostics: Diagnostics,
        tests: ModelTests,
        orders_before_budget: Sequence[Order],
        orders: Sequence[Order],
    ) -> list[dict[str, object]]:
        sent = {report.client: report for report in reports}
        parts = dict.fromkeys(self.participation.present(round_index), "not asked")
        parts |= {order.client: "spent" for order in orders_before_budget} | {
            order.client: "dropped" for order in orders
        }
        parts |= {client: "trained" if sent[client].usable else "excluded" for client in sent}
        rows = [
            client_row(
                number=round_index + 1,
                client=client,
                part=parts.get(client, "not joined"),
                placed=diagnostics.placed.get(client),
                members=diagnostics.members.get(client),
                report=sent.get(client),
                labels_K=state.labels_K,
                truth_K=self.truth_K,
                train_images=self.train_images_K[client],
                test_images=self.test_images_K[client],
                tests={
                    "local_own": sent[client].local if client in sent else None,
                    "local_server": sent[client].local_server if client in sent else None,
                    **tests.of(client, self.evaluation),
                },
            )
            for client in range(len(state.labels_K))
        ]
        self.changes.note(rows, round_index)
        return rows
