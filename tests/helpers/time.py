"""A clock that stands still until a test moves it, and whose pauses take no time."""

from fedgrid.engine.storage.clock import Clock


class Time:
    """`clock` shows this time; `during_pause` is called in each pause."""

    def __init__(self, now=1000.0):
        self.seconds = now
        self.pauses = []
        self.during_pause = lambda: None
        self.clock = Clock(lambda: self.seconds, self._pause)

    def _pause(self, seconds):
        self.pauses.append(seconds)
        self.seconds += seconds
        self.during_pause()
