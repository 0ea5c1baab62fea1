"""How long an actor may take for an answer before it counts as hung: many times the slowest so far."""

from collections.abc import Callable

FIRST = 6 * 3600.0
"""Seconds for a client's first answer of a kind, of which nothing is known yet."""
LEAST = 1800.0
"""Seconds that every later answer may take at least."""
TIMES_SLOWEST = 20.0


class Deadlines:
    """The deadlines of answers by their kind, for a pool of clients `train`, `evaluate` ..."""

    def __init__(
        self,
        now: Callable[[], float],
        first: float = FIRST,
        least: float = LEAST,
        times_slowest: float = TIMES_SLOWEST,
    ) -> None:
        """Measure with `now`, in seconds; `first` and `least` are seconds, too."""
        self.now = now
        self._first, self._least, self._times_slowest = first, least, times_slowest
        self._slowest: dict[str, float] = {}

    def of(self, kind: str) -> float:
        """Return the seconds that answers of a kind may take."""
        slowest = self._slowest.get(kind)
        return self._first if slowest is None else max(self._least, self._times_slowest * slowest)

    def note(self, kind: str, seconds: float) -> None:
        """Note how long one has taken."""
        self._slowest[kind] = max(seconds, self._slowest.get(kind, 0.0))
