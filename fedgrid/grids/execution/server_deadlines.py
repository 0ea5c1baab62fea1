"""Deadlines after which the silent server of a run counts as hung."""

from dataclasses import dataclass
from time import monotonic

from fedgrid.engine.runtime.storage.clock import (
    FIRST_ANSWER_SECONDS,
    LEAST_ANSWER_SECONDS,
    MAX_DEATHS,
    TIMES_SLOWEST,
    Deadlines,
)

TIMES_CLIENTS = MAX_DEATHS + 1
"""A server's deadline is this many times a client's: it waits once for each death of a client actor that
always hangs, and once for the answers, before it gives up by itself."""
MOST_SECONDS_BETWEEN_CHECKS = 60.0
"""Most seconds between two checks that count as a server's silence; beyond that the driver itself was held
up."""
OPENING, TRAINING = "first round", "round"


def create_server_deadlines() -> Deadlines:
    """Create the deadlines of servers, four times a client's.

    They are a day for the first round, later 80 times the slowest round, at least two hours.
    """
    first, least, times = (
        TIMES_CLIENTS * seconds for seconds in (FIRST_ANSWER_SECONDS, LEAST_ANSWER_SECONDS, TIMES_SLOWEST)
    )
    return Deadlines(monotonic, first, least, times)


@dataclass
class _ServerWait:
    """When a server became silent, in seconds of listening, and what it is doing."""

    since: float
    kind: str = OPENING


class ServerDeadlines:
    """The servers of a launch, by the id of their trial, and how long each may still be silent.

    Until its first round a run has the first deadline; later that of the slowest round of any run.
    """

    def __init__(self, deadlines: Deadlines | None = None) -> None:
        """Start without servers; `deadlines` are those of `create_server_deadlines` unless others are
        given.
        """
        self._deadlines = deadlines or create_server_deadlines()
        self._last_check = self._deadlines.now()
        self._listening_seconds = 0.0
        self._waits: dict[str, _ServerWait] = {}

    def start_wait(self, trial: str) -> None:
        """Start to wait for a server that starts a run."""
        self._advance_clock()
        self._waits[trial] = _ServerWait(self._listening_seconds)

    def record_sign(self, trial: str, *, finished_round: bool) -> None:
        """Record that a server has responded, and whether it has finished a round."""
        self._advance_clock()
        wait = self._waits[trial]
        if finished_round:
            self._deadlines.record_duration(TRAINING, self._listening_seconds - wait.since)
            wait.kind = TRAINING
        wait.since = self._listening_seconds

    def end_wait(self, trial: str) -> None:
        """Stop waiting for a server, which has ended its run or died."""
        self._waits.pop(trial, None)

    def pop_overdue(self) -> list[tuple[str, float]]:
        """Find servers that were silent for too long, with the seconds they had; stop waiting for them."""
        self._advance_clock()
        limits = {trial: self._deadlines.find_deadline(wait.kind) for trial, wait in self._waits.items()}
        late = [
            (trial, limit)
            for trial, limit in limits.items()
            if self._listening_seconds - self._waits[trial].since > limit
        ]
        for trial, _ in late:
            self.end_wait(trial)
        return late

    def _advance_clock(self) -> None:
        """Advance the clock of listening."""
        now = self._deadlines.now()
        # A laptop that slept, or a driver that was stopped, has not listened: its servers must not be killed
        # for that.
        self._listening_seconds += min(MOST_SECONDS_BETWEEN_CHECKS, now - self._last_check)
        self._last_check = now
