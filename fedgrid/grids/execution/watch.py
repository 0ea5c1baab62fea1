"""Handle the events of a launch's runs in the driver: count them, store the progress, and show it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedgrid.engine.runtime.run.run_folder import RunFolder, build_folder_path
from fedgrid.grids.display.plain_console import warn
from fedgrid.grids.execution.run_events import RoundDone, RunEvent, RunFinished, RunPreparing, RunStarted
from fedgrid.grids.results.runs import failed_run, finished_run
from fedgrid.tracking.records import RecordsError
from fedgrid.tracking.scoring.scores import score_rounds

if TYPE_CHECKING:
    from fedgrid.engine.federation.configuration.run_config import RunConfig
    from fedgrid.engine.runtime.leases.lease import Lease
    from fedgrid.engine.runtime.storage.storage import Storage
    from fedgrid.grids.display.progress import JsonEvents, ProgressBars, ProgressLines
    from fedgrid.grids.display.tally import Tally
    from fedgrid.grids.results.grid_folder import GridFolder
    from fedgrid.grids.round_cache.retention import Retention
    from fedgrid.tracking.scoring.run import Run

TICK_SECONDS = 1.0
"""Seconds between two checks of whether the driver should stop, and two updates of the screen."""
WRITE_SECONDS = 5.0
"""Seconds between two writes of the progress, for `fedgrid status`."""
IDLE_SECONDS = 60.0
"""Seconds without a run in progress after which the cluster may have lost nodes that the runs need."""


@dataclass(frozen=True)
class LaunchResult:
    """How a launch has ended."""

    failures: tuple[Run, ...] = ()
    """Runs that failed after all retries; default: none."""
    tally: Tally | None = None
    """Counts of the launch; default None: nothing was left to run."""
    stopped: bool = False
    """Whether a stop was requested before all runs were finished; default False."""


@dataclass(kw_only=True)
class Watch:
    """Handles the events of all runs of a launch, in the order in which they arrive.

    An event means that something is on disk; the scores that the screen shows are read from there.
    """

    folder: GridFolder
    storage: Storage
    tally: Tally
    view: ProgressBars | ProgressLines | JsonEvents
    lease: Lease
    retention: Retention | None = None
    """Evicts cached states that no run needs any more; default None: all are kept."""
    check_cluster: Callable[[], None] = lambda: None
    """Raises an error if no waiting run fits on the cluster any more; default: does nothing."""
    now: Callable[[], float] = time.monotonic
    failures: list[Run] = field(default_factory=list, init=False)
    stopping: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """Start all clocks now."""
        self._checked_at = self._busy_at = self._wrote_at = self.now()
        self._scores: dict[str, Mapping[int, Mapping[str, Any]]] = {}
        """Run id -> round -> scores, as they were last read: rounds come in groups, and one read gets them
        all."""

    @property
    def all_stopped(self) -> bool:
        """Whether a stop was requested and no run is in progress any more."""
        return self.stopping and not self.tally.running

    def handle_event(self, config: RunConfig, event: RunEvent) -> None:
        """Count an event of a run, and show it."""
        match event:
            case RunPreparing(encoder):
                self.view.show_encoder(config, encoder)
            case RunStarted(rounds_done):
                again = self.tally.count_start(config, rounds_done)
                if again:
                    # A table or a state is damaged. The run has set it aside.
                    first, last = rounds_done + 1, rounds_done + again
                    what = (
                        f"round {first} was stored and is"
                        if again == 1
                        else f"rounds {first} to {last} were stored and are"
                    )
                    warn(f"{config.name}: {what} computed again; log.txt in its folder says why")
                self.view.show_start(config, rounds_done)
            case RoundDone(number, timing):
                self.tally.count_round(config, number, timing)
                self.view.show_round(config, number, self._read_scores(config, number))
            case RunFinished():
                self._pull_files(config)
                self.tally.count_finish(config)
                self._scores.pop(config.run_id, None)
                run = self.storage.retry_call(lambda: finished_run(config, self.storage))
                self.view.show_result(config, run)
                if self.retention is not None:
                    # After the scores are on disk: a run that is still unfinished there may need its states
                    # again.
                    self.retention.finish_run(config)
            case _:
                # Stopped: its rounds are pulled too, so that `show` and `report` have them here.
                self._pull_files(config)
                self.tally.count_stop(config)
                self.view.show_stop(config)

    def record_retry(self, config: RunConfig, cause: str, attempt: int) -> None:
        """Report that a run failed and is retried."""
        self.tally.count_stop(config)
        self.view.show_retry(config, cause, attempt)

    def record_failure(self, config: RunConfig, cause: str, attempts: int) -> None:
        """Record the cause of a run's failure in its folder; the other runs continue."""
        self._pull_files(config)
        self.tally.count_failure(config)
        run = self.storage.retry_call(lambda: failed_run(config, self.storage, cause))
        self.failures.append(run)
        self.storage.retry_call(lambda: RunFolder(self.storage, config).mark_failed(cause, attempts))
        self.view.show_result(config, run)

    def request_stop(self) -> None:
        """Stop every run after its current round, and start no other.

        Raises:
            KeyboardInterrupt: the storage, from which the runs read the request, cannot be written.
        """
        # Before the storage is written: its retries end early once the launch is stopping.
        self.stopping = True
        self.storage.retry_call(self.folder.request_stop)
        self.view.announce_stop()

    def check_launch(self) -> None:
        """Check the launch as a whole, at most once a second; called after every event and by Tune's loop.

        Raises:
            RunError: if another driver has taken over, no run fits on the cluster any more, or the storage
                cannot be reached for minutes.
        """
        now = self.now()
        if now - self._checked_at < TICK_SECONDS:
            return
        self._checked_at = now
        self.lease.check_ownership()
        # `fedgrid stop` in another process requests a stop through the storage.
        self.stopping = self.stopping or self.storage.retry_call(self.folder.is_stop_requested)
        if self.tally.running:
            self._busy_at = now
        elif now - self._busy_at > IDLE_SECONDS:
            self._busy_at = now
            self.check_cluster()
        self.view.show_tally(self.tally)
        if now - self._wrote_at >= WRITE_SECONDS:
            self._wrote_at = now
            self.write_progress()

    def write_progress(self) -> None:
        """Write the grid's progress, for `fedgrid status`."""
        self.storage.retry_call(lambda: self.folder.write_progress(self.tally.as_dict()))

    def _read_scores(self, config: RunConfig, number: int) -> Mapping[str, Any]:
        """Read the scores of a round for the screen.

        Empty if the view shows none, or if the round cannot be read here yet: on a storage behind a URI the
        records are pulled when the run ends.
        """
        if not self.view.shows_rounds:
            return {}
        if number not in self._scores.get(config.run_id, {}):
            with suppress(RecordsError):
                read = score_rounds(build_folder_path(self.storage.root, config), number - 1)
                self._scores[config.run_id] = dict(read)
        return self._scores.get(config.run_id, {}).get(number, {})

    def _pull_files(self, config: RunConfig) -> None:
        """Pull a run's files, except its large states, from a storage behind a URI."""
        folder = build_folder_path(self.storage.root, config).name
        self.storage.pull(folder, skip=("state-",))
