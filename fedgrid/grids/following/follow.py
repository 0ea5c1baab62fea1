"""Lets trackers follow the records of a launch's runs: a thread for each tells it what it lacks.

If a tracker fails, there is one warning and training goes on; what it has missed is told once it works again,
or by `fedgrid sync`.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.storage.hints import command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.following.process import OwnProcess
from fedgrid.grids.following.teller import End, News, Teller, find_tracker
from fedgrid.grids.planning.options import DEFAULT_TRACKERS
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.tracker import Status, TrackedGrid, TrackedRun

T = TypeVar("T")
LOOK_AT_URI = 30.0
"""Seconds between looks at the records of runs under way, if these are at a URI."""


@dataclass(frozen=True)
class Pauses:
    """Seconds."""

    gather: float = 2.0
    """From the first news to telling it, so that fast rounds share a batch."""
    retry: float = 15.0
    """Between attempts after a tracker has failed."""
    flush: float = 30.0
    """How long the end waits for a tracker that takes nothing."""
    start: float = 300.0
    """How much longer for one whose process still imports its modules, as on a busy machine."""


class Follower:
    """Tells one tracker of many runs at once, in a thread; `tell` never waits.

    News of a run replaces what was not told of it yet: the tracker is told from the records.
    """

    def __init__(self, name: str, grid: TrackedGrid, warn: Callable[[str], None], pauses: Pauses) -> None:
        self.tracker = find_tracker(name)
        self.tracker.check(grid)
        self.grid = grid
        plugins = active.sources(active.digests_of_tracker(self.tracker))
        words = ["sync", grid.name, *([] if (name,) == DEFAULT_TRACKERS else ["--track", name])]
        words += [word for plugin in plugins for word in ("--plugin", plugin.name)]
        self._sync = command(grid.storage, *words)
        self._warn = warn
        self._pauses = pauses
        self._teller = Teller(self.tracker, grid, plugins)
        self._process: OwnProcess | None = None
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._changed = threading.Condition()
        self._waiting: dict[str, News] = {}
        self._taken: dict[str, News] = {}
        self._forgotten: list[RunConfig] = []
        self._end: End | None = None
        self._is_down = self._is_warned = False
        self._answers = 0

    def own_process(self) -> OwnProcess:
        """Tell it in a process of its own, and nothing once that is closed, also if a call waits then."""
        self._process = OwnProcess(self._teller, self.tracker.title())
        return self._process

    def lacks(self, config: RunConfig) -> bool:
        """Return whether the tracker has not been told all of a finished run, by what lies in its folder."""
        run = TrackedRun.of(config, self.grid.storage)
        return self._ask(lambda: self.tracker.lacks(run, self.grid), otherwise=False)

    def lines(self) -> list[str]:
        """Return the lines that say where to look."""
        return self._ask(lambda: self.tracker.lines(self.grid), otherwise=[])

    def forget(self, configs: Sequence[RunConfig]) -> None:
        """Tell that the records of runs are deleted, before any news."""
        with self._changed:
            self._forgotten.extend(configs)

    def tell(self, news: News) -> None:
        """Tell news of a run soon."""
        with self._changed:
            self._waiting[news.config.run_id] = news.after(self._waiting.get(news.config.run_id))
            self._changed.notify()

    def start(self) -> None:
        """Start telling."""
        self._thread.start()

    def close(self, end: End) -> None:
        """Tell the rest, and the end; what could not be told is counted in a warning."""
        with self._changed:
            self._end = end
            self._changed.notify()
        self._wait_for_start()
        answers = -1
        while self._thread.is_alive() and answers != self._answers:
            answers = self._answers
            self._thread.join(self._pauses.flush)
        lacking = len(self._waiting.keys() | self._taken.keys())
        if lacking or self._thread.is_alive():
            self._is_warned = True  # Its process ends now, which is no news.
            what = f"{lacking} {'run is' if lacking == 1 else 'runs are'}" if lacking else "the grid's end is"
            where = f"{what} not, or not completely, in {self.tracker.title()}"
            self._warn(f"{where}; `{self._sync}` logs what is missing")

    def _wait_for_start(self) -> None:
        process, pauses = self._process, self._pauses
        if process is not None and not process.ready.wait(pauses.flush):
            self._warn(
                f"{self.tracker.title()} is still starting, as on a busy machine; waiting for it, at most "
                f"{pauses.start:g} s more (Ctrl-C ends that)"
            )
            process.ready.wait(pauses.start)

    def _ask(self, question: Callable[[], T], otherwise: T) -> T:
        """Return the answer of a plugin's class, which may raise anything."""
        try:
            return question()
        except FedgridError:
            raise
        except Exception as error:
            self._warn(f"{self.tracker.title()}: {error!r}")
            return otherwise

    def _call(self, method: str, *given: Any) -> Any:
        if self._process is None:
            answer = getattr(self._teller, method)(*given)
        else:
            runs = [news.config for news in given if isinstance(news, News)]
            plugins = active.sources(digest for run in runs for digest in run.plugin_digests)
            answer = self._process.call(method, *given, plugins=plugins)
        self._answers += 1
        return answer

    def _work(self) -> None:
        # Before the first news: the import of MLflow takes seconds, in which Ray starts.
        self._tell_all()
        while True:
            end = self._rest()
            self._tell_all()
            if end is not None:
                return

    def _rest(self) -> End | None:
        """Wait for news, and then for more of it, or for the next attempt. The end does not wait."""
        with self._changed:
            if self._is_down:
                self._changed.wait_for(lambda: self._end, self._pauses.retry)
            else:
                self._changed.wait_for(lambda: self._end or self._waiting)
                pause = max(self._pauses.gather, LOOK_AT_URI if self.grid.at_uri else 0)
                self._changed.wait_for(lambda: self._end, pause)
            return self._end

    def _tell_all(self) -> None:
        with self._changed:
            self._taken, self._waiting = self._waiting, {}
            end = self._end
            self._is_down = False
        try:
            self._call("make")
            while self._forgotten:
                self._call("forget", self._forgotten[0])
                del self._forgotten[0]
            while self._taken:
                self._tell_first()
            if end is not None:
                self._call("close", end)
            self._is_warned = self._is_down
        except TrackerFailed as error:
            self._fail(error)

    def _tell_first(self) -> None:
        """Tell of a run. If it fails, the next ones are tried, unless the tracker cannot be made."""
        news = next(iter(self._taken.values()))
        try:
            self._call("tell", news)
        except TrackerFailed as error:
            self._fail(error, news)
            self._call("make")
        else:
            del self._taken[news.config.run_id]

    def _fail(self, error: TrackerFailed, *failed: News) -> None:
        """Queue runs again (all taken ones, if none is given)."""
        with self._changed:
            self._is_down = True
            for old in failed or list(self._taken.values()):
                self._taken.pop(old.config.run_id)
                self._waiting.setdefault(old.config.run_id, old)
        if not self._is_warned:
            self._is_warned = True
            missed = f"what {self.tracker.title()} has missed is logged when it is back"
            self._warn(f"{error}; training goes on, and {missed}")


class Trackers:
    """The trackers of a launch; within its context they are told. No method waits for them."""

    def __init__(
        self,
        name: str,
        storage: Storage,
        warn: Callable[[str], None],
        *,
        names: Sequence[str] = DEFAULT_TRACKERS,
        axes: Sequence[str] = (),
        searched: Sequence[str] = (),
        text: str = "",
        at_uri: bool = False,
        pauses: Pauses = Pauses(),
    ) -> None:
        """Follow the grid `name` with the trackers of these `names`; `warn` is called from any thread.

        The others are as of `TrackedGrid`.

        Raises:
            ConfigError: there is no such tracker, or it cannot track the grid: MLFLOW_TRACKING_URI is
                malformed, say.
        """
        self.grid = TrackedGrid(name, storage, axes, searched, text, at_uri)
        self._followers = [Follower(tracker, self.grid, warn, pauses) for tracker in names]
        self._under_way: dict[str, News] = {}
        self._end: End | None = None

    @contextmanager
    def own_processes(self) -> Iterator[None]:
        """Tell each tracker in a process of its own within the block, unless MLflow is imported here."""
        with ExitStack() as stack:
            if "mlflow" not in sys.modules:
                for follower in self._followers:
                    stack.enter_context(closing(follower.own_process()))
            yield

    def lacking(self, runs: Sequence[RunConfig]) -> list[RunConfig]:
        """Return those of the finished runs that a tracker has not been told of."""
        return [run for run in runs if any(follower.lacks(run) for follower in self._followers)]

    def catch_up(self, runs: Sequence[RunConfig]) -> None:
        """Tell of runs that were finished before this launch, where a tracker lacks them."""
        for run in runs:
            for follower in self._followers:
                if follower.lacks(run):
                    follower.tell(News(run, "FINISHED"))

    def forget(self, runs: Sequence[RunConfig]) -> None:
        """Tell that the records of these runs are deleted, before any news of them."""
        for follower in self._followers:
            follower.forget(runs)

    def tell(self, config: RunConfig, status: Status | None = None, scores: Mapping[int, Any] = {}) -> None:
        """Tell that a run has started, or has rounds with these scores; with a status, that it has ended."""
        started = self._under_way.get(config.run_id, News(config, None, int(time.time() * 1000)))
        if status is None:
            self._under_way[config.run_id] = started
        else:
            self._under_way.pop(config.run_id, None)
        for follower in self._followers:
            follower.tell(News(config, status, started.started_ms, scores=scores))

    def summary(self, files: Sequence[Path], done: int, failed: int, *, stopped: bool = False) -> None:
        """Keep, for the end: files of the grid, its numbers of finished and failed runs.

        It ends as KILLED if it was `stopped` before its runs were finished.
        """
        counts = {"grid/runs_done": done, "grid/runs_failed": failed}
        self._end = End("KILLED" if stopped else "FINISHED", tuple(files), counts)

    def lines(self) -> list[str]:
        """Return the lines that say where to look."""
        return [line for follower in self._followers for line in follower.lines()]

    def __enter__(self) -> Self:
        for follower in self._followers:
            follower.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for news in list(self._under_way.values()):
            self.tell(news.config, "KILLED")
        end = self._end or End("KILLED" if kind else "FINISHED")
        for follower in self._followers:
            follower.close(End("KILLED", end.files, end.counts) if kind else end)
