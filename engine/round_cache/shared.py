"""What a run has in common with others while it lasts."""

from collections.abc import Callable
from concurrent.futures import Executor, Future

from fedgrid.engine.round_cache.key import Digests
from fedgrid.engine.round_cache.store import RoundStore


class Shared:
    """What a run has in common with others: the store, and what tells the run's federation from others there.

    What the run works out is written by `writer`, a thread of its own, while the next round trains.
    """

    def __init__(self, store: RoundStore, setup: str, writer: Executor) -> None:
        """`setup` is `engine.round_cache.key.of_setup`."""
        self.store = store
        self.setup = setup
        self.digests = Digests()
        self._writer = writer
        self._writing: Future[None] | None = None

    def later(self, write: Callable[[], None]) -> None:
        """Have something written, and wait for what was handed over before."""
        before, self._writing = self._writing, self._writer.submit(write)
        if before is not None:
            before.result()

    def settle(self) -> None:
        """Wait until all is written."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()
