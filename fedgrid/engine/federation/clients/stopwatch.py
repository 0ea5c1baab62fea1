"""The times of a round, without what other runs have computed."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class Stopwatch:
    """The seconds of a round: training, waiting for another run, and the steps in which these happen."""

    def __init__(self) -> None:
        self._start = perf_counter()
        # Training is lazy and may happen within any step, so it is counted apart and taken out of the step's
        # time.
        self.training = 0.0
        self.waiting = 0.0
        self.steps: dict[str, float] = {}
        """Seconds of each step by its name, without training and waiting."""

    @property
    def working_seconds(self) -> float:
        """Seconds so far without waiting."""
        return perf_counter() - self._start - self.waiting

    @property
    def server_seconds(self) -> float:
        """Seconds so far without training and waiting."""
        return self.working_seconds - self.training

    @contextmanager
    def time_step(self, name: str) -> Iterator[None]:
        """Add the seconds of the block to those of its name in `steps`: a step may have several blocks."""
        before = self.server_seconds
        yield
        self.steps[name] = self.steps.get(name, 0.0) + self.server_seconds - before

    @contextmanager
    def time_training(self) -> Iterator[None]:
        """Count the block as training."""
        start = perf_counter()
        yield
        self.training += perf_counter() - start

    @contextmanager
    def time_waiting(self) -> Iterator[None]:
        """Count the block as waiting."""
        start = perf_counter()
        yield
        self.waiting += perf_counter() - start
