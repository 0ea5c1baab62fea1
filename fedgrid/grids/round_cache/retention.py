"""Evict states from the round cache: entries as large as a model, which only unfinished runs can use.

A finished run reads no more states. One that is waiting, was stopped or failed still may, whatever grid it
belongs to: another driver may be running it, or it was interrupted. Statistics are small and stay.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.runtime.round_cache.files import delete_entries, list_entries
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.grid_folder import GridFolder, list_grids
from fedgrid.grids.results.outcome import select_unfinished


def find_waiting_runs(
    shared_prefixes: Collection[str], storage: Storage, excluded_grid: str = ""
) -> list[RunConfig]:
    """Find unfinished runs of the storage's grids, except `but`, that may use states of shared prefixes.

    A grid that has just been deleted, is damaged or of another version is ignored: its runs have other keys.
    """
    runs: dict[str, RunConfig] = {}
    for name in list_grids(storage):
        with suppress(ConfigError, FileNotFoundError):
            grid_runs = GridFolder(storage, name).read_runs() if name != excluded_grid else ()
            runs |= {run.run_id: run for run in grid_runs if run.shared_prefix in shared_prefixes}
    return select_unfinished(runs.values(), storage)


class Retention:
    """Evicts states as the runs of a launch finish; if that fails, warns once and leaves them."""

    def __init__(
        self, folder: GridFolder, storage: Storage, warn: Callable[[str], None], *, grows: bool = False
    ) -> None:
        """Prepare for a launch.

        Args:
            folder: the grid.
            storage: where the round cache is.
            warn: gets a line if states cannot be evicted.
            grows: whether runs may be added to the grid; nothing is evicted before `conclude_launch` then;
                default False.
        """
        self._folder = folder
        self._storage = storage
        self._warn = warn
        self._grows = grows
        self._warned = False
        self._pending: dict[str, set[str]] = {}

    def begin_launch(self) -> None:
        """Find the grid's unfinished runs, and evict states that killed launches or deleted grids left.

        Called before the first run, so that the cache's limit does not evict other entries for these.
        """
        self._pending = {}
        for run in select_unfinished(self._folder.read_runs(), self._storage):
            self._pending.setdefault(run.shared_prefix, set()).add(run.run_id)
        if not self._grows:
            self._evict_idle_states(self._pending)

    def finish_run(self, run: RunConfig) -> None:
        """Evict the states that only this run still needed; called when a run has finished."""
        waiting = self._pending.get(run.shared_prefix, set())
        waiting.discard(run.run_id)
        # Only this grid's own runs are counted here; `_evict_idle_states` looks at the runs of other grids.
        if not waiting and not self._grows:
            self._evict_idle_states((), run.shared_prefix)

    def conclude_launch(self, until: Mapping[str, int]) -> None:
        """Evict the states that a growing grid kept for later runs; called at the end of a launch.

        `until` maps run ids to the round at which a run was stopped early; such a run counts as finished.
        """
        if self._grows:
            pending = select_unfinished(self._folder.read_runs(), self._storage, until)
            self._evict_idle_states({run.shared_prefix for run in pending})

    def _evict_idle_states(self, needed: Collection[str], shared_prefix: str = "") -> None:
        """Evict the states, of one shared prefix or of all, that no unfinished run can use.

        `needed` are the shared prefixes of the unfinished runs of this grid.
        """
        try:
            if not shared_prefix:
                self._storage.pull_marks()
            # Entries are listed before grids are read: a run that is added meanwhile only makes fewer of them
            # idle.
            entries = [each for each in list_entries(self._storage, shared_prefix) if each.is_state]
            idle = {entry.shared_prefix for entry in entries}.difference(needed)
            idle -= {run.shared_prefix for run in find_waiting_runs(idle, self._storage, self._folder.name)}
            if unused := [entry for entry in entries if entry.shared_prefix in idle]:
                delete_entries(self._storage, unused)
        except (OSError, RunError) as error:
            if not self._warned:
                self._warned = True
                self._warn(f"states that no run needs any longer stay in the round cache: {error}")
