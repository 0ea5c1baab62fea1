"""The server actor, which Ray Tune starts for a trial. Its `Server` drives the run's rounds and clustering.

One trial is one run. Tune keeps the actor, and with it the client actors, from one trial to the next
(`reuse_actors`), because starting a process with torch takes seconds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import ray
from ray import tune

from fedgrid.engine.clients.placement import Placement
from fedgrid.engine.errors import RunError, in_one_line
from fedgrid.engine.plugins.source import PluginSource
from fedgrid.engine.round_cache.store import CacheOptions
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.server import Server
from fedgrid.engine.storage.clock import CLOCK, backoff
from fedgrid.engine.storage.driver import check_driver
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.execution.run_events import RunEvent, RunFinished, RunStopped, run_to_end
from fedgrid.grids.results.grid_folder import GridFolder


@dataclass(frozen=True)
class LaunchContext:
    """What all trials of a launch share."""

    grid: str
    runs: Sequence[RunConfig]
    """A trial's configuration is an index into these."""
    placements: Mapping[int, Placement]
    """Number of clients -> placement."""
    storage: Storage
    data_dir: Path
    token: str
    """Of the lease that the driver holds on the storage."""
    until: Mapping[str, int] = field(default_factory=dict)
    """As in `Grid`."""
    store: CacheOptions | None = None
    """As in `LaunchOptions`."""
    plugins: tuple[PluginSource, ...] = ()
    """Those that the runs name."""
    accept_changes: bool = False
    """As in `LaunchOptions`."""

    def placement(self, index: int) -> Placement:
        """Return the placement of run `index`."""
        return self.placements[self.runs[index].clients]


class ServerTrainable(tune.Trainable):
    """The server actor of run `config["index"]`. A step waits for events of that run and returns them.

    `config["failures"]` says how often the run has failed in this launch.
    """

    def setup(self, config: dict[str, Any], context: LaunchContext | None = None) -> None:
        """Choose the first run. Nothing here can fail: Tune does not report what fails in `setup`."""
        assert context is not None, "Tune passes it"
        self._context = context
        self._server: Server | None = None
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Choose the next run; it uses the same actors."""
        self._index = int(new_config["index"])
        self._failures = int(new_config["failures"])
        self._events: EventReader | None = None
        return True

    def step(self) -> dict[str, Any]:
        """Return the events since the last step, at least one.

        Raises:
            RunError: for any failure, in one line: Tune passes on only the text of an error.
        """
        try:
            if self._events is None:
                self._events = EventReader(self._run())
            events = self._events.read()
        except Exception as error:
            raise RunError(in_one_line(error)) from error
        return {"events": events, "done": isinstance(events[-1], RunFinished | RunStopped)}

    def _run(self) -> Iterator[RunEvent]:
        context = self._context
        if self._failures:
            # Longer each time: what made it fail, such as a full disk, may pass.
            CLOCK.pause(backoff(self._failures))
        check_driver(context.storage, context.token)
        if self._server is None:
            group = ray.util.get_current_placement_group()
            assert group is not None, "a trial has a placement group"
            placement = context.placement(self._index)
            self._server = Server(
                group, placement, context.data_dir, context.store, context.plugins, context.accept_changes
            )
        stop_asked = GridFolder(context.storage, context.grid).stop_asked
        run = context.runs[self._index]
        return run_to_end(self._server, run, context.storage, stop_asked, context.until.get(run.run_id))


class EventReader:
    """Reads an iterator of events in a thread, so that the next round never waits for the driver."""

    def __init__(self, events: Iterator[RunEvent]) -> None:
        self._queue: SimpleQueue[RunEvent | BaseException] = SimpleQueue()
        self._error: BaseException | None = None
        Thread(target=self._fill, args=(events,), daemon=True).start()

    def read(self) -> list[RunEvent]:
        """Return all events that are there, waiting for the first one.

        Raises:
            BaseException: what the iterator raised, once the events before it have been read.
        """
        if self._error is not None:
            raise self._error
        found: list[RunEvent] = []
        item = self._queue.get()
        while not isinstance(item, BaseException):
            found.append(item)
            try:
                item = self._queue.get_nowait()
            except Empty:
                return found
        self._error = item
        return found or self.read()

    def _fill(self, events: Iterator[RunEvent]) -> None:
        try:
            for event in events:
                self._queue.put(event)
        except BaseException as error:
            # Any error at all belongs to the reader.
            self._queue.put(error)
