"""Deadlines after which the silent server of a run counts as hung."""

from dataclasses import dataclass
from time import monotonic

from fedgrid.engine.runtime.storage.clock import FIRST, LEAST, MAX_DEATHS, TIMES_SLOWEST, Deadlines

TIMES_CLIENTS = MAX_DEATHS + 1
"""A server's deadline is this many times a client's: it waits once for each death of a client actor that
always hangs, and once for the answers, before it gives up by itself."""
LISTENS_EVERY = 60.0
"""Most seconds between two checks that count as a server's silence; beyond that the driver itself was held
up."""
OPENING, TRAINING = "first round", "round"


def of_servers() -> Deadlines:
    """Create the deadlines of servers, four times a client's.

    They are a day for the first round, later 80 times the slowest round, at least two hours.
    """
    first, least, times = (TIMES_CLIENTS * seconds for seconds in (FIRST, LEAST, TIMES_SLOWEST))
    return Deadlines(monotonic, first, least, times)


@dataclass
class _Wait:
    """When a server became silent, in seconds of listening, and what it is doing."""

    since: float
    kind: str = OPENING


class ServerDeadlines:
    """The servers of a launch, by the id of their trial, and how long each may still be silent.

    Until its first round a run has the first deadline; later that of the slowest round of any run.
    """

    def __init__(self, deadlines: Deadlines | None = None) -> None:
        """Start without servers; `deadlines` are those of `of_servers` unless others are given."""
        self._deadlines = deadlines or of_servers()
        self._last = self._deadlines.now()
        self._listened = 0.0
        self._waits: dict[str, _Wait] = {}

    def start(self, trial: str) -> None:
        """Start to wait for a server that starts a run."""
        self._listen()
        self._waits[trial] = _Wait(self._listened)

    def hear(self, trial: str, *, had_round: bool) -> None:
        """Record that a server has responded, and whether it has finished a round."""
        self._listen()
        wait = self._waits[trial]
        if had_round:
            self._deadlines.note(TRAINING, self._listened - wait.since)
            wait.kind = TRAINING
        wait.since = self._listened

    def end(self, trial: str) -> None:
        """Stop waiting for a server, which has ended its run or died."""
        self._waits.pop(trial, None)

    def overdue(self) -> list[tuple[str, float]]:
        """Find servers that were silent for too long, with the seconds they had; stop waiting for them."""
        self._listen()
        limits = {trial: self._deadlines.of(wait.kind) for trial, wait in self._waits.items()}
        late = [
            (trial, limit)
            for trial, limit in limits.items()
            if self._listened - self._waits[trial].since > limit
        ]
        for trial, _ in late:
            self.end(trial)
        return late

    def _listen(self) -> None:
        """Advance the clock of listening."""
        now = self._deadlines.now()
        # A laptop that slept, or a driver that was stopped, has not listened: its servers must not be killed
        # for that.
        self._listened += min(LISTENS_EVERY, now - self._last)
        self._last = now
