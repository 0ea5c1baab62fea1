"""The trackers of a launch: each follows its runs in a child process, while the driver goes on."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.plugins.plugin import PluginSource
from fedgrid.engine.runtime.storage.hints import format_command
from fedgrid.grids.following.follow import FollowedLaunch, Follower, read_stamp
from fedgrid.grids.following.process import TrackerProcess
from fedgrid.grids.following.registry import find_tracker
from fedgrid.grids.following.run_folder_contents import read_status
from fedgrid.grids.following.session import LaunchEnd
from fedgrid.grids.planning.options import DEFAULT_TRACKERS
from fedgrid.grids.trackers.tracker import TrackedGrid, TrackedRun

T = TypeVar("T")


@dataclass(frozen=True)
class Pauses:
    """Pauses and patience with trackers, in seconds; tests make them short."""

    poll: float = 2.0
    """Between polls of the runs' folders, so that fast rounds share a batch."""
    poll_at_uri: float = 30.0
    """Between polls if runs under way are recorded at a URI, where each poll is a request."""
    retry: float = 15.0
    """Between attempts after a tracker has failed."""
    flush: float = 30.0
    """Wait at the end for a tracker that gives no sign of life."""
    start: float = 300.0
    """Further wait for a process that still imports its modules, as on a busy machine."""


class LaunchTracker:
    """One tracker of a launch: followed by a thread, or by a child process to which a thread listens."""

    def __init__(self, name: str, grid: TrackedGrid, warn: Callable[[str], None], pauses: Pauses) -> None:
        self.tracker = find_tracker(name)
        self.tracker.check(grid)
        self._title, self._warn, self._pauses = self.tracker.title(), warn, pauses
        self._tracker_digests = active.find_tracker_digests(self.tracker)
        plugins = active.list_sources(self._tracker_digests)
        words = ["sync", grid.name, *([] if (name,) == DEFAULT_TRACKERS else ["--track", name])]
        words += [word for plugin in plugins for word in ("--plugin", plugin.name)]
        self._sync = format_command(grid.storage, *words)
        self._process: TrackerProcess | None = None
        self._thread = threading.Thread()
        self._has_started, self._has_ended = threading.Event(), threading.Event()
        self._end: LaunchEnd | None = None
        self._signs = 0

    def start_process(self) -> None:
        """Start a child process for the tracker, which begins to import what it needs."""
        self._process = TrackerProcess(self.tracker.name)

    def close(self) -> None:
        """Kill the process: it has ended by now, or its tracker hangs."""
        self._has_ended.set()
        if self._process is not None:
            self._process.kill()

    def follow_launch(self, launch: FollowedLaunch, runs: Sequence[RunConfig]) -> None:
        """Begin to follow a launch of `runs`, in a daemon thread."""
        # A daemon thread, because a tracker that hangs must not keep the driver from ending.
        if self._process is None:
            self._has_started.set()
            self._thread = threading.Thread(
                target=Follower(launch, self._handle_message).follow_launch,
                args=(self._wait_for_end,),
                daemon=True,
            )
        else:
            self._thread = threading.Thread(target=self._follow_in_process, args=(launch, runs), daemon=True)
        self._thread.start()

    def send_end(self, end: LaunchEnd) -> None:
        """Pass on how the launch has ended, and wait for the tracker; a warning says what it lacks then."""
        flush, start = self._pauses.flush, self._pauses.start
        # `_end` is set before the event: a thread that waits for the event reads `_end` next.
        self._end = end
        self._has_ended.set()
        # A process that still imports is no tracker that hangs: on a busy machine importing MLflow takes
        # minutes.
        if not self._has_started.wait(flush):
            self._warn(
                f"{self._title} is still starting, as on a busy machine; waiting for it, at most "
                f"{start:g} s more (Ctrl-C ends that)"
            )
            self._has_started.wait(start)
        # The wait goes on as long as there are signs of life, so that a slow tracker is not cut off.
        signs = -1
        while self._thread.is_alive() and signs != self._signs:
            signs = self._signs
            self._thread.join(flush)
        if self._thread.is_alive():
            self._handle_message("lacking", "the grid is")

    def call_plugin(self, method: Callable[[], T], default: T) -> T:
        """Call a method of a plugin's class, which may raise anything.

        Args:
            method: Calls the method.
            default: Result if it raises an error, after a warning.
        """
        try:
            return method()
        except FedgridError:
            raise
        except Exception as error:
            self._warn(f"{self._title}: {error!r}")
            return default

    def _follow_in_process(self, launch: FollowedLaunch, runs: Sequence[RunConfig]) -> None:
        """Follow in the child process; start another one if it dies."""
        # Records are read with the plugins of their runs, which the child process must load first.
        digests = [digest for run in runs for digest in run.plugin_digests]
        plugins = active.list_sources([*digests, *self._tracker_digests])
        has_died = False
        while not self._run_process(launch, plugins):
            if self._has_ended.is_set():
                self._handle_message("lacking", "the grid is")
                return
            if not has_died:
                has_died = True
                self._warn(f"{self._title}: its process died, and is started again; training goes on")
            # A process that dies at once would otherwise be started again without a pause.
            self._has_ended.wait(launch.retry)
            self.start_process()

    def _run_process(self, launch: FollowedLaunch, plugins: Sequence[PluginSource]) -> bool:
        """Run the child process to its end; return whether that was the launch's end."""
        process = self._process
        assert process is not None
        process.send_launch(launch, plugins, self._tracker_digests)
        threading.Thread(target=self._forward_end, args=(process,), daemon=True).start()
        is_done = False
        for kind, text in process.read_messages():
            is_done = is_done or kind == "done"
            self._handle_message(kind, text)
        # Also if it has died before it was ready: nothing must wait for its start any more.
        self._has_started.set()
        return is_done

    def _forward_end(self, process: TrackerProcess) -> None:
        """Send a process the launch's end, once there is one.

        It runs in a thread of its own, as the thread that reads messages is blocked until the next one.
        """
        self._has_ended.wait()
        if self._end is not None:
            process.send_end(self._end)

    def _handle_message(self, kind: str, text: str) -> None:
        """Handle a message of the follower: show warnings, count signs of life."""
        self._signs += 1
        self._has_started.set()
        if kind == "warning":
            self._warn(text)
        elif kind == "lacking":
            self._warn(
                f"{text} not, or not completely, in {self._title}; `{self._sync}` logs what is missing"
            )

    def _wait_for_end(self, seconds: float) -> LaunchEnd | None:
        """Wait for the end of the launch, at most these seconds."""
        self._has_ended.wait(seconds)
        return self._end


class Trackers:
    """The trackers of a launch. Within `follow_runs` they receive what lies in the folders of its runs."""

    def __init__(
        self,
        grid: TrackedGrid,
        warn: Callable[[str], None],
        names: Sequence[str] = DEFAULT_TRACKERS,
        pauses: Pauses = Pauses(),
    ) -> None:
        """Make the trackers of a launch.

        Args:
            grid: The grid.
            warn: Shows a warning; called from any thread.
            names: Names of the trackers, by default MLflow's.
            pauses: Pauses and patience.

        Raises:
            ConfigError: There is no such tracker, or it cannot track the grid, as where MLFLOW_TRACKING_URI
                is malformed.
        """
        self.grid, self._pauses = grid, pauses
        self._trackers = [LaunchTracker(tracker, grid, warn, pauses) for tracker in names]
        self._end: LaunchEnd | None = None

    @contextmanager
    def start_processes(self) -> Iterator[None]:
        """Give each tracker a child process within the block, unless MLflow is imported here."""
        with ExitStack() as stack:
            # A driver that has imported MLflow has paid for the import, and a thread then does with less
            # memory.
            if "mlflow" not in sys.modules:
                for tracker in self._trackers:
                    tracker.start_process()
                    stack.enter_context(closing(tracker))
            yield

    def find_lacking_runs(self, runs: Sequence[RunConfig]) -> list[RunConfig]:
        """Find the finished runs that a tracker lacks, by what lies in their folders."""
        tracked = [TrackedRun.from_config(run, self.grid.storage) for run in runs]
        return [
            run.config for run in tracked if any(self._is_lacking(tracker, run) for tracker in self._trackers)
        ]

    def _is_lacking(self, tracker: LaunchTracker, run: TrackedRun) -> bool:
        """Check whether a tracker lacks a finished run; an error of a plugin counts as no."""
        return tracker.call_plugin(lambda: tracker.tracker.lacks(run, self.grid), default=False)

    @contextmanager
    def follow_runs(self, runs: Sequence[RunConfig], forgotten: Sequence[RunConfig] = ()) -> Iterator[None]:
        """Have the trackers follow the grid, whose folder must exist, within the block.

        They receive what is written to the folders of its runs from now on, and the finished `runs` that they
        lack.

        Args:
            runs: Runs of the launch.
            forgotten: Runs whose records were deleted; none by default.
        """
        for tracker in self._trackers:
            tracker.follow_launch(self._describe_launch(tracker, runs, forgotten), runs)
        # If the block raises, its runs may go on in another launch.
        end = LaunchEnd("KILLED")
        try:
            yield
            end = self._end or LaunchEnd("FINISHED")
        finally:
            # In the driver's thread, one after the other: the launch is not over before its results are
            # stored.
            for tracker in self._trackers:
                tracker.send_end(end)

    def _describe_launch(
        self, tracker: LaunchTracker, runs: Sequence[RunConfig], forgotten: Sequence[RunConfig]
    ) -> FollowedLaunch:
        """Describe a launch for one tracker."""
        grid, tracked = self.grid, [TrackedRun.from_config(run, self.grid.storage) for run in runs]
        return FollowedLaunch(
            tracker.tracker.name,
            grid,
            # The stamps are taken before the first run starts, so that nothing a run writes is taken for old.
            before={
                run.config.run_id: read_stamp(run.folder)
                for run in tracked
                if read_status(run.folder) != "FINISHED" or not self._is_lacking(tracker, run)
            },
            forgotten=[run.canonical_json() for run in forgotten],
            poll=self._pauses.poll_at_uri if grid.at_uri else self._pauses.poll,
            retry=self._pauses.retry,
        )

    def set_end(self, files: Sequence[Path], done: int, failed: int, *, stopped: bool = False) -> None:
        """Set how the launch ends, which `follow_runs` sends at its end.

        Args:
            files: Files of the grid that trackers take as artifacts.
            done: Number of finished runs.
            failed: Number of failed runs.
            stopped: Whether the launch was stopped before its runs were finished, and so ends as KILLED.
        """
        counts = {"grid/runs_done": done, "grid/runs_failed": failed}
        self._end = LaunchEnd("KILLED" if stopped else "FINISHED", tuple(files), counts)

    def collect_lines(self) -> list[str]:
        """Collect the lines of all trackers that say where to look."""
        none: list[str] = []
        answers = [
            tracker.call_plugin(partial(tracker.tracker.lines, self.grid), none) for tracker in self._trackers
        ]
        return [line for lines in answers for line in lines]
