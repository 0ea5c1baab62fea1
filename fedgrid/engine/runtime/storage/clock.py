"""Waiting: a monotonic clock, pauses that grow, calls that are retried, and deadlines of answers."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import SystemRandom
from typing import TypeVar

from fedgrid.engine.federation.errors import is_denied

T = TypeVar("T")


@dataclass(frozen=True)
class Clock:
    """A source of time and pauses, in seconds of this machine.

    No other machine's clock is ever compared with it.
    """

    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


CLOCK = Clock()
"""The clock of this machine; tests pass others."""


def draw_backoff(attempt: int) -> float:
    """Draw the seconds to wait after failed attempt 1, 2, 3 ...: at most 1, 2, 4 ... 60, and at least half.

    They are random so that many processes that failed together do not retry together.
    """
    # Not the process's own generator, whose state is part of no run but which a plugin may have seeded.
    return SystemRandom().uniform(0.5, 1.0) * min(60.0, 2.0 ** (attempt - 1))


HEED_SECONDS = 1.0
"""Seconds between two checks of a pause whether it is to end."""


def pause_until(is_over: Callable[[], bool], seconds: float, clock: Clock = CLOCK) -> None:
    """Pause for so many seconds, or until `is_over`, which a handler of a signal may have changed."""
    while seconds > 0 and not is_over():
        clock.pause(min(seconds, HEED_SECONDS))
        seconds -= HEED_SECONDS


@dataclass(frozen=True)
class Patience:
    """How long a failed call is retried: by default not at all."""

    give_up_after: float = 0.0
    """Seconds from the first attempt after which no retry begins."""
    warn: Callable[[str], None] = lambda _: None
    """Receives one line for the first failed attempt."""
    clock: Clock = CLOCK
    is_stopped: Callable[[], bool] = lambda: False
    """Whether the user has interrupted the program: from then on no failed call is retried."""

    def retry_call(self, call: Callable[[], T], errors: tuple[type[Exception], ...]) -> T:
        """Call `call` until it succeeds, with pauses that grow, as long as it raises one of `errors`.

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
            pause_until(self.is_stopped, min(draw_backoff(attempt), left), self.clock)
            attempt += 1


FIRST_ANSWER_SECONDS = 6 * 3600.0
"""Seconds for a client's first answer of a kind, whose usual time is not yet measured."""
LEAST_ANSWER_SECONDS = 1800.0
"""Least seconds that every later answer may take."""
TIMES_SLOWEST = 20.0
"""Multiple of the slowest answer so far that a later one may take."""
MAX_DEATHS = 3
"""Times that a client actor may die, or not answer in time, before its run stops."""


@dataclass
class Deadlines:
    """The deadlines of answers by their kind, for a pool of clients `train`, `evaluate` and so on.

    A hanging actor is noticed by them. They are generous: a deadline that is too short would end a run that
    is only slow.
    """

    now: Callable[[], float]
    """Reads the time in seconds."""
    first: float = FIRST_ANSWER_SECONDS
    least: float = LEAST_ANSWER_SECONDS
    times_slowest: float = TIMES_SLOWEST
    _slowest: dict[str, float] = field(default_factory=dict)

    def find_deadline(self, kind: str) -> float:
        """Find the seconds that answers of a kind may take."""
        slowest = self._slowest.get(kind)
        return self.first if slowest is None else max(self.least, self.times_slowest * slowest)

    def record_duration(self, kind: str, seconds: float) -> None:
        """Record how many seconds an answer has taken."""
        self._slowest[kind] = max(seconds, self._slowest.get(kind, 0.0))
