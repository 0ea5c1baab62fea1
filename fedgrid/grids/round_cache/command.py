"""`fedgrid cache`: show what the round cache has saved a grid and how much space it takes; free space."""

import json
from collections.abc import Sequence
from functools import partial

from rich.console import Console

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.round_cache import files
from fedgrid.engine.runtime.round_cache.files import StoredFile, kept
from fedgrid.engine.runtime.storage.atomic import disk_errors
from fedgrid.engine.runtime.storage.hints import command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.plain import print_plain, warn
from fedgrid.grids.display.tables import duration, readable_size
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.round_cache.retention import waiting_runs
from fedgrid.grids.round_cache.table import LEGEND, cache_table
from fedgrid.grids.round_cache.usage import Usage, cache_usage, evictable


def show_cache(name: str, storage: Storage, drop: bool, as_json: bool, console: Console) -> None:
    """Show what the round cache has done for a grid; with `drop`, first evict the states that no run needs.

    Raises:
        ConfigError: if there is no such grid; with `drop`, also if another driver runs it.
        RunError: if the storage cannot be read; with `drop`, also if it cannot be written.
    """
    storage.pull_marks()
    runs = GridFolder(storage, name).runs()
    dropped = _drop(name, runs, storage) if drop else []
    freed = sum(entry.size for entry in dropped)
    usage = cache_usage(runs, storage)
    if as_json:
        print(json.dumps({"grid": name, **usage.as_dict(), "dropped_bytes": freed if drop else None}))
        return
    say = partial(print_plain, console)
    rows = list(usage.shared_prefixes.values())
    console.print(cache_table(f"Round cache, {name}", rows, usage.total, console.width))
    say(LEGEND)
    say()
    if usage.total.uncached_seconds > usage.total.seconds:
        saved = duration(usage.total.uncached_seconds - usage.total.seconds)
        say(f"The cache saved {saved} of {duration(usage.total.uncached_seconds)}.")
    if dropped:
        shared_prefixes = {entry.shared_prefix for entry in dropped}
        what = f"{_number(len(dropped), 'state')} of {_number(len(shared_prefixes), 'shared prefix', 'es')}"
        say(f"Freed {readable_size(freed)}: {what}.")
    say(_next_step(name, usage.total, runs, storage))


def _drop(name: str, runs: Sequence[RunConfig], storage: Storage) -> list[StoredFile]:
    """Evict and return the states that no run needs; the lease keeps the grid from starting meanwhile."""
    with Lease(storage, name, notify=warn), disk_errors(storage.root):
        dropped = evictable(kept(storage), runs, storage)
        if dropped:
            files.drop(storage, dropped)
    return dropped


def _next_step(name: str, total: Usage, runs: Sequence[RunConfig], storage: Storage) -> str:
    """Return whether states can be evicted, and how, or what they wait for."""
    if total.can_go_bytes:
        return (
            f"{readable_size(total.can_go_bytes)} of states can be deleted: all runs that need them are "
            f"finished. To delete them:  {command(storage, 'cache', name, '--drop')}"
        )
    if total.states_bytes:
        waiting = waiting_runs(runs, storage)
        needed = "1 unfinished run needs" if len(waiting) == 1 else f"{len(waiting)} unfinished runs need"
        return f"Nothing to delete: {needed} these states. They are deleted as the runs end."
    return "Nothing to delete: there are no states, and statistics stay for later runs."


def _number(count: int, what: str, plural: str = "s") -> str:
    return f"{count} {what}{'' if count == 1 else plural}"
