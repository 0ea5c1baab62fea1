"""How long the server of a run may be silent before it counts as hung."""

from dataclasses import dataclass
from time import monotonic

from fedgrid.engine.runtime.storage.clock import FIRST, LEAST, MAX_DEATHS, TIMES_SLOWEST, Deadlines

TIMES_CLIENTS = MAX_DEATHS + 1
"""A server waits this often for a client actor that always hangs, and for the answers, before it gives up."""
LISTENS_EVERY = 60.0
"""Seconds between two looks at the servers; what is beyond does not count: the driver itself was held up."""
OPENING, TRAINING = "first round", "round"


def of_servers() -> Deadlines:
    """Return four times a client's: a day, later 80 times the slowest round, at least two hours."""
    first, least, times = (TIMES_CLIENTS * seconds for seconds in (FIRST, LEAST, TIMES_SLOWEST))
    return Deadlines(monotonic, first, least, times)


@dataclass
class _Wait:
    """Since when a server is silent, in seconds of listening, and what it is doing."""

    since: float
    kind: str = OPENING


class ServerDeadlines:
    """The servers of a launch, by the id of their trial, and how long each may still be silent.

    Up to its first round, a run has the first deadline; later that of the slowest round of any run.
    """

    def __init__(self, deadlines: Deadlines | None = None) -> None:
        """`deadlines` are those `of_servers`, unless others are given."""
        self._deadlines = deadlines or of_servers()
        self._last = self._deadlines.now()
        self._listened = 0.0
        self._waits: dict[str, _Wait] = {}

    def start(self, trial: str) -> None:
        """Wait for a server that starts a run."""
        self._listen()
        self._waits[trial] = _Wait(self._listened)

    def hear(self, trial: str, *, had_round: bool) -> None:
        """Note that a server has given a sign, and whether it has done a round."""
        self._listen()
        wait = self._waits[trial]
        if had_round:
            self._deadlines.note(TRAINING, self._listened - wait.since)
            wait.kind = TRAINING
        wait.since = self._listened

    def end(self, trial: str) -> None:
        """Wait no longer for a server, which has ended its run or died."""
        self._waits.pop(trial, None)

    def overdue(self) -> list[tuple[str, float]]:
        """Return each server that has been silent for too long, once, and the seconds that it had."""
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
        now = self._deadlines.now()
        self._listened += min(LISTENS_EVERY, now - self._last)
        self._last = now
