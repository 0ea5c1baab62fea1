"""One round's work at the clients, taken from the round store as far as another run has done it.

What a round is, is told by its content: what the federation's numbers come from (`engine.round_cache.key`),
who trains, and every bit of the models that they are sent. Two runs that come to the same models by whatever
history are the same run from there on. Kept of a round are, each for itself: the clients' reports, inner
products of their updates, the mean update of each group of clients that some run has aggregated, the tests of
the models that came of it. The updates themselves are not: a run that wants a mean that nobody has wanted
before trains those clients again.

Small updates are kept where the clients train from several models: there two runs may have some clusters in
common and others not, so that no round is the same although most of its clients do the same.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from types import TracebackType
from typing import Self

import numpy as np

from fedgrid.algorithms.contract.source import Arrays, WorkOut
from fedgrid.algorithms.contract.updates import Vector
from fedgrid.engine.checkpoint import Progress
from fedgrid.engine.clients.messages import EvaluateTask, TrainReport, TrainTask
from fedgrid.engine.clients.pool import Pool, Trained
from fedgrid.engine.round_cache.entry import CacheEntry
from fedgrid.engine.round_cache.key import of_array
from fedgrid.engine.round_cache.packing import Tests, pack_reports, pack_tests, unpack_reports, unpack_tests
from fedgrid.engine.round_cache.shared import Shared

FIRST_LOOK, LAST_LOOK = 0.01, 1.0
"""Seconds between two looks whether another run has done its round, at first and at last."""
REPORTS = "reports"
UPDATE = "update"
SMALL = 1 << 20
"""Bytes of an update that is kept beside the means, where that makes sense."""


class RoundWork:
    """The clients' part of one round: a source of its updates; a `with` block ends the claim on the round.

    Whoever misses something claims the round until its end and works it out. Others that miss something of
    the same round meanwhile wait, and look again.
    """

    def __init__(
        self, tasks: Sequence[TrainTask], progress: Progress, pool: Pool, shared: Shared | None
    ) -> None:
        """Prepare the work of those of `tasks` whose clients are reached."""
        self._tasks = {task.client: task for task in tasks}
        self._progress = progress
        self._pool = pool
        self._shared = shared
        self._known: dict[str, Arrays] = {}
        self._results: dict[int, Trained] = {}
        self._trained: list[TrainReport] = []
        self._taken: dict[str, CacheEntry] = {}
        self._made: dict[str, CacheEntry] = {}
        self._training_cost = 0.0
        self.train_seconds = 0.0
        """What training took this run."""
        self.waited_seconds = 0.0
        if shared is not None:
            self._clients = self._describe(shared)
            self._name = self._numbered(repr(list(self._clients.values())))
            self._claim = shared.store.claim(self._name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hand over what was worked out here to be kept, and end the claim after that."""
        if self._shared is not None:
            self._shared.later(self._keep)

    def _keep(self) -> None:
        assert self._shared is not None
        try:
            for name, entry in self._made.items():
                self._shared.store.write(name, entry)
        finally:
            self._claim.release()

    @property
    def asked(self) -> int:
        """How many clients train in this round, whoever has them do it."""
        return len(self._tasks)

    @property
    def trained(self) -> list[TrainReport]:
        """The reports of the clients that this run has trained itself."""
        return self._trained

    @property
    def computed_by(self) -> str | None:
        """The run that trained this round's clients, or the first of them; None if it is this one."""
        training = [entry for name, entry in self._taken.items() if name.startswith((REPORTS, UPDATE))]
        return training[0].computed_by if training and not self._trained else None

    @property
    def saved_seconds(self) -> float:
        """What the work that was taken from others would have cost this run."""
        worked_out = sum(entry.seconds for entry in self._taken.values())
        return worked_out + self._training_cost * (1 - len(self._trained) / max(1, self.asked))

    def reports(self) -> list[TrainReport]:
        """Return what the clients say of their training, in the order of the tasks."""
        tasks = list(self._tasks.values())
        if not tasks:
            return []

        def train(_: Sequence[str]) -> list[Arrays]:
            self.fetch(list(self._tasks))
            self._training_cost = self._cost_of_training()
            results = [self._results[client] for client in self._tasks]
            remembers = {result.report.client for result in results if result.memory is not None}
            return [pack_reports([result.report for result in results], tasks, remembers)]

        (known,) = self.recall({REPORTS: list(self._tasks)}, train)
        return unpack_reports(known, tasks)

    def memories(self) -> dict[int, Vector]:
        """Return what clients' optimizers remember, of those with a usable update; `reports` comes first."""
        reports = self._known.get(REPORTS)
        if reports is None:
            return {}
        remember = reports["client_N"][reports["usable_N"] & reports["remembers_N"]].tolist()
        names = {f"memory-{client:06d}": client for client in remember}

        def gather(missing: Sequence[str]) -> list[Arrays]:
            clients = [names[name] for name in missing]
            self.fetch(clients)
            return [{"memory": np.asarray(self._results[client].memory)} for client in clients]

        known = self.recall({name: [client] for name, client in names.items()}, gather)
        return {client: arrays["memory"] for client, arrays in zip(remember, known, strict=True)}

    def test(self, models: Sequence[Vector], own_K: Sequence[int]) -> Tests:
        """Test aggregated models, all clients of the federation lending a hand.

        `own_K` has the position in `models` of each client's own.
        """
        tasks = [EvaluateTask(client, place) for client, place in enumerate(own_K)]
        digests = self._shared.digests.of(models) if self._shared else []
        name = f"tests-{_digest(repr((digests, list(own_K))))}"
        (known,) = self.recall({name: ()}, lambda _: [pack_tests(self._pool.evaluate(tasks, models))])
        return unpack_tests(known)

    def fetch(self, clients: Sequence[int]) -> list[Vector]:
        """Return the updates of clients, trained now if nobody has kept them."""
        missing = [client for client in clients if client not in self._results]
        missing = [client for client in missing if not self._take(client)]
        if missing:
            start = time.perf_counter()
            tasks, progress = [self._tasks[client] for client in missing], self._progress
            for result in self._pool.train(tasks, progress.state.models, progress.memories):
                self._results[result.report.client] = result
                self._trained.append(result.report)
                self._make_known(result)
            self.train_seconds += time.perf_counter() - start
        return [self._results[client].update for client in clients]

    def _take(self, client: int) -> bool:
        """Return whether the store has what a client did."""
        if self._shared is None or not self._shares_updates(self._shared):
            return False
        entry = self._shared.store.read(self._update_name(client))
        if entry is not None:
            [report] = unpack_reports(entry.arrays, [self._tasks[client]])
            self._results[client] = Trained(report, entry.arrays["update_P"], entry.arrays.get("memory"))
            self._taken[f"{UPDATE}-{client}"] = entry
        return entry is not None

    def _make_known(self, result: Trained) -> None:
        """Have a client's update kept, if it is small and others may meet it in another round."""
        client = result.report.client
        if self._shared is None or not self._shares_updates(self._shared) or result.update.nbytes > SMALL:
            return
        remembers = {} if result.memory is None else {"memory": result.memory}
        report = pack_reports([result.report], [self._tasks[client]], {client} if remembers else set())
        arrays = {**report, "update_P": result.update, **remembers}
        run_id, cost = self._shared.store.run_id, result.report.seconds
        self._made[self._update_name(client)] = CacheEntry(arrays, run_id, 0.0, cost)

    def _shares_updates(self, shared: Shared) -> bool:
        """Whether it makes sense to look at a file for each client: it takes no time, and clients train from
        several models, some of which another run may share."""
        return not shared.store.is_far and len({task.candidates for task in self._tasks.values()}) > 1

    def _cost_of_training(self) -> float:
        """Return the seconds that training all clients takes, judged by those that were trained here."""
        if self._trained:
            return _busiest(self._trained) * self.asked / len(self._trained)
        return sum(entry.cost for entry in self._taken.values())

    def recall(self, wanted: Mapping[str, Sequence[int]], work_out: WorkOut) -> list[Arrays]:
        """Return what is known under each name; what is not is worked out, once nobody else is at it.

        `wanted` says whose updates each takes to be worked out.
        """
        missing = self._look_for(wanted)
        if missing and self._shared is not None and not self._claim.held:
            missing = self._claim_or_wait(missing)
        if missing:
            self._work_out({name: wanted[name] for name in missing}, work_out)
        return [self._known[name] for name in wanted]

    def _look_for(self, names: Iterable[str]) -> list[str]:
        """Take what the store has of `names`; return what it lacks."""
        if self._shared is not None:
            for name in (name for name in names if name not in self._known):
                entry = self._shared.store.read(f"{self._name}-{name}")
                if entry is not None:
                    self._known[name], self._taken[name] = entry.arrays, entry
                    if name == REPORTS:
                        self._training_cost = entry.cost - entry.seconds
        return [name for name in names if name not in self._known]

    def _claim_or_wait(self, missing: list[str]) -> list[str]:
        """Return what is still missing once the round is ours: nothing, if another run has done it."""
        if not self._claim.take():
            missing = self._wait_for(missing)
        return self._look_for(missing)

    def _wait_for(self, missing: list[str]) -> list[str]:
        """Return what is still missing once nobody else is at the round."""
        pause, start = FIRST_LOOK, time.perf_counter()
        while missing and not self._claim.take():
            time.sleep(pause)
            pause = min(2 * pause, LAST_LOOK)
            missing = self._look_for(missing)
        self.waited_seconds += time.perf_counter() - start
        return missing

    def _work_out(self, wanted: Mapping[str, Sequence[int]], work_out: WorkOut) -> None:
        start, trained_before = time.perf_counter(), self.train_seconds
        made = work_out(list(wanted))
        elapsed = time.perf_counter() - start - (self.train_seconds - trained_before)
        seconds = elapsed / len(wanted)
        for (name, clients), arrays in zip(wanted.items(), made, strict=True):
            self._known[name] = arrays
            if self._shared is not None:
                training = self._training_cost * len(clients) / max(1, self.asked)
                self._made[f"{self._name}-{name}"] = CacheEntry(
                    arrays, self._shared.store.run_id, seconds, seconds + training
                )

    def _describe(self, shared: Shared) -> dict[int, str]:
        """Return, by client, what its training in this round depends on."""
        progress = self._progress
        digests = shared.digests.of(progress.state.models)
        described = {}
        for client, task in self._tasks.items():
            candidates = [digests[candidate] for candidate in task.candidates]
            memory = of_array(progress.memories[client]) if client in progress.memories else None
            described[client] = repr((shared.setup, client, task.evaluate, candidates, memory))
        return described

    def _update_name(self, client: int) -> str:
        return f"{self._numbered(self._clients[client])}-{UPDATE}"

    def _numbered(self, described: str) -> str:
        """Return the name of something of this round."""
        return f"{self._progress.rounds_done + 1:06d}-{_digest(described)}"


def _busiest(reports: Sequence[TrainReport]) -> float:
    """Return the seconds of the process that trained longest: what starting it took is not the round's."""
    seconds: dict[str, float] = {}
    for report in reports:
        process = report.memory.process
        seconds[process] = seconds.get(process, 0.0) + report.seconds
    return max(seconds.values())


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:24]
