"""Runs a grid in this process, one run after the other: for debuggers and profilers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from fedgrid.engine.clients.pool import InProcessPool
from fedgrid.engine.errors import in_one_line
from fedgrid.engine.round_cache.store import CacheOptions
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.session import Session
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.execution.run_events import take_forward
from fedgrid.grids.execution.watch import Watch


def run_in_process(
    runs: Sequence[RunConfig],
    storage: Storage,
    data_dir: Path,
    watch: Watch,
    retries: int,
    until: Mapping[str, int] = MappingProxyType({}),
    store: CacheOptions | None = None,
) -> None:
    """Run `runs` and tell `watch`; a run that fails is tried again, then left.

    `until` is as of `Grid`, `store` as of `LaunchOptions`.
    """
    session = Session(InProcessPool(), data_dir, store=store)
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
    """Take one run to its end; return why it failed, None if it did not."""
    try:
        for news in take_forward(session, config, storage, lambda: watch.stopping, until):
            watch.take(config, news)
            watch.tick()
    except Exception as error:
        # Also a fault of ours, or of a library: the grid's other runs need not suffer for it.
        return in_one_line(error)
    return None
