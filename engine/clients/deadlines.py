"""How long a client actor may take for an answer before it counts as hung: many times the slowest so far."""

from collections.abc import Callable

FIRST = 6 * 3600.0
"""Seconds for the first answer of a kind, of which nothing is known yet."""
LEAST = 1800.0
"""Seconds that every later answer may take at least."""
TIMES_SLOWEST = 20.0


class Deadlines:
    """The deadlines of one run, by the kind of the task: `train`, `evaluate` ..."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Measure with `now`, in seconds."""
        self.now = now
        self._slowest: dict[str, float] = {}

    def of(self, kind: str) -> float:
        """Return the seconds that tasks of a kind may take."""
        slowest = self._slowest.get(kind)
        return FIRST if slowest is None else max(LEAST, TIMES_SLOWEST * slowest)

    def note(self, kind: str, seconds: float) -> None:
        """Note how long one has taken."""
        self._slowest[kind] = max(seconds, self._slowest.get(kind, 0.0))
