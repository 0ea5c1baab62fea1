"""What `fedgrid store` does: say what the round store has saved a grid and keeps for it, and free room."""

import json
from collections.abc import Sequence
from functools import partial
from shlex import quote

from rich.console import Console

from fedgrid.engine.round_cache import store
from fedgrid.engine.round_cache.store import StoredFile, kept
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.storage.atomic import disk_errors
from fedgrid.engine.storage.lease import Lease
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.display.plain import print_plain
from fedgrid.grids.display.tables import duration
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.round_cache.sizes import size
from fedgrid.grids.round_cache.table import LEGEND, store_table
from fedgrid.grids.round_cache.usage import Usage, can_go, take_stock

ROWS_SHOWN = 40
"""Trunks up to which each has its own row; beyond that, a data set."""


def show_store(name: str, storage: Storage, drop: bool, as_json: bool, console: Console) -> None:
    """Show what the store has done for a grid; first, if asked to, `drop` what can go.

    Raises:
        ConfigError: if there is no such grid or, to drop, somebody drives the storage.
        RunError: if the storage cannot be read or, to drop, written.
    """
    storage.pull_marks()
    runs = GridFolder(storage, name).runs()
    dropped = _drop(name, runs, storage) if drop else []
    freed = sum(entry.size for entry in dropped)
    account = take_stock(runs, storage)
    if as_json:
        print(json.dumps({"grid": name, **account.as_dict(), "dropped_bytes": freed if drop else None}))
        return
    say = partial(print_plain, console)
    rows = list(account.trunks.values()) if len(account.trunks) <= ROWS_SHOWN else account.datasets
    console.print(store_table(f"Round store, {name}", rows, account.total, console.width))
    say(LEGEND)
    say()
    if account.total.alone_seconds > account.total.seconds:
        saved = duration(account.total.alone_seconds - account.total.seconds)
        say(f"It saved {saved} of {duration(account.total.alone_seconds)}.")
    if dropped:
        trunks = {entry.trunk for entry in dropped}
        say(f"Freed {size(freed)}: {_number(len(dropped), 'state')} of {_number(len(trunks), 'trunk')}.")
    say(_what_can_go(name, account.total))
    if account.others_trunks:
        say(f"Other grids: {size(account.others_bytes)} in {_number(account.others_trunks, 'trunk')}.")


def _drop(name: str, runs: Sequence[RunConfig], storage: Storage) -> list[StoredFile]:
    """Delete what can go, and return it; with the lease, so that no run starts to need it meanwhile."""
    with Lease(storage, name), disk_errors(storage.root):
        dropped = can_go(kept(storage), runs, storage)
        if dropped:
            store.drop(storage, dropped)
    return dropped


def _what_can_go(name: str, total: Usage) -> str:
    if total.can_go_bytes:
        can = f"{size(total.can_go_bytes)} of states can go, as all runs that would take them are finished"
        return f"{can}: `fedgrid store {quote(name)} --drop` deletes them."
    if total.states_bytes:
        waiting = _number(total.runs - total.finished, "run")
        return (
            f"Nothing can go: the states wait for {waiting} not finished, and go by themselves as those end."
        )
    return "Nothing can go: no states are kept, and the statistics stay for runs to come."


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
