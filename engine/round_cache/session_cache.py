"""One run's view of the round cache while it lasts."""

from collections.abc import Callable
from concurrent.futures import Executor, Future

from fedgrid.engine.round_cache.files import CacheFiles
from fedgrid.engine.round_cache.key import Digests


class SessionCache:
    """The files, the digest of the run's setup, and a thread that writes while the next round trains."""

    def __init__(self, files: CacheFiles, setup: str, writer: Executor) -> None:
        """`setup` is `engine.round_cache.key.of_setup`."""
        self.files = files
        self.setup = setup
        self.digests = Digests()
        self._writer = writer
        self._writing: Future[None] | None = None

    def write_later(self, write: Callable[[], None]) -> None:
        """Queue a write, and wait for the one queued before."""
        before, self._writing = self._writing, self._writer.submit(write)
        if before is not None:
            before.result()

    def settle(self) -> None:
        """Wait until everything is written."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()
