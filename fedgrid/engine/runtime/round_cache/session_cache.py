"""One run's view of the round cache while it lasts."""

from collections.abc import Callable
from concurrent.futures import Executor, Future

from fedgrid.engine.federation.clients.messages import Machine, Setup
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.round_cache.files import CacheFiles, CacheOptions
from fedgrid.engine.runtime.round_cache.key import Digests, of_setup
from fedgrid.engine.runtime.storage.storage import Storage


class SessionCache:
    """The files, the digest of the run's setup, and a thread that writes while the next round trains."""

    def __init__(self, files: CacheFiles, setup: str, writer: Executor) -> None:
        """`setup` is `runtime.round_cache.key.of_setup`."""
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


def open_cache(
    config: RunConfig,
    storage: Storage,
    options: CacheOptions,
    setup: Setup,
    machine: Machine,
    writer: Executor,
) -> SessionCache:
    """Return a run's view of its storage's cache, with room on the disk as `options` ask for it."""
    files = CacheFiles(storage, config.shared_prefix, config.run_id, options)
    files.free_disk()
    return SessionCache(files, of_setup(setup, machine), writer)
