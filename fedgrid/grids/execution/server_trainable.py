"""The server actor, which Ray Tune starts for a trial. Its `Session` drives the run's rounds and clustering.

One trial is one run. Tune keeps the actor, and with it the client actors, from one trial to the next
(`reuse_actors`), because starting a process with torch takes seconds.
"""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from ray import tune

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import RunError, is_final
from fedgrid.engine.runtime.clients.ray_pool import RayPool, create_server_pool
from fedgrid.engine.runtime.data import own_images
from fedgrid.engine.runtime.leases.driver import check_driver
from fedgrid.engine.runtime.leases.processes import NEW_OBJECTS
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.plugins.plugin import PluginSource
from fedgrid.engine.runtime.run.failure import describe_error
from fedgrid.engine.runtime.storage.clock import CLOCK, draw_backoff
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.run_events import RunEvent, RunFailed, RunFinished, RunStopped, run_to_end
from fedgrid.grids.planning.options import LaunchOptions
from fedgrid.grids.ray_cluster.background_imports import import_in_thread
from fedgrid.grids.results.grid_folder import GridFolder

if TYPE_CHECKING:
    from fedgrid.engine.runtime.clients.placement import Placement
    from fedgrid.engine.runtime.run.session import Session

QueueItem: TypeAlias = tuple[RunEvent | BaseException, Future[None] | None]
"""An event, or the error that ends them, and the write that must have ended before it is reported."""


@dataclass(frozen=True)
class LaunchContext:
    """What all trials of a launch share; Ray stores it once, not once for each trial."""

    grid: str
    runs: Sequence[RunConfig]
    """Runs of the launch; a trial's configuration is an index into these."""
    placements: "Mapping[int, Placement]"
    """Number of clients -> placement."""
    storage: Storage
    options: LaunchOptions
    token: str
    """Token of the lease that the driver holds on the storage; a server stops if another driver has taken
    over."""
    until: Mapping[str, int] = field(default_factory=dict)
    """Run id -> last round, as in `Grid`; default: all rounds of all runs."""
    plugins: tuple[PluginSource, ...] = ()
    """Plugins that the runs name; default: none."""
    images: own_images.Places = field(default_factory=dict)
    """Where the user's own images are that the runs name; default: none."""
    gather_seconds: float = 0.5
    """Seconds from a run's first event to its report, default 0.5: each report is a step of Tune, which costs
    driver, raylet and server milliseconds. The end of a run is reported at once."""

    def find_placement(self, index: int) -> "Placement":
        """Find the placement of run `index`."""
        return self.placements[self.runs[index].clients]


class ServerTrainable(tune.Trainable):
    """The server actor of run `config["index"]`. A step waits for events of that run and returns them.

    `config["failures"]` is how often the run has failed in this launch.
    """

    def setup(self, config: dict[str, Any], context: LaunchContext | None = None) -> None:
        """Choose the first run; called by Tune once, when the actor starts.

        Nothing here can fail: Tune does not report what fails in `setup`.
        """
        assert context is not None, "Tune passes it"
        # By default Python would look through a million lasting objects after every 700 new ones.
        gc.set_threshold(NEW_OBJECTS)
        self._context = context
        self._server: Session | None = None
        self._first = context.runs[int(config["index"])].name
        self.reset_config(config)

    def __repr__(self) -> str:
        """Format the name for Ray's dashboard and `ray list actors`; Ray reads it once for all runs."""
        return f"Server from {self._first} on"

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Choose the next run; called by Tune between trials. The run uses the same actors."""
        self._index = int(new_config["index"])
        self._failures = int(new_config["failures"])
        self._events: EventReader | None = None
        return True

    def step(self) -> dict[str, Any]:
        """Wait for events and return them, at least one; called by Tune again and again until `done`.

        Raises:
            RunError: for any failure that a retry may mend, in one line: Tune passes on only the text of an
                error.
        """
        try:
            if self._events is None:
                run = self._start_run()
                assert self._server is not None
                self._events = EventReader(run, self._server.find_last_write, self._context.gather_seconds)
            events = self._events.read_events()
        except Exception as error:
            if not is_final(error):
                raise RunError(describe_error(error)) from error
            events = [RunFailed(describe_error(error))]
        return {"events": events, "done": isinstance(events[-1], RunFinished | RunStopped | RunFailed)}

    def _start_run(self) -> Iterator[RunEvent]:
        """Start the run: connect to its clients if this is the actor's first, and return its events."""
        context = self._context
        own_images.register_places(context.images)
        if self._failures:
            # Longer each time: what made it fail, such as a full disk, may pass.
            CLOCK.pause(draw_backoff(self._failures))
        # After the pause: another driver may have taken over the storage meanwhile, and started this very
        # run.
        check_driver(context.storage, context.token)
        run = context.runs[self._index]
        if self._server is None:
            placement = context.find_placement(self._index)
            pool = self._pool = create_server_pool(placement)
            gc.disable()  # What is imported stays: to look through it for garbage takes half a second.
            # What clustering and the run's scores need.
            import_in_thread("sklearn.metrics", "sklearn.cluster")
            # Imports torch, while the client actors do. The driver, which imports this module, needs none.
            from fedgrid.engine.runtime.run.session import Session

            gc.freeze()
            gc.enable()
            active.register_sources(context.plugins)
            self._server = Session(
                pool,
                context.options.data_dir,
                threads=placement.num_actors,
                # A round is written while the next one trains; `EventReader` reports it once it is on disk.
                write_behind=True,
                cache=context.options.run_cache_options,
                accept_changes=context.options.accept_changes,
            )
        should_stop = GridFolder(context.storage, context.grid).is_stop_requested
        if isinstance(self._pool, RayPool):
            self._pool.run_name = f"{run.name}-{run.run_id}"
        return run_to_end(self._server, run, context.storage, should_stop, context.until.get(run.run_id))


class EventReader:
    """Reads an iterator of events in a thread, so that the next round never waits for the driver.

    A round is reported once it is on disk: after a kill, no reported round is computed again.
    """

    def __init__(
        self,
        events: Iterator[RunEvent],
        writing: Callable[[], Future[None] | None] = lambda: None,
        gather_seconds: float = 0.0,
    ) -> None:
        """Start the thread.

        Args:
            events: the iterator.
            writing: returns the write of the latest round, None if it is on disk.
            gather: seconds, as in `LaunchContext`.
        """
        self._gather = gather_seconds
        self._queue: SimpleQueue[QueueItem] = SimpleQueue()
        self._first: QueueItem | None = None
        """Item that was read from the queue, but not returned yet."""
        self._ended = Event()
        Thread(target=self._fill_queue, args=(events, writing), daemon=True).start()

    def read_events(self) -> list[RunEvent]:
        """Read the events of `gather_seconds` seconds from the first one on, or up to the end of the run.

        Raises:
            BaseException: what the iterator raised, once the events before it have been read.
        """
        read: list[RunEvent] = []
        # 1. Wait for the first event, then as long as events are gathered.
        self._first = self._take_next(wait=True)
        self._ended.wait(self._gather)
        # 2. Return what is there, up to the first round that is not on disk yet or the first error: both are
        # left for the next call, so that events come before the error that follows them.
        while (item := self._take_next(wait=not read)) is not None:
            event, write = item
            if isinstance(event, BaseException):
                self._first = item
                if not read:
                    raise event
                break
            if read and write is not None and not write.done():
                self._first = item
                break
            # A write that has failed ends the iterator, whose error comes next.
            if write is None or write.exception() is None:
                read.append(event)
        return read

    def _take_next(self, *, wait: bool) -> QueueItem | None:
        """Take the item left over, or the queue's next; None without `wait` if there is none."""
        if self._first is not None:
            item, self._first = self._first, None
            return item
        try:
            return self._queue.get(block=wait)
        except Empty:
            return None

    def _fill_queue(self, events: Iterator[RunEvent], writing: Callable[[], Future[None] | None]) -> None:
        """Put all events, and the error that ends them, into the queue; runs in the thread."""
        try:
            for event in events:
                self._queue.put((event, writing()))
        except BaseException as error:
            # Any error at all belongs to the reader.
            self._queue.put((error, None))
        finally:
            self._ended.set()
