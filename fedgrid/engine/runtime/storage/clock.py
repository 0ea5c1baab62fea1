"""Waiting: a monotonic clock, pauses that grow, calls that are tried again, and deadlines of answers."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import SystemRandom
from typing import TypeVar

from fedgrid.engine.federation.errors import is_denied

T = TypeVar("T")


@dataclass(frozen=True)
class Clock:
    """Seconds of this machine. No clock of another machine is ever compared with it."""

    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


CLOCK = Clock()


def backoff(attempt: int) -> float:
    """Return the seconds to wait after failed attempt 1, 2, 3 ...: at most 1, 2, 4 ... 60, and at least half.

    They are random so that many processes that failed together do not try again together.
    """
    return SystemRandom().uniform(0.5, 1.0) * min(60.0, 2.0 ** (attempt - 1))


HEED_SECONDS = 1.0
"""How often a pause looks whether it is to end."""


def pause_until(is_over: Callable[[], bool], seconds: float, clock: Clock = CLOCK) -> None:
    """Pause for so many seconds, or until `is_over`, which a handler of a signal may have changed."""
    while seconds > 0 and not is_over():
        clock.pause(min(seconds, HEED_SECONDS))
        seconds -= HEED_SECONDS


@dataclass(frozen=True)
class Patience:
    """How long a failed call is tried again: not at all by default."""

    give_up_after: float = 0.0
    """Seconds from the first attempt."""
    warn: Callable[[str], None] = lambda _: None
    """Gets a line for the first failed attempt."""
    clock: Clock = CLOCK
    is_stopped: Callable[[], bool] = lambda: False
    """Whether the user has interrupted the program: no failed call is tried again from then on."""

    def repeat(self, call: Callable[[], T], errors: tuple[type[Exception], ...]) -> T:
        """Return what `call` returns; if it raises one of `errors`, call it again after a pause that grows.

        The last pause is cut short: the last attempt comes after `give_up_after`, whatever pauses were drawn.

        Raises:
            Exception: the last error, after `give_up_after`, or that something may not be read or written.
            KeyboardInterrupt: the call fails, or has failed, and `is_stopped`.
        """
        deadline, attempt = self.clock.now() + self.give_up_after, 1
        while True:
            try:
                return call()
            except errors as error:
                left = deadline - self.clock.now()
                if self.is_stopped():
                    raise KeyboardInterrupt from error
                if left <= 0 or is_denied(error):
                    raise
                if attempt == 1:
                    reason = (str(error) or type(error).__name__).splitlines()[0]
                    self.warn(f"{reason}; trying again for {self.give_up_after:g} s")
            pause_until(self.is_stopped, min(backoff(attempt), left), self.clock)
            attempt += 1


FIRST = 6 * 3600.0
"""Seconds for a client's first answer of a kind, of which nothing is known yet."""
LEAST = 1800.0
"""Seconds that every later answer may take at least."""
TIMES_SLOWEST = 20.0
MAX_DEATHS = 3
"""Times that a client actor may die, or not answer in time, before its run stops."""


@dataclass
class Deadlines:
    """The deadlines of answers by their kind, for a pool of clients `train`, `evaluate` ..."""

    now: Callable[[], float]
    """In seconds."""
    first: float = FIRST
    least: float = LEAST
    times_slowest: float = TIMES_SLOWEST
    _slowest: dict[str, float] = field(default_factory=dict)

    def of(self, kind: str) -> float:
        """Return the seconds that answers of a kind may take."""
        slowest = self._slowest.get(kind)
        return self.first if slowest is None else max(self.least, self.times_slowest * slowest)

    def note(self, kind: str, seconds: float) -> None:
        """Note how long one has taken."""
        self._slowest[kind] = max(seconds, self._slowest.get(kind, 0.0))
