"""Time for what waits: a monotonic clock, pauses that grow, and calls that are tried again."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import SystemRandom
from typing import TypeVar

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


def repeated(
    call: Callable[[], T],
    errors: type[Exception] | tuple[type[Exception], ...],
    *,
    give_up_after: float,
    warn: Callable[[Exception], None] = lambda _: None,
    clock: Clock = CLOCK,
) -> T:
    """Return what `call` returns; if it raises one of `errors`, call it again after a pause that grows.

    Args:
        give_up_after: seconds from the first attempt after which the error is raised; 0 tries once.
        warn: gets the first error.

    Raises:
        Exception: the last error.
    """
    start, attempt = clock.now(), 1
    while True:
        try:
            return call()
        except errors as error:
            pause = backoff(attempt)
            if clock.now() + pause - start > give_up_after:
                raise
            if attempt == 1:
                warn(error)
        clock.pause(pause)
        attempt += 1
