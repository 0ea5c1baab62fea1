"""One round of a federation as a function: progress in, progress and a record out.

The order within a round is the published one: train every client, test the local models, measure the
temperature and cluster, aggregate inside the clusters, test the new cluster models.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TypeVar

from algorithms.base import Algorithm, Labels, State
from algorithms.layout import Layout
from algorithms.similarity import temperature
from algorithms.updates import Updates, Vector
from engine import memory
from engine.errors import RunError
from engine.messages import Counts, EvaluateReport, EvaluateTask, TrainTask
from engine.pool import Pool, Trained
from engine.progress import Progress
from engine.records import RoundRecord, client_row, round_row
from engine.seeds import generator

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
    train_images_K: Sequence[int]
    test_images_K: Sequence[int]
    threads: int = 1

    def begin(self, model: Vector) -> Progress:
        """Return the progress before the first round, from the initial model."""
        return Progress(0, self.algorithm.init(model, len(self.truth_K)), {})

    def next_round(self, progress: Progress, pool: Pool) -> tuple[Progress, RoundRecord]:
        """Run one round.

        Raises:
            RunError: if no client has a usable update; `progress` is still good.
        """
        start = time.perf_counter()
        evaluate = self._evaluates(progress.rounds_done)
        tasks = self._train_tasks(progress, evaluate)
        trained, train_seconds = _timed(lambda: pool.train(tasks, progress.state.models, progress.memories))
        updates = self._updates(trained, progress.rounds_done)
        (state, row, notes), cluster_seconds = _timed(lambda: self._step(progress, tasks, trained, updates))
        reports, evaluate_seconds = _timed(lambda: _evaluate(state, pool) if evaluate else None)
        memories = {
            result.report.client: result.memory
            for result in trained
            if result.memory is not None and result.report.usable
        }
        slowest = max(trained, key=lambda result: result.report.seconds).report
        record = RoundRecord(
            round=row,
            clients=self._client_rows(progress.rounds_done + 1, trained, state, reports),
            timing={
                "round": progress.rounds_done + 1,
                "seconds": time.perf_counter() - start,
                "train_seconds": train_seconds,
                "cluster_seconds": cluster_seconds,
                "evaluate_seconds": evaluate_seconds,
                "slowest_client": slowest.client,
                "slowest_client_seconds": slowest.seconds,
                "peak_memory_mb": memory.total(
                    [memory.own_peak(), *(each.report.memory for each in trained)]
                ),
            },
            warnings=notes,
        )
        return Progress(progress.rounds_done + 1, state, {**progress.memories, **memories}), record

    def _evaluates(self, round_index: int) -> bool:
        return (round_index + 1) % self.evaluate_every == 0 or round_index + 1 == self.rounds

    def _train_tasks(self, progress: Progress, evaluate: bool) -> list[TrainTask]:
        return [
            TrainTask(client, progress.rounds_done, candidates, evaluate)
            for client, candidates in enumerate(self.algorithm.candidates(progress.state))
        ]

    def _updates(self, trained: Sequence[Trained], round_index: int) -> Updates:
        usable = [result for result in trained if result.report.usable]
        if not usable:
            clients = ", ".join(str(result.report.client) for result in trained)
            raise RunError(
                f"clients {clients}, round {round_index + 1}: every update is NaN or infinite, so there is "
                f"nothing to aggregate; the state of round {round_index} is kept. "
                "Lower training.learning_rate (or algorithm.server_learning_rate)"
            )
        return Updates(
            {result.report.client: result.update for result in usable},
            self.layout,
            similarity_over=self.algorithm.settings.similarity_over,
            threads=self.threads,
            chosen={result.report.client: result.report.chosen for result in usable},
        )

    def _step(
        self, progress: Progress, tasks: Sequence[TrainTask], trained: Sequence[Trained], updates: Updates
    ) -> tuple[State, dict[str, object], tuple[str, ...]]:
        number = progress.rounds_done + 1
        rng = generator(self.seed, "algorithm", round_index=progress.rounds_done)
        state, diagnostics = self.algorithm.step(progress.state, progress.rounds_done, updates, rng)
        excluded = [result.report.client for result in trained if not result.report.usable]
        model_bytes = BYTES_PER_ENTRY * self.layout.size
        row = round_row(
            number=number,
            temperature=temperature(updates.cosine_distances_KK),
            clusters=len(set(state.labels_K.tolist())),
            diagnostics=diagnostics,
            bytes_down=model_bytes * sum(len(task.candidates) for task in tasks),
            bytes_up=model_bytes * len(trained),
            excluded=len(excluded),
        )
        left_out = tuple(
            f"round {number}: client {client} left out, its update is NaN or infinite" for client in excluded
        )
        return state, row, left_out + tuple(f"round {number}: {note}" for note in diagnostics.warnings)

    def _client_rows(
        self,
        number: int,
        trained: Sequence[Trained],
        state: State,
        reports: Sequence[EvaluateReport] | None,
    ) -> list[dict[str, object]]:
        own = {report.client: report.own for report in reports or ()}
        server = _sum_parts(reports, len(state.models)) if reports else None
        return [
            client_row(
                number=number,
                report=result.report,
                labels_K=state.labels_K,
                truth_K=self.truth_K,
                train_images=self.train_images_K[result.report.client],
                test_images=self.test_images_K[result.report.client],
                tests={
                    "local_own": result.report.local,
                    "local_server": result.report.local_server,
                    "cluster_own": own.get(result.report.client),
                    "cluster_server": server[state.labels_K[result.report.client]] if server else None,
                },
            )
            for result in trained
        ]


def _evaluate(state: State, pool: Pool) -> list[EvaluateReport]:
    tasks = [EvaluateTask(client, int(label)) for client, label in enumerate(state.labels_K)]
    return pool.evaluate(tasks, state.models)


def _sum_parts(reports: Sequence[EvaluateReport], num_models: int) -> list[Counts]:
    """Add up every model's counts over the parts of the server's test set, in the order of the clients."""
    return [reduce(add, (report.server_parts[model] for report in reports)) for model in range(num_models)]


def _timed(function: Callable[[], R]) -> tuple[R, float]:
    start = time.perf_counter()
    return function(), time.perf_counter() - start
