"""When the round store's states go: they are as large as a model, and of use only to runs still to come.

A run that has finished takes no more of them; one that waits, was stopped or failed will. Statistics are
small and stay. What other grids of the storage might take does not count: they work it out again.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from fedgrid.engine.errors import RunError
from fedgrid.engine.round_cache.store import StoredFile, drop, kept
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import unfinished


def idle_trunks(runs: Iterable[RunConfig], pending: Iterable[RunConfig]) -> set[str]:
    """Return the trunks of `runs` that none of the `pending` ones has."""
    return {run.trunk for run in runs} - {run.trunk for run in pending}


def states(entries: Iterable[StoredFile], trunks: Collection[str]) -> list[StoredFile]:
    """Return the entries of these trunks that are states."""
    return [entry for entry in entries if entry.is_state and entry.trunk in trunks]


class Retention:
    """Drops states as a launch's runs finish; what cannot be dropped stays, with one warning a launch."""

    def __init__(
        self, folder: GridFolder, storage: Storage, warn: Callable[[str], None], *, grows: bool = False
    ) -> None:
        """Prepare for a launch of the grid in `folder`; if that `grows`, `conclude` is first to drop any."""
        self._folder = folder
        self._storage = storage
        self._warn = warn
        self._grows = grows
        self._warned = False
        self._pending: dict[str, set[str]] = {}

    def begin(self) -> None:
        """Look which runs of the grid are not finished; drop what earlier launches left."""
        runs = self._folder.runs()
        pending = unfinished(runs, self._storage)
        for run in pending:
            self._pending.setdefault(run.trunk, set()).add(run.run_id)
        if not self._grows:
            self._drop(idle_trunks(runs, pending))

    def finish(self, run: RunConfig) -> None:
        """Drop the states that were kept for this run alone."""
        waiting = self._pending.get(run.trunk, set())
        waiting.discard(run.run_id)
        if not waiting and not self._grows:
            self._drop({run.trunk})

    def conclude(self, until: Mapping[str, int]) -> None:
        """Drop what was kept for runs to come: none will, and all have ended, or are at round `until`."""
        if self._grows:
            runs = self._folder.runs()
            self._drop(idle_trunks(runs, unfinished(runs, self._storage, until)))

    def _drop(self, trunks: Collection[str]) -> None:
        """Drop the states of these trunks; one listing, of the only trunk or of the whole store."""
        if not trunks:
            return
        try:
            entries = kept(self._storage, next(iter(trunks)) if len(trunks) == 1 else "")
            if going := states(entries, trunks):
                drop(self._storage, going)
        except (OSError, RunError) as error:
            if not self._warned:
                self._warned = True
                self._warn(f"states that no run needs any more stay in the round store: {error}")
