"""Follows the runs of a launch for one tracker: polls their folders until the launch ends.

What lies on disk is the only message: a run's folder, which its server writes, and the grid's folder, which
lists the runs and those under way. If the tracker fails, there is one warning and training goes on; the
tracker gets what it has missed once it works again, or by `fedgrid sync`.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeAlias

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.runtime.run.run_folder import LOG, build_folder_path
from fedgrid.engine.runtime.storage.format import DamagedFile, UnreadableFile, unseal_file
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.following.registry import find_tracker
from fedgrid.grids.following.run_folder_contents import read_status
from fedgrid.grids.following.session import LaunchEnd, TrackerSession
from fedgrid.grids.results.grid_folder import PROGRESS, RUNS, GridFolder
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.tracker import Status, TrackedGrid

Stamp: TypeAlias = tuple[int, int]
"""Times in nanoseconds at which a run's folder and its log were changed last, 0 for what is not there."""
STAMP_SAFE_AGE_NS = 1_000_000_000
"""Age in nanoseconds from which a stamp is sure to differ after a later change: file systems' clocks tick
slowly."""
SendMessage: TypeAlias = Callable[[str, str], None]
"""Takes the kind of a message to the driver and its text. Kinds are `sign` (of life), `warning`, and
`lacking` (what the tracker lacks at the end)."""


@dataclass(frozen=True)
class FollowedLaunch:
    """What a tracker's process is to follow.

    Its fields are sent to that process as JSON (`as_json`), so that their names are those of the message.
    """

    tracker: str
    """Name of the tracker."""
    grid: TrackedGrid
    before: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Run id -> stamp of its folder before the launch, for runs that the tracker need not get as they were.
    """
    forgotten: Sequence[str] = ()
    """Configurations, as JSON, of runs whose records were deleted."""
    poll: float = 2.0
    """Seconds between polls of the folders, so that fast rounds share a batch."""
    retry: float = 15.0
    """Seconds between attempts after the tracker has failed."""

    def as_json(self) -> dict[str, Any]:
        """Convert the launch to plain values, with the address of the storage."""
        storage = self.grid.storage
        grid = {**vars(self.grid), "storage": storage.uri or str(storage.root)}
        return {**vars(self), "grid": grid}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Build a launch from the values of `as_json`."""
        grid = values["grid"]
        tracked = TrackedGrid(**{**grid, "storage": Storage.from_text(grid["storage"])})
        return cls(**{**values, "grid": tracked})


class Follower:
    """Follows one launch for one tracker, in the tracker's process or in a thread of the driver."""

    def __init__(
        self,
        launch: FollowedLaunch,
        say: SendMessage,
        activate: Callable[[RunConfig], None] = lambda config: None,
    ) -> None:
        """Prepare to follow a launch.

        Args:
            launch: What is followed.
            say: Takes messages to the driver.
            activate: Puts the plugins of a run into use before its records are read; by default they are in
                use.
        """
        tracker, self._storage = find_tracker(launch.tracker), launch.grid.storage
        self._launch, self._say, self._activate = launch, say, activate
        self._session = TrackerSession(tracker, launch.grid)
        self._title = tracker.title()
        self._forgotten = [RunConfig.model_validate_json(text) for text in launch.forgotten]
        self._folder = GridFolder(self._storage, launch.grid.name)
        self._runs: Sequence[RunConfig] = ()
        self._runs_at = self._progress_at = 0
        """Times in nanoseconds at which the files of `_runs` and `_running` were changed last."""
        self._sent_stamps = {run_id: tuple(stamp) for run_id, stamp in launch.before.items()}
        """Run id -> stamp of its folder when the tracker got what was there."""
        self._finished: set[str] = set()
        """Ids of the runs that the tracker has as finished."""
        self._running: set[str] = set()
        """Ids of the runs under way, as the driver lists them in the grid's folder."""
        self._waiting: set[str] = set()
        """Ids of the runs of which the tracker has not got all that the last poll found."""
        self._left_running: set[str] = set()
        """Ids of the session's open runs that were in `_running`, and are not any more."""
        self._is_warned = False

    def follow_launch(self, wait: Callable[[float], LaunchEnd | None]) -> None:
        """Follow until the launch has ended.

        Args:
            wait: Waits this number of seconds for the end of the launch, and returns it, or None.
        """
        end: LaunchEnd | None = None
        while True:
            # The end is passed to one more poll: rounds that were stored since the one before are sent with
            # it.
            is_complete = self._poll_runs(end)
            if end is not None:
                break
            end = wait(self._launch.poll if is_complete else self._launch.retry)
        if self._waiting:
            number = len(self._waiting)
            self._say("lacking", f"{number} {'run is' if number == 1 else 'runs are'}")
        elif not is_complete:
            self._say("lacking", "the grid's end is")

    def _poll_runs(self, end: LaunchEnd | None) -> bool:
        """Send the tracker all that is new; return whether it has not failed."""
        self._read_grid()
        is_complete, changed_runs = True, [config for config in self._runs if self._has_changed(config, end)]
        self._waiting = {config.run_id for config in changed_runs}
        try:
            self._session.start_tracker()
            # Deleted runs come first, so that a run that starts over is a new one. Each leaves the list when
            # that is done: after a failure the rest is tried again.
            while self._forgotten:
                self._session.forget_run(self._forgotten[0])
                del self._forgotten[0]
            # A sign of life after each run: the driver gives up on a tracker that is silent, not on a slow
            # one.
            for config in changed_runs:
                is_complete = self._update_run(config, end) and is_complete
                self._say("sign", "")
            if end is not None:
                self._session.close_grid(end)
        except TrackerFailed as error:
            self._warn_once(error)
            return False
        self._is_warned = self._is_warned and not is_complete
        return is_complete

    def _update_run(self, config: RunConfig, end: LaunchEnd | None) -> bool:
        """Send the tracker what is new of a run; return whether it has not failed with that.

        Raises:
            TrackerFailed: The tracker cannot even be made again.
        """
        # The stamp is taken before the folder is read. A change in between gives another stamp, and so
        # another poll; taken afterwards, it would hide the change.
        run_id, stamp, folder = (
            config.run_id,
            self._read_stamp(config),
            build_folder_path(self._storage.root, config),
        )
        default_status: Status | None = "KILLED" if end is not None or run_id in self._left_running else None
        status = read_status(folder) or default_status
        try:
            self._activate(config)
            if status is None or run_id in self._session.open_runs or not self._session.has_run(config):
                rounds = self._session.update_run(config, status, is_away=self._is_away(config))
                if rounds is None:
                    return True
        # One run's records that cannot be read must not keep the others from the tracker. If the tracker
        # itself has failed, making it again shows whether it works.
        except FedgridError as error:
            self._warn_once(error)
            self._session.start_tracker()
            return False
        self._waiting.discard(run_id)
        if run_id in self._session.open_runs:
            # A change within one tick of the clock has the same stamp, so a young stamp is not remembered.
            if max(stamp) < time.time_ns() - STAMP_SAFE_AGE_NS:
                self._sent_stamps[run_id] = stamp
        else:
            self._sent_stamps[run_id] = self._read_stamp(config)  # The tracker has left its mark there.
            if (status or read_status(folder)) == "FINISHED":
                self._finished.add(run_id)
        return True

    def _has_changed(self, config: RunConfig, end: LaunchEnd | None) -> bool:
        """Check whether a run's folder has changed since the tracker got it, or the run's end is due."""
        run_id = config.run_id
        if run_id in self._finished:
            return False
        is_open = run_id in self._session.open_runs and (end is not None or run_id in self._left_running)
        return (
            is_open
            or self._is_away(config)
            or self._read_stamp(config) != self._sent_stamps.get(run_id, (0, 0))
        )

    def _is_away(self, config: RunConfig) -> bool:
        """Check whether a run's records are at the URI, and not in its mirror yet."""
        return self._launch.grid.at_uri and config.run_id in self._running

    def _read_stamp(self, config: RunConfig) -> Stamp:
        """Read the stamp of a run's folder."""
        return read_stamp(build_folder_path(self._storage.root, config))

    def _read_grid(self) -> None:
        """Read which runs there are and which are under way, if these files have changed."""
        runs, progress = self._folder.path / RUNS, self._folder.path / PROGRESS
        if self._runs_at != (at := _changed_at(runs)):
            with suppress(FedgridError):
                self._runs, self._runs_at = self._folder.read_runs(), at
        if self._progress_at != (at := _changed_at(progress)):
            with suppress(FileNotFoundError, DamagedFile, UnreadableFile):
                before, self._progress_at = self._running, at
                self._running = {run["run_id"] for run in unseal_file(progress).get("running", ())}
                # A run that is no longer under way and has no end of its own was interrupted: the tracker
                # gets it as KILLED.
                self._left_running = (
                    self._left_running | before
                ) & self._session.open_runs.keys() - self._running

    def _warn_once(self, error: FedgridError) -> None:
        """Warn once for each outage of the tracker."""
        if not self._is_warned:
            self._is_warned = True
            missed = f"what {self._title} has missed is logged when it is back"
            self._say("warning", f"{error}; training goes on, and {missed}")


def read_stamp(folder: Path) -> Stamp:
    """Read the stamp of a run's folder.

    The time of the folder shows all changes but those of the log, as every other file is replaced whole.
    """
    return _changed_at(folder), _changed_at(folder / LOG)


def _changed_at(path: Path) -> int:
    """Read the time of a file's last change in nanoseconds, 0 if there is no file."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return os.stat(path).st_mtime_ns
    return 0
