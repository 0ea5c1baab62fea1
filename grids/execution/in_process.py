"""Runs a grid in this process, one run after another: for debuggers and profilers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from fedgrid.engine.clients.pool import InProcessPool
from fedgrid.engine.errors import in_one_line
from fedgrid.engine.round_cache.store import CacheOptions
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.session import Session
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.execution.run_events import run_to_end
from fedgrid.grids.execution.watch import Watch


def run_in_process(
    runs: Sequence[RunConfig],
    storage: Storage,
    data_dir: Path,
    watch: Watch,
    retries: int,
    until: Mapping[str, int] = MappingProxyType({}),
    store: CacheOptions | None = None,
    accept_changes: bool = False,
) -> None:
    """Run `runs` and pass their events to `watch`; a run that fails is retried `retries` times.

    `until` is as in `Grid`, `store` and `accept_changes` as in `LaunchOptions`.
    """
    session = Session(InProcessPool(), data_dir, store=store, accept_changes=accept_changes)
    for config in runs:
        for attempt in range(1, retries + 2):
            cause = _run(config, session, storage, watch, until.get(config.run_id))
            if cause is None:
                break
            if attempt <= retries:
                watch.retry(config, cause, attempt)
            else:
                watch.fail(config, cause, attempt)
        if watch.all_stopped:
            return


def _run(
    config: RunConfig, session: Session, storage: Storage, watch: Watch, until: int | None
) -> str | None:
    """Run one run to its end; return the cause if it fails, else None."""
    try:
        for event in run_to_end(session, config, storage, lambda: watch.stopping, until):
            watch.handle(config, event)
            watch.tick()
    except Exception as error:
        # Also a bug of ours or of a library: it must not stop the grid's other runs.
        return in_one_line(error)
    return None
