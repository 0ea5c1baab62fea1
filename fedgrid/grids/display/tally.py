"""The progress of a grid: runs done, running and waiting, rounds per second, time left."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.grids.results.times import computed_share


class Tally:
    """Counts runs and rounds. Its memory does not grow with the number of finished runs."""

    def __init__(
        self,
        runs: Sequence[RunConfig],
        rounds_done: Mapping[str, int],
        finished_before: int = 0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Count `runs`, which have `rounds_done` (run id -> rounds) already, and those finished before."""
        self.total = self.done = self.finished_before = 0
        self.failed = 0
        self.rounds = 0
        """Rounds of this launch."""
        self.rounds_computed = 0.0
        """Of these, the rounds that were not cache hits; a partial hit counts by the share of its clients."""
        self.rounds_taken = 0
        """Rounds with which runs have started, of finished runs with fewer rounds."""
        self._client_seconds = 0.0
        self._at_once = 0
        self.running: dict[str, tuple[RunConfig, int]] = {}
        self._now = now
        self._start: float | None = None
        self._rounds_left = Counter[str]()
        self._stored: dict[str, int] = {}
        """Run id -> rounds that it has already, of those that have not started in this launch."""
        self._seconds = Counter[str]()
        self._rounds = Counter[str]()
        self.add(runs, rounds_done, finished_before)

    def add(
        self, runs: Sequence[RunConfig], rounds_done: Mapping[str, int], finished_before: int = 0
    ) -> None:
        """Count more runs; arguments as in the constructor."""
        self.total += finished_before + len(runs)
        self.done += finished_before
        self.finished_before += finished_before
        for run in runs:
            stored = rounds_done.get(run.run_id, 0)
            self._rounds_left[run.dataset] += run.training.rounds - stored
            self._stored[run.run_id] = stored

    @property
    def waiting(self) -> int:
        """Runs that have not started in this launch."""
        return self.total - self.done - self.failed - len(self.running)

    @property
    def seconds(self) -> float:
        """Seconds since the first run of this launch started."""
        return 0.0 if self._start is None else self._now() - self._start

    @property
    def rounds_per_second(self) -> float:
        """Rounds per second of this launch."""
        return self.rounds / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all runs are finished at the present pace; None before the first round.

        A round's time is estimated by the mean over its data set's rounds so far, or over all rounds if it
        has none yet. The estimate is too high while most rounds are cache misses that become hits for other
        runs, and too low after many hits. Time that runs wait for one another counts as part of the pace.
        """
        if not self._seconds.total():
            return None
        overall = self._seconds.total() / self.rounds
        work = sum(
            left * (self._seconds[name] / self._rounds[name] if self._rounds[name] else overall)
            for name, left in self._rounds_left.items()
        )
        return work * self.seconds / self._seconds.total()

    @property
    def share_outside_clients(self) -> float | None:
        """Share of the launch's time, over concurrent runs, that is not spent on training and testing models.

        It includes waiting for a round that another run computes, and reading the round cache.
        """
        if not self.rounds:
            return None
        return 1 - self._client_seconds / (self.seconds * self._at_once)

    def start(self, config: RunConfig, rounds_done: int) -> int:
        """Count a run that starts, or resumes; return how many of the rounds that it had are done again."""
        again = self._stored.pop(config.run_id, rounds_done) - rounds_done
        self._rounds_left[config.dataset] += again
        self.rounds_taken += max(0, -again)
        if self._start is None:
            self._start = self._now()
        self.running[config.run_id] = (config, rounds_done)
        self._at_once = max(self._at_once, len(self.running))
        return max(0, again)

    def round(self, config: RunConfig, number: int, timing: Mapping[str, Any]) -> None:
        """Count a round."""
        self.running[config.run_id] = (config, number)
        self.rounds += 1
        self.rounds_computed += computed_share(timing)
        self._client_seconds += timing["train_seconds"] + timing["evaluate_seconds"]
        self._rounds[config.dataset] += 1
        self._seconds[config.dataset] += timing["seconds"]
        self._rounds_left[config.dataset] -= 1

    def finish(self, config: RunConfig) -> None:
        """Count a run that is finished."""
        _, rounds_done = self.running.pop(config.run_id, (config, config.training.rounds))
        self._rounds_left[config.dataset] -= config.training.rounds - rounds_done
        self.done += 1

    def leave(self, config: RunConfig) -> None:
        """Count a run that has stopped before its end: it waits again."""
        self.running.pop(config.run_id, None)

    def fail(self, config: RunConfig) -> None:
        """Count a run that failed after all retries."""
        _, rounds_done = self.running.pop(config.run_id, (config, 0))
        self._rounds_left[config.dataset] -= config.training.rounds - rounds_done
        self.failed += 1

    def as_dict(self) -> dict[str, Any]:
        """Return the progress that `fedgrid status` shows of a running grid."""
        left = self.seconds_left
        return {
            "total": self.total,
            "done": self.done,
            "failed": self.failed,
            "waiting": self.waiting,
            "running": [
                {"run": run.name, "run_id": run.run_id, "round": number, "rounds": run.training.rounds}
                for run, number in self.running.values()
            ],
            "rounds": self.rounds,
            "rounds_computed": round(self.rounds_computed, 2),
            "rounds_per_second": round(self.rounds_per_second, 3),
            "seconds": round(self.seconds, 1),
            "seconds_left": None if left is None else round(left, 1),
        }
