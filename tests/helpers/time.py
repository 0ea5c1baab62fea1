"""A clock that stands still until a test moves it, and whose pauses take no time."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from fedgrid.engine.runtime.storage.clock import CLOCK, Clock


class FakeTime:
    """A clock that shows `seconds`; `during_pause` is called in each pause."""

    def __init__(self, now=1000.0):
        self.seconds = now
        self.pauses = []
        self.during_pause = lambda: None
        self.clock = Clock(lambda: self.seconds, self._pause)

    def _pause(self, seconds):
        self.pauses.append(seconds)
        self.seconds += seconds
        self.during_pause()


@contextmanager
def skip_pauses() -> Iterator[None]:
    """Let the pauses of the whole process take no time; its clock goes on as if they had."""
    skipped = [0.0]

    def pause(seconds: float) -> None:
        skipped[0] += seconds

    changed = {"now": lambda: time.monotonic() + skipped[0], "pause": pause}
    before = {name: getattr(CLOCK, name) for name in changed}
    try:
        for name, value in changed.items():
            # `Clock` is frozen, and modules hold the one that they were given.
            object.__setattr__(CLOCK, name, value)
        yield
    finally:
        for name, value in before.items():
            object.__setattr__(CLOCK, name, value)
