"""One round of a federation as a function: progress in, progress and a record out.

The order within a round is the published one: train every client, test the local models, measure the
temperature and cluster, aggregate inside the clusters, test the new cluster models.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from fedgrid.algorithms.clustering.graph import silhouette
from fedgrid.algorithms.contract.base import Algorithm, Diagnostics, Labels, State
from fedgrid.algorithms.contract.layout import Layout
from fedgrid.algorithms.contract.updates import Updates, Vector
from fedgrid.engine.checkpoint import Progress
from fedgrid.engine.clients import peak_memory
from fedgrid.engine.clients.messages import TrainReport, TrainTask
from fedgrid.engine.clients.participation import Participation
from fedgrid.engine.clients.pool import Pool
from fedgrid.engine.errors import RunError
from fedgrid.engine.records import RoundRecord, client_row, round_row
from fedgrid.engine.round_cache.cached_round import RoundWork
from fedgrid.engine.round_cache.packing import Tests
from fedgrid.engine.round_cache.shared import Shared
from fedgrid.engine.round_metrics import RoundOutcome
from fedgrid.engine.seeds import generator

BYTES_PER_ENTRY = 4
R = TypeVar("R")


@dataclass(frozen=True)
class Federation:
    """What stays the same in every round of a run."""

    algorithm: Algorithm
    layout: Layout
    seed: int
    rounds: int
    evaluate_every: int
    truth_K: Labels
    attendance: Participation
    train_images_K: Sequence[int]
    test_images_K: Sequence[int]
    run_id: str = ""
    threads: int = 1

    def begin(self, model: Vector) -> Progress:
        """Return the progress before the first round, from the initial model."""
        return Progress(0, self.algorithm.init(model, len(self.truth_K)), {})

    def next_round(
        self, progress: Progress, pool: Pool, shared: Shared | None = None
    ) -> tuple[Progress, RoundRecord]:
        """Run one round, or take from other runs what they have done of it and share what is done here.

        Raises:
            RunError: if no client has a usable update; `progress` is still good.
        """
        start = time.perf_counter()
        round_index = progress.rounds_done
        evaluate = self._evaluates(round_index)
        tasks = self._train_tasks(progress, evaluate)
        dropped = self.attendance.dropped(round_index)
        reached = [task for task in tasks if task.client not in dropped]
        with RoundWork(reached, progress, pool, shared) as work:
            reports = work.reports()
            updates = self._updates(reports, work, round_index)
            (state, diagnostics), step_seconds = _timed(work, lambda: self._step(progress, updates))
            tests, evaluate_seconds = _timed(work, lambda: _test(state, work) if evaluate else None)
            memories = work.memories()
            excluded = [report.client for report in reports if not report.usable]
            row = self._round_row(round_index + 1, updates, state, diagnostics, tasks, excluded)
            if shared is not None and work.trained:
                self._leave_complete(progress, state, updates)
        record = RoundRecord(
            round=row,
            clients=self._client_rows(round_index, reports, state, diagnostics, tests),
            timing={
                "round": round_index + 1,
                "cluster_seconds": step_seconds,
                "evaluate_seconds": evaluate_seconds,
                **self._account(work, time.perf_counter() - start),
            },
            warnings=_notes(round_index + 1, excluded, diagnostics),
        )
        return Progress(round_index + 1, state, {**progress.memories, **memories}), record

    def _account(self, work: RoundWork, seconds: float) -> dict[str, object]:
        """Return what a round of so many `seconds` has cost, and whom."""
        slowest = max(work.trained, key=lambda report: report.seconds, default=None)
        peaks = [peak_memory.own_peak(), *(report.memory for report in work.trained)]
        return {
            "seconds": seconds - work.waited_seconds,
            "train_seconds": work.train_seconds,
            "slowest_client": slowest and slowest.client,
            "slowest_client_seconds": slowest and slowest.seconds,
            "peak_memory_mb": peak_memory.total(peaks),
            "computed_by": work.computed_by or self.run_id,
            "reached_clients": work.asked,
            "trained_clients": len(work.trained),
            "waited_seconds": work.waited_seconds,
            "alone_seconds": seconds - work.waited_seconds + work.saved_seconds,
        }

    def _evaluates(self, round_index: int) -> bool:
        return (round_index + 1) % self.evaluate_every == 0 or round_index + 1 == self.rounds

    def _train_tasks(self, progress: Progress, evaluate: bool) -> list[TrainTask]:
        candidates_K = self.algorithm.candidates(progress.state)
        return [
            TrainTask(client, progress.rounds_done, candidates_K[client], evaluate)
            for client in self.attendance.sampled(progress.rounds_done)
        ]

    def _updates(self, reports: Sequence[TrainReport], work: RoundWork, round_index: int) -> Updates:
        usable = [report for report in reports if report.usable]
        if reports and not usable:
            clients = ", ".join(str(report.client) for report in reports)
            raise RunError(
                f"clients {clients}, round {round_index + 1}: every update is NaN or infinite, so there is "
                f"nothing to aggregate; the state of round {round_index} is kept. "
                "Lower training.learning_rate (or algorithm.server_learning_rate)"
            )
        return Updates(
            work,
            self.layout,
            similarity_over=self.algorithm.settings.similarity_over,
            threads=self.threads,
            chosen={report.client: report.chosen for report in usable},
            absent=set(range(len(self.truth_K))) - {report.client for report in reports},
            clients=[report.client for report in usable],
        )

    def _step(self, progress: Progress, updates: Updates) -> tuple[State, Diagnostics]:
        """Let the algorithm act; without any update there is nothing to act on."""
        if not updates.clients:
            warning = "every client that was asked dropped out: nothing has changed"
            return progress.state, Diagnostics(warnings=(warning,))
        rng = generator(self.seed, "algorithm", round_index=progress.rounds_done)
        state, diagnostics = self.algorithm.step(progress.state, progress.rounds_done, updates, rng)
        if diagnostics.silhouette is None:
            labels = state.labels_K[list(updates.clients)]
            groups = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
            diagnostics = replace(diagnostics, silhouette=silhouette(updates.cosine_distances_KK, groups))
        return state, diagnostics

    def _leave_complete(self, before: Progress, after: State, updates: Updates) -> None:
        """Work out the means for those who keep the partition that changes: only here are the updates."""
        labels_K = before.state.labels_K
        trained_as_labelled = self.algorithm.candidates(before.state) == tuple(
            (int(label),) for label in labels_K
        )
        if updates.clients and trained_as_labelled and not np.array_equal(labels_K, after.labels_K):
            updates.means(list(updates.groups(labels_K).values()))

    def _round_row(
        self,
        number: int,
        updates: Updates,
        state: State,
        diagnostics: Diagnostics,
        tasks: Sequence[TrainTask],
        excluded: Sequence[int],
    ) -> dict[str, object]:
        model_bytes = BYTES_PER_ENTRY * self.layout.size
        outcome = RoundOutcome(
            updates,
            state,
            diagnostics,
            bytes_down=model_bytes * sum(len(task.candidates) for task in tasks),
            bytes_up=model_bytes * (len(updates.clients) + len(excluded)),
            excluded=len(excluded),
        )
        return round_row(number, outcome)

    def _client_rows(
        self,
        round_index: int,
        reports: Sequence[TrainReport],
        state: State,
        diagnostics: Diagnostics,
        tests: Tests | None,
    ) -> list[dict[str, object]]:
        own = tests.own if tests else {}
        server = dict(zip(np.unique(state.labels_K).tolist(), tests.server, strict=True)) if tests else {}
        sent = {report.client: report for report in reports}
        parts = dict.fromkeys(self.attendance.present(round_index), "not asked")
        parts |= {client: "dropped" for client in self.attendance.dropped(round_index)}
        parts |= {client: "trained" if sent[client].usable else "excluded" for client in sent}
        return [
            client_row(
                number=round_index + 1,
                client=client,
                part=parts.get(client, "not joined"),
                placed=diagnostics.placed.get(client),
                report=sent.get(client),
                labels_K=state.labels_K,
                truth_K=self.truth_K,
                train_images=self.train_images_K[client],
                test_images=self.test_images_K[client],
                tests={
                    "local_own": sent[client].local if client in sent else None,
                    "local_server": sent[client].local_server if client in sent else None,
                    "cluster_own": own.get(client) if client in parts else None,
                    "cluster_server": server.get(int(label)) if client in parts else None,
                },
            )
            for client, label in enumerate(state.labels_K)
        ]


def _test(state: State, work: RoundWork) -> Tests:
    """Test the models that are a client's."""
    used = np.unique(state.labels_K)
    return work.test([state.models[label] for label in used], np.searchsorted(used, state.labels_K).tolist())


def _notes(number: int, excluded: Sequence[int], diagnostics: Diagnostics) -> tuple[str, ...]:
    """Return the round's warnings in words."""
    notes = [f"client {client} left out, its update is NaN or infinite" for client in excluded]
    return tuple(f"round {number}: {note}" for note in (*notes, *diagnostics.warnings))


def _timed(work: RoundWork, function: Callable[[], R]) -> tuple[R, float]:
    """Return what a function returns, and the seconds that took but for training and waiting."""
    start, before = time.perf_counter(), work.train_seconds + work.waited_seconds
    result = function()
    return result, time.perf_counter() - start - (work.train_seconds + work.waited_seconds - before)
