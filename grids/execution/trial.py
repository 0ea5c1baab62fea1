"""One run as a Ray Tune trial: the trial's actor is the run's server, its client actors share its group.

Tune keeps the actors from one trial to the next (`reuse_actors`): a process with torch costs seconds.
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
from fedgrid.engine.plugins.source import Source
from fedgrid.engine.round_cache.store import CacheOptions
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.server import Server
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.execution.run_events import Finished, News, Stopped, take_forward
from fedgrid.grids.results.grid_folder import GridFolder


@dataclass(frozen=True)
class Job:
    """What all trials of a launch have in common."""

    grid: str
    runs: Sequence[RunConfig]
    placements: Mapping[int, Placement]
    """Number of clients -> placement."""
    storage: Storage
    data_dir: Path
    until: Mapping[str, int] = field(default_factory=dict)
    """As of `Grid`."""
    store: CacheOptions | None = None
    """As of `LaunchOptions`."""
    plugins: tuple[Source, ...] = ()
    """That the runs name."""

    def placement(self, index: int) -> Placement:
        """Return how run `index` is placed."""
        return self.placements[self.runs[index].clients]


class Trial(tune.Trainable):
    """Run `config["index"]` of a job. A step lasts until there is news, which it hands to the driver."""

    def setup(self, config: dict[str, Any], job: Job | None = None) -> None:
        """Take the first run; nothing that can fail, as Tune would not say what failed here."""
        assert job is not None, "Tune hands it over"
        self._job = job
        self._server: Server | None = None
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take the next run, with the actors of the one before."""
        self._index = int(new_config["index"])
        self._stream: Stream | None = None
        return True

    def step(self) -> dict[str, Any]:
        """Return the news since the last step, at least one.

        Raises:
            RunError: whatever goes wrong, in one line: Tune keeps no more of it than its text.
        """
        if self._stream is None:
            self._stream = Stream(self._take_forward())
        try:
            news = self._stream.read()
        except Exception as error:
            raise RunError(in_one_line(error)) from error
        return {"news": news, "done": isinstance(news[-1], Finished | Stopped)}

    def _take_forward(self) -> Iterator[News]:
        job = self._job
        if self._server is None:
            group = ray.util.get_current_placement_group()
            assert group is not None, "a trial has a placement group"
            self._server = Server(group, job.placement(self._index), job.data_dir, job.store, job.plugins)
        stop_asked = GridFolder(job.storage, job.grid).stop_asked
        run = job.runs[self._index]
        return take_forward(self._server, run, job.storage, stop_asked, job.until.get(run.run_id))


class Stream:
    """Reads an iterator in a thread of its own, so that the next round never waits for the driver."""

    def __init__(self, news: Iterator[News]) -> None:
        self._queue: SimpleQueue[News | BaseException] = SimpleQueue()
        self._error: BaseException | None = None
        Thread(target=self._follow, args=(news,), daemon=True).start()

    def read(self) -> list[News]:
        """Return what there is, at least one; raise what the iterator raised once the rest is read."""
        if self._error is not None:
            raise self._error
        found: list[News] = []
        item = self._queue.get()
        while not isinstance(item, BaseException):
            found.append(item)
            try:
                item = self._queue.get_nowait()
            except Empty:
                return found
        self._error = item
        return found or self.read()

    def _follow(self, news: Iterator[News]) -> None:
        try:
            for item in news:
                self._queue.put(item)
        except BaseException as error:
            # Whatever it is, it belongs to whoever reads.
            self._queue.put(error)
