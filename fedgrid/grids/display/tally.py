"""Count the progress of a grid: runs done, running and waiting, rounds per second, time left."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.grids.results.times import computed_share


class Tally:
    """Counts of runs and rounds of a launch. Its memory does not grow with the number of finished runs."""

    def __init__(
        self,
        runs: Sequence[RunConfig],
        rounds_done: Mapping[str, int],
        finished_before: int = 0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Count the runs of a launch.

        Args:
            runs: runs that are not finished.
            rounds_done: run id -> rounds that are stored already; runs without a round may be left out.
            finished_before: number of runs of the grid that were finished before; default 0.
            now: clock in seconds.
        """
        self.total = self.done = self.finished_before = 0
        self.failed = 0
        self.rounds = 0
        """Rounds done in this launch, computed or from the cache."""
        self.rounds_computed = 0.0
        """Rounds of this launch that were not cache hits; a partial hit counts by the share of clients it
        lacked."""
        self.rounds_reused = 0
        """Rounds that runs reused from finished runs that differ only in having fewer rounds."""
        self._client_seconds = 0.0
        self._most_at_once = 0
        self.running: dict[str, tuple[RunConfig, int]] = {}
        self._now = now
        self._started_at: float | None = None
        self._rounds_left = Counter[str]()
        self._stored: dict[str, int] = {}
        """Run id -> rounds stored, for runs that have not started in this launch."""
        self._seconds = Counter[str]()
        self._rounds = Counter[str]()
        self.add_runs(runs, rounds_done, finished_before)

    def add_runs(
        self, runs: Sequence[RunConfig], rounds_done: Mapping[str, int], finished_before: int = 0
    ) -> None:
        """Count more runs; arguments as for the constructor."""
        self.total += finished_before + len(runs)
        self.done += finished_before
        self.finished_before += finished_before
        for run in runs:
            stored = rounds_done.get(run.run_id, 0)
            self._rounds_left[run.dataset] += run.training.rounds - stored
            self._stored[run.run_id] = stored

    @property
    def num_waiting(self) -> int:
        """Number of runs that have not started in this launch, or have stopped."""
        return self.total - self.done - self.failed - len(self.running)

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since the first run of this launch started; 0 before."""
        return 0.0 if self._started_at is None else self._now() - self._started_at

    @property
    def rounds_per_second(self) -> float:
        """Rounds per second of this launch."""
        return self.rounds / self.elapsed_seconds if self.elapsed_seconds > 0 else 0.0

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
        # Data sets differ in the time of a round by orders of magnitude, so each is extrapolated by its own
        # mean.
        work = sum(
            left * (self._seconds[name] / self._rounds[name] if self._rounds[name] else overall)
            for name, left in self._rounds_left.items()
        )
        # `work` adds up the rounds' own times. Runs side by side need less of the clock: it is scaled by the
        # launch so far.
        return work * self.elapsed_seconds / self._seconds.total()

    @property
    def share_outside_clients(self) -> float | None:
        """Share of the launch's time, over concurrent runs, that is not spent on training or testing models.

        It includes waiting for a round that another run computes, and reading the round cache. None before
        the first round.
        """
        if not self.rounds:
            return None
        return 1 - self._client_seconds / (self.elapsed_seconds * self._most_at_once)

    def count_start(self, config: RunConfig, rounds_done: int) -> int:
        """Count a run that starts or resumes.

        Returns:
            Number of stored rounds that are done again, because a file of theirs was damaged.
        """
        # Negative if the run starts further than what it had stored, with rounds of a finished, shorter run.
        again = self._stored.pop(config.run_id, rounds_done) - rounds_done
        # Positive if rounds are done again, negative if the run starts further than what it had stored.
        self._rounds_left[config.dataset] += again
        self.rounds_reused += max(0, -again)
        if self._started_at is None:
            self._started_at = self._now()
        self.running[config.run_id] = (config, rounds_done)
        self._most_at_once = max(self._most_at_once, len(self.running))
        return max(0, again)

    def count_round(self, config: RunConfig, number: int, timing: Mapping[str, Any]) -> None:
        """Count a round."""
        self.running[config.run_id] = (config, number)
        self.rounds += 1
        self.rounds_computed += computed_share(timing)
        self._client_seconds += timing["train_seconds"] + timing["evaluate_seconds"]
        self._rounds[config.dataset] += 1
        self._seconds[config.dataset] += timing["seconds"]
        self._rounds_left[config.dataset] -= 1

    def count_finish(self, config: RunConfig) -> None:
        """Count a run that has finished."""
        _, rounds_done = self.running.pop(config.run_id, (config, config.training.rounds))
        # A run that stops early by its own rule leaves rounds that nobody will do.
        self._rounds_left[config.dataset] -= config.training.rounds - rounds_done
        self.done += 1

    def count_stop(self, config: RunConfig) -> None:
        """Count a run that has stopped before its end: it is waiting again."""
        self.running.pop(config.run_id, None)

    def count_failure(self, config: RunConfig) -> None:
        """Count a run that failed after all retries."""
        _, rounds_done = self.running.pop(config.run_id, (config, 0))
        self._rounds_left[config.dataset] -= config.training.rounds - rounds_done
        self.failed += 1

    def as_dict(self) -> dict[str, Any]:
        """Convert the counts to the progress that `fedgrid status` shows of a running grid."""
        left = self.seconds_left
        return {
            "total": self.total,
            "done": self.done,
            "failed": self.failed,
            "waiting": self.num_waiting,
            "running": [
                {"run": run.name, "run_id": run.run_id, "round": number, "rounds": run.training.rounds}
                for run, number in self.running.values()
            ],
            "rounds": self.rounds,
            "rounds_computed": round(self.rounds_computed, 2),
            "rounds_per_second": round(self.rounds_per_second, 3),
            "seconds": round(self.elapsed_seconds, 1),
            "seconds_left": None if left is None else round(left, 1),
        }
