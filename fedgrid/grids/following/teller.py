"""Tells a tracker what the records of runs have: in the tracker's process, or for `fedgrid sync`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from sys import maxsize

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, RunError, unknown
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.plugins.active import TRACKERS
from fedgrid.engine.runtime.plugins.plugin import PluginSource
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.following.recorded import Scores, files_of, records_at_uri, rounds_between, status_of
from fedgrid.grids.planning.options import NO_TRACKER
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow.mlflow_tracker import MlflowTracker
from fedgrid.grids.trackers.tensorboard import TensorBoardTracker
from fedgrid.grids.trackers.tracker import Status, TrackedGrid, TrackedRun, Tracker
from fedgrid.tracking.records import num_rounds


@dataclass(frozen=True)
class News:
    """A run has started, has recorded rounds, or has ended."""

    config: RunConfig
    status: Status | None = None
    """How it has ended; None: it is under way."""
    started_ms: int | None = None
    """As of `TrackedRun`."""
    drawn: bool = False
    """Whether its figure is drawn, if it is finished."""
    scores: Scores = field(default_factory=dict)
    """Of rounds, as far as they are known: to compute them imports scikit-learn, which takes a second."""

    def after(self, before: "News | None") -> "News":
        """Return these news, which take the place of others of the run that were not told."""
        return self if before is None else replace(self, scores={**before.scores, **self.scores})


@dataclass(frozen=True)
class End:
    """How a launch ended."""

    status: Status
    files: Sequence[Path] = ()
    """Of the grid."""
    counts: Mapping[str, float] = field(default_factory=dict)
    """As of `Tracker.close`."""


class Teller:
    """Makes a tracker, and tells it news. Not thread-safe; it can be pickled before its first call.

    Every method raises `TrackerFailed` if the tracker fails. The next call makes it anew.
    """

    def __init__(
        self, tracker: type[Tracker], grid: TrackedGrid, plugins: Sequence[PluginSource] = ()
    ) -> None:
        """Tell a tracker of a grid; `plugins` has the one that lists it, if any does."""
        # Not the class: that of a plugin is found in the other process once the plugin is active there.
        self._name, self._title = tracker.name, tracker.title()
        self._grid = grid
        self._plugins = plugins
        self._made: Tracker | None = None
        self._told: dict[str, int] = {}
        """Run id -> rounds told, of the runs that are open."""
        self._scores: dict[str, Scores] = {}
        """Run id -> scores of rounds that are not told yet, as far as they are known."""

    def prepare(self) -> None:
        """Import now what making the tracker would import; what is wrong with that, making it says."""
        with suppress(Exception):
            self._load().prepare()

    def make(self) -> None:
        """Make the tracker now, unless it is there."""
        with self._tracker():
            pass

    def tell(self, news: News) -> int:
        """Tell the rounds that the tracker lacks of a run, and its end; return the number of rounds."""
        run = TrackedRun.of(news.config, self._grid.storage, news.started_ms)
        # A finished run has been fetched.
        is_away = self._grid.at_uri and news.status != "FINISHED"
        away = records_at_uri(self._grid.storage, run.config) if is_away else nullcontext(run.folder)
        known = {**self._scores.get(run.config.run_id, {}), **news.scores}
        # The next rounds may be on disk already: they come with their scores in the next news.
        last = max(known) if known and news.status is None else maxsize
        with self._tracker() as tracker, away as records:
            added = self._tell_rounds(tracker, run, records, known, last)
            if news.status is not None:
                self._tell_end(tracker, run, news.status, drawn=news.drawn and news.status == "FINISHED")
        return added

    def forget(self, config: RunConfig) -> None:
        """Tell that the records of a run are deleted."""
        with self._tracker() as tracker:
            tracker.forget(TrackedRun.of(config, self._grid.storage))

    def close(self, end: End) -> None:
        """Tell that the launch has ended."""
        with self._tracker() as tracker:
            for path in end.files:
                tracker.artifact(None, path)
            tracker.close(end.status, end.counts)

    def sync(self, configs: Sequence[RunConfig], *, drawn: bool = False) -> tuple[int, int]:
        """Tell what the tracker lacks of runs that have records; return the numbers of runs and rounds.

        If figures are to be `drawn`, it is told the end of all finished runs, with theirs.
        """
        runs = [TrackedRun.of(config, self._grid.storage) for config in configs]
        ends = [status_of(run.folder) for run in runs]
        of_grid: Status = "FINISHED" if all(status == "FINISHED" for status in ends) else "KILLED"
        with self._tracker() as tracker:
            lacking = [
                News(run.config, status, drawn=drawn)
                for run, status in zip(runs, ends, strict=True)
                if (drawn and status == "FINISHED")
                or (status is not None and not tracker.has(run, status, num_rounds(run.folder)))
            ]
            if not lacking and tracker.has(None, of_grid, 0):
                return 0, 0
        rounds = sum(map(self.tell, lacking))
        self.close(End(of_grid))
        return len(lacking), rounds

    @contextmanager
    def _tracker(self) -> Iterator[Tracker]:
        """Yield the tracker. Whatever it raises is a `TrackerFailed`, and ends it."""
        try:
            if self._made is None:
                self._made = self._load()(self._grid)
            yield self._made
        except Exception as error:
            # Also a bug, of ours or of a plugin's: training must not stop for it.
            self._made = None
            self._told.clear()
            self._scores.clear()
            if isinstance(error, TrackerFailed):
                raise
            raise TrackerFailed(f"{self._title}: {error!r}") from error

    def _load(self) -> type[Tracker]:
        active.know(self._plugins)
        active.activate([plugin.digest for plugin in self._plugins])
        return find_tracker(self._name)

    def _tell_rounds(self, tracker: Tracker, run: TrackedRun, records: Path, known: Scores, last: int) -> int:
        """Tell the recorded rounds up to `last`."""
        run_id = run.config.run_id
        before = self._told[run_id] if run_id in self._told else tracker.opened(run)
        new = rounds_between(records, before, last, known)
        for number, (recorded, scores, ended_ms) in enumerate(new, before + 1):
            if number != recorded:
                raise ValueError(f"round {number} is missing before round {recorded}")
            tracker.round(run, number, scores, ended_ms)
        tracker.flush()
        self._told[run_id] = told = before + len(new)
        self._scores[run_id] = {number: scores for number, scores in known.items() if number > told}
        return len(new)

    def _tell_end(self, tracker: Tracker, run: TrackedRun, status: Status, *, drawn: bool) -> None:
        if type(tracker).artifact is not Tracker.artifact:
            with files_of(run, drawn=drawn) as files:
                for path, folder in files:
                    tracker.artifact(run, path, folder)
        if status == "FINISHED":
            tracker.finished(run)
        else:
            tracker.failed(run, status)
        del self._told[run.config.run_id], self._scores[run.config.run_id]


def sync(
    names: Sequence[str], grid: Grid, runs: Sequence[RunConfig], storage: Storage, *, drawn: bool = False
) -> Iterator[str]:
    """Tell these trackers what they lack of finished, failed and unfinished `runs`; yield a line for each.

    With the figures of finished runs, if these are to be `drawn`.

    The trackers are asked, not the marks in the folders. No other process may tell them meanwhile.

    Raises:
        ConfigError: there is no such tracker.
        RunError: if one fails; what it was told before stays.
    """
    tracked = TrackedGrid(grid.name, storage, axes=grid.varied, text=grid.text, is_launch=False)
    for tracker in map(find_tracker, names):
        tracker.check(tracked)
        try:
            num_runs, rounds = Teller(tracker, tracked).sync(runs, drawn=drawn)
        except TrackerFailed as error:
            raise RunError(f"{error}; run the same command again when it answers") from error
        yield f"{rounds} rounds of {num_runs} runs logged; {tracker.title()} has all of {grid.name}"


BUILT_IN: Mapping[str, type[Tracker]] = {
    tracker.name: tracker for tracker in (MlflowTracker, TensorBoardTracker)
}


def find_tracker(name: str) -> type[Tracker]:
    """Return a tracker of the package, or of a plugin in use, which lists it in `TRACKERS`.

    Raises:
        ConfigError: there is none, or a plugin's has a name of the package.
    """
    if name in BUILT_IN and name in TRACKERS:
        raise ConfigError(f"tracker '{name}' is both of fedgrid and of a plugin; give yours another name")
    trackers: Mapping[str, type[Tracker]] = {**BUILT_IN, **TRACKERS}
    if name not in trackers:
        raise unknown("tracker", name, [*trackers, NO_TRACKER])
    return trackers[name]
