"""A session with one tracker: makes it, and sends it what the folders of runs have and it lacks."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.run.run_folder import build_folder_path, find_last_round
from fedgrid.grids.following.run_folder_contents import (
    open_artifacts,
    pull_records,
    read_rounds_after,
    read_start_ms,
    read_status,
)
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.tracker import Status, TrackedGrid, TrackedRun, Tracker
from fedgrid.tracking.records import count_rounds


@dataclass(frozen=True)
class LaunchEnd:
    """How a launch has ended."""

    status: Status
    """FINISHED, or KILLED if the launch may go on."""
    files: Sequence[Path] = ()
    """Files of the grid, for the tracker; none by default."""
    counts: Mapping[str, float] = field(default_factory=dict)
    """Numbers for `Tracker.close`; none by default."""


class TrackerSession:
    """Sends the tracker of a grid what the folders of its runs have. Not thread-safe.

    Every method raises `TrackerFailed` if the tracker fails. The next call makes a new instance, because a
    tracker that has failed may be in any state; the new one says what it has.
    """

    def __init__(self, tracker: type[Tracker], grid: TrackedGrid) -> None:
        self._tracker_class, self._grid = tracker, grid
        self._instance: Tracker | None = None
        self.open_runs: dict[str, int | None] = {}
        """Run id -> number of rounds that the tracker has, of the runs that it has as under way.

        After a failure the number is None until the new tracker has reported it.
        """

    def start_tracker(self) -> None:
        """Make the tracker, unless there is one."""
        with self._use_tracker():
            pass

    def update_run(
        self,
        config: RunConfig,
        status: Status | None = None,
        *,
        is_away: bool = False,
        with_figure: bool = False,
    ) -> int | None:
        """Send the tracker the rounds of a run that it lacks, and the run's end.

        Args:
            config: The run's configuration.
            status: How the run has ended; None (the default) for what its folder says, or else it is under
                way.
            is_away: Whether its records are read at the storage's URI; False by default.
            with_figure: Whether its figure is drawn, if it is finished; False by default.

        Returns:
            The number of rounds that were sent; None if records of a finished run cannot be seen here yet, as
            for seconds on a shared disk.
        """
        storage = self._grid.storage
        folder = build_folder_path(storage.root, config)
        run = TrackedRun(config, folder, read_start_ms(folder))
        # Read before the rounds: a run that ends in between ends in the next poll, never without its last
        # rounds.
        status = status or read_status(folder)
        away = pull_records(storage, config) if is_away else nullcontext(folder)
        with self._use_tracker() as tracker, away as records:
            before, added = self._add_rounds(tracker, run, records)
            # On a shared disk the manifest may show before the records. The end must wait for the last round,
            # or the tracker would have a finished run that lacks rounds for ever.
            if status == "FINISHED" and before + added < find_last_round(records, config):
                return None
            if status is not None:
                self._end_run(tracker, run, status, with_figure=with_figure and status == "FINISHED")
        return added

    def has_run(self, config: RunConfig) -> bool:
        """Check whether the tracker has all of a run that has ended, with its status."""
        run = TrackedRun.from_config(config, self._grid.storage)
        with self._use_tracker() as tracker:
            return tracker.has(run, read_status(run.folder) or "KILLED", count_rounds(run.folder))

    def forget_run(self, config: RunConfig) -> None:
        """Delete a run in the tracker, as its records are deleted."""
        with self._use_tracker() as tracker:
            tracker.forget(TrackedRun.from_config(config, self._grid.storage))

    def close_grid(self, end: LaunchEnd) -> None:
        """Send the files of the grid, and how the launch has ended."""
        with self._use_tracker() as tracker:
            for path in end.files:
                tracker.artifact(None, path)
            tracker.close(end.status, end.counts)

    def sync_runs(self, configs: Sequence[RunConfig], *, with_figures: bool = False) -> tuple[int, int]:
        """Send the tracker what it lacks of runs that have records.

        Args:
            configs: The runs' configurations.
            with_figures: Whether all finished runs are ended again, with their figures; False by default.

        Returns:
            The numbers of runs and of rounds that were sent.
        """
        folders = [build_folder_path(self._grid.storage.root, config) for config in configs]
        ends = [read_status(folder) for folder in folders]
        grid_status: Status = "FINISHED" if all(end == "FINISHED" for end in ends) else "KILLED"
        lacking: list[tuple[RunConfig, Status]] = [
            (config, end or "KILLED")
            for config, folder, end in zip(configs, folders, ends, strict=True)
            if (end or (folder / "rounds.parquet").exists())
            and ((with_figures and end == "FINISHED") or not self.has_run(config))
        ]
        # An unchanged grid costs no more than these reads: opening the grid's own run would write to the
        # store.
        with self._use_tracker() as tracker:
            if not lacking and tracker.has(None, grid_status, 0):
                return 0, 0
        # The grid ends after its runs, so that one that is "FINISHED" in the tracker has all of them.
        rounds = sum(self.update_run(config, end, with_figure=with_figures) or 0 for config, end in lacking)
        self.close_grid(LaunchEnd(grid_status))
        return len(lacking), rounds

    @contextmanager
    def _use_tracker(self) -> Iterator[Tracker]:
        """Yield the tracker, and convert what it raises to a `TrackerFailed`, after which it is dropped."""
        try:
            if self._instance is None:
                self._instance = self._tracker_class(self._grid)
            yield self._instance
        except Exception as error:
            # Also a bug, of ours or of a plugin's: training must not stop for it.
            self._instance = None
            self.open_runs = dict.fromkeys(self.open_runs)
            if isinstance(error, TrackerFailed):
                raise
            raise TrackerFailed(f"{self._tracker_class.title()}: {error!r}") from error

    def _add_rounds(self, tracker: Tracker, run: TrackedRun, records: Path) -> tuple[int, int]:
        """Send the rounds of a run that the tracker lacks; return how many it had, and how many were new."""
        before = self.open_runs.get(run.config.run_id)
        if before is None:
            before = tracker.opened(run)
        new = read_rounds_after(records, before)
        for number, (recorded, scores, ended_ms) in enumerate(new, before + 1):
            if number != recorded:
                raise ValueError(f"round {number} is missing before round {recorded}")
            tracker.round(run, number, scores, ended_ms)
        tracker.flush()
        # Only after `flush`: if that fails, the rounds count as not sent, and the new tracker says what it
        # has.
        self.open_runs[run.config.run_id] = before + len(new)
        return before, len(new)

    def _end_run(self, tracker: Tracker, run: TrackedRun, status: Status, *, with_figure: bool) -> None:
        """Send the tracker a run's artifacts, and then its end."""
        # Joining records and drawing take longer than all else; a tracker without the hook does not need
        # them.
        if type(tracker).artifact is not Tracker.artifact:
            with open_artifacts(run, drawn=with_figure) as files:
                for path, folder in files:
                    tracker.artifact(run, path, folder)
        if status == "FINISHED":
            tracker.finished(run)
        else:
            tracker.failed(run, status)
        del self.open_runs[run.config.run_id]
