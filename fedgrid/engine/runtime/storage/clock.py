"""Waiting: a monotonic clock, pauses that grow, and calls that are tried again."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import SystemRandom
from typing import TypeVar

from fedgrid.engine.federation.errors import is_denied

T = TypeVar("T")
FIRST_PAUSE, LAST_PAUSE = 1.0, 60.0
"""Seconds between two attempts; doubled each time."""


@dataclass(frozen=True)
class Clock:
    """Seconds of this machine. No clock of another machine is ever compared with it."""

    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


CLOCK = Clock()


def backoff(attempt: int) -> float:
    """Return the seconds to wait after failed attempt 1, 2, 3 ...: at most 1, 2, 4 ..., at least half of it.

    They are random so that many processes that failed together do not try again together.
    """
    return SystemRandom().uniform(0.5, 1.0) * min(LAST_PAUSE, FIRST_PAUSE * 2.0 ** (attempt - 1))


@dataclass(frozen=True)
class Patience:
    """How long a failed call is tried again: not at all by default."""

    give_up_after: float = 0.0
    """Seconds from the first attempt."""
    warn: Callable[[str], None] = lambda _: None
    """Gets a line for the first failed attempt."""
    clock: Clock = CLOCK

    def repeat(self, call: Callable[[], T], errors: tuple[type[Exception], ...]) -> T:
        """Return what `call` returns; if it raises one of `errors`, call it again after a pause that grows.

        The last pause is cut short: the last attempt comes after `give_up_after`, whatever pauses were drawn.

        Raises:
            Exception: the last error, after `give_up_after`, or that something may not be read or written.
        """
        deadline, attempt = self.clock.now() + self.give_up_after, 1
        while True:
            try:
                return call()
            except errors as error:
                left = deadline - self.clock.now()
                if left <= 0 or is_denied(error):
                    raise
                if attempt == 1:
                    reason = (str(error) or type(error).__name__).splitlines()[0]
                    self.warn(f"{reason}; trying again for {self.give_up_after:g} s")
            self.clock.pause(min(backoff(attempt), left))
            attempt += 1
