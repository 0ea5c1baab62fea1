"""Runs a grid in this process, one run after another: for debuggers and profilers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import is_final
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.round_cache.files import CacheOptions
from fedgrid.engine.runtime.run.failure import in_one_line
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.clock import CLOCK, Clock, backoff, pause_until
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.run_events import RoundDone, RunEvent, run_to_end

if TYPE_CHECKING:
    from fedgrid.grids.execution.watch import Watch


def run_in_process(
    runs: Sequence[RunConfig],
    storage: Storage,
    data_dir: Path,
    watch: Watch,
    retries: int,
    until: Mapping[str, int] = MappingProxyType({}),
    cache: CacheOptions | None = None,
    clock: Clock = CLOCK,
    accept_changes: bool = False,
) -> None:
    """Run `runs` and pass their events to `watch`; one that fails is retried `retries` times, after pauses.

    One that would fail again is not.

    `until` is as in `Grid`, `cache` and `accept_changes` as in `LaunchOptions`.

    Raises:
        RunError: what `watch` raises, for instance if another driver has taken over the storage.
    """
    session = Session(
        InProcessPool(), data_dir, write_behind=True, cache=cache, accept_changes=accept_changes
    )
    for config in runs:
        for attempt in range(1, retries + 2):
            events = run_to_end(session, config, storage, lambda: watch.stopping, until.get(config.run_id))
            error = _run(config, _once_on_disk(events, session), watch)
            if error is None:
                break
            if attempt > retries or is_final(error):
                watch.fail(config, in_one_line(error), attempt)
                break
            watch.retry(config, in_one_line(error), attempt)
            pause_until(lambda: watch.stopping, backoff(attempt), clock)
        if watch.all_stopped:
            return


def _once_on_disk(events: Iterator[RunEvent], session: Session) -> Iterator[RunEvent]:
    """Yield events; that of a round once it is on disk, which it gets while the next ones train."""
    held: deque[tuple[RunEvent, Future[None] | None]] = deque()
    try:
        for event in events:
            held.append((event, session.round_write() if isinstance(event, RoundDone) else None))
            while held and _is_written(held[0][1]):
                yield held.popleft()[0]
    except Exception:
        yield from (event for event, write in held if write is None or write.exception() is None)
        raise


def _is_written(write: Future[None] | None) -> bool:
    return write is None or (write.done() and write.exception() is None)


def _run(config: RunConfig, events: Iterator[RunEvent], watch: Watch) -> Exception | None:
    """Run one run to its end; return its error if it fails, else None. An error of `watch` is no failure."""
    while True:
        try:
            event = next(events, None)
        except Exception as error:
            # Also a bug of ours or of a library: it must not stop the grid's other runs.
            return error
        if event is None:
            return None
        watch.handle(config, event)
        watch.tick()
