"""When the round cache evicts states: entries as large as a model, which only unfinished runs can use.

A finished run reads no more states; one that is waiting, was stopped or failed still may, of whatever grid:
another driver may be running it, or it was interrupted. Statistics are small and stay.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.runtime.round_cache.files import StoredFile, drop, kept
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.grid_folder import GridFolder, list_grids
from fedgrid.grids.results.outcome import unfinished


def idle_shared_prefixes(runs: Iterable[RunConfig], pending: Iterable[RunConfig]) -> set[str]:
    """Return the shared prefixes of `runs` that no run of `pending` belongs to."""
    return {run.shared_prefix for run in runs} - {run.shared_prefix for run in pending}


def states(entries: Iterable[StoredFile], shared_prefixes: Collection[str]) -> list[StoredFile]:
    """Return the entries of these shared prefixes that are states."""
    return [entry for entry in entries if entry.is_state and entry.shared_prefix in shared_prefixes]


def waiting_runs(runs: Sequence[RunConfig], storage: Storage) -> list[RunConfig]:
    """Return the unfinished runs of the storage's grids that may use states of the shared prefixes of `runs`.

    A grid of another version is ignored: its runs have other keys.
    """
    shared_prefixes = {run.shared_prefix for run in runs}
    runs_by_id = {run.run_id: run for run in runs}
    for name in list_grids(storage):
        with suppress(ConfigError):
            runs_by_id |= {
                run.run_id: run
                for run in GridFolder(storage, name).runs()
                if run.shared_prefix in shared_prefixes
            }
    return unfinished(runs_by_id.values(), storage)


def waiting_elsewhere(shared_prefixes: Collection[str], storage: Storage, own: str) -> set[str]:
    """Return those of `shared_prefixes` whose states a run of another grid than `own` may still use."""
    waiting: set[str] = set()
    for name in list_grids(storage):
        # A grid that has just been deleted, is damaged, or is of another version: its runs have other keys.
        with suppress(ConfigError, FileNotFoundError):
            runs = GridFolder(storage, name).runs() if name != own else ()
            theirs = [run for run in runs if run.shared_prefix in shared_prefixes]
            waiting |= {run.shared_prefix for run in unfinished(theirs, storage)}
    return waiting


class Retention:
    """Evicts states as the runs of a launch finish; if that fails, warns once and leaves them."""

    def __init__(
        self, folder: GridFolder, storage: Storage, warn: Callable[[str], None], *, grows: bool = False
    ) -> None:
        """Prepare for a launch of the grid in `folder`; if it `grows`, evict nothing before `conclude`."""
        self._folder = folder
        self._storage = storage
        self._warn = warn
        self._grows = grows
        self._warned = False
        self._pending: dict[str, set[str]] = {}

    def begin(self) -> None:
        """Find the unfinished runs of the grid; evict what earlier launches left."""
        runs = self._folder.read().every
        pending = unfinished(self._folder.runs(), self._storage)
        for run in pending:
            self._pending.setdefault(run.shared_prefix, set()).add(run.run_id)
        if not self._grows:
            self._drop(idle_shared_prefixes(runs, pending))

    def finish(self, run: RunConfig) -> None:
        """Evict the states that only this run still needed."""
        waiting = self._pending.get(run.shared_prefix, set())
        waiting.discard(run.run_id)
        if not waiting and not self._grows:
            self._drop({run.shared_prefix})

    def conclude(self, until: Mapping[str, int]) -> None:
        """Evict the states kept for later runs: no more will come.

        `until` maps run ids to the round at which a run was stopped early; such a run counts as finished.
        """
        if self._grows:
            pending = unfinished(self._folder.runs(), self._storage, until)
            self._drop(idle_shared_prefixes(self._folder.read().every, pending))

    def _drop(self, shared_prefixes: Collection[str]) -> None:
        """Evict the states of these shared prefixes, with one listing: of the one, or of the whole cache."""
        if not shared_prefixes:
            return
        try:
            entries = kept(self._storage, next(iter(shared_prefixes)) if len(shared_prefixes) == 1 else "")
            if idle := {entry.shared_prefix for entry in states(entries, shared_prefixes)}:
                idle -= waiting_elsewhere(idle, self._storage, self._folder.name)
            if unused := states(entries, idle):
                drop(self._storage, unused)
        except (OSError, RunError) as error:
            if not self._warned:
                self._warned = True
                self._warn(f"states that no run needs any longer stay in the round cache: {error}")
