"""What a grid's driver does with the news of its runs: it tells the screen and MLflow, and counts."""

import time
from collections.abc import Callable
from typing import Protocol

from fedgrid.engine.errors import RunError
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.run_folder import RunFolder, folder_of
from fedgrid.engine.storage.lease import Lease
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.execution.run_events import Finished, News, Round, Started
from fedgrid.grids.mlflow_log.run_log import RunLog
from fedgrid.grids.results import outcome
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import Outcome
from fedgrid.grids.results.tally import Tally
from fedgrid.grids.round_cache.retention import Retention
from fedgrid.tracking.scoring.scores import RoundScores

LOOK_SECONDS = 1.0
"""How often the driver looks whether it should stop, and renews what the screen says."""
WRITE_SECONDS = 5.0
"""How often it writes how far it is, for `fedgrid status`."""
IDLE_SECONDS = 60.0
"""With nothing under way for so long, the cluster may have lost what the runs need."""


class Reporter(Protocol):
    """Shows the user what happens."""

    def start(self, config: RunConfig, rounds_done: int) -> None:
        """A run starts, or goes on."""

    def round(self, config: RunConfig, number: int, scores: RoundScores) -> None:
        """A round is done; `number` counts from 1."""

    def retry(self, config: RunConfig, cause: str, attempt: int) -> None:
        """A run failed and is tried again."""

    def finish(self, outcome: Outcome) -> None:
        """A run is finished, or is given up."""

    def stop(self, config: RunConfig) -> None:
        """A run has stopped after a round, as asked."""

    def stopping(self) -> None:
        """The grid was asked to stop after the rounds under way."""

    def tally(self, tally: Tally) -> None:
        """The counts have changed."""


class Watch:
    """Takes the news of all runs of a launch, in the order in which they come."""

    def __init__(
        self,
        *,
        folder: GridFolder,
        storage: Storage,
        tally: Tally,
        log: RunLog,
        reporter: Reporter,
        lease: Lease,
        retention: Retention | None = None,
        check_cluster: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Watch over a launch; `check_cluster` raises if what waits can never run any more.

        Without `retention` the round store is left as it is.
        """
        self.tally = tally
        self.failures: list[Outcome] = []
        self.stopping = False
        self._folder = folder
        self._storage = storage
        self._log = log
        self._reporter = reporter
        self._lease = lease
        self._retention = retention
        self._check_cluster = check_cluster
        self._now = now
        self._looked = self._busy = self._wrote = now()

    @property
    def all_stopped(self) -> bool:
        """Whether the grid was asked to stop and no run is under way any more."""
        return self.stopping and not self.tally.running

    def take(self, config: RunConfig, news: News) -> None:
        """Tell everybody what happened to a run."""
        match news:
            case Started(rounds_done):
                self.tally.start(config, rounds_done)
                self._log.start(config)
                self._reporter.start(config, rounds_done)
            case Round(number, scores, timing):
                self.tally.round(config, number, timing)
                self._log.round(config, number, scores)
                self._reporter.round(config, number, scores)
            case Finished():
                self._fetch(config)
                self.tally.finish(config)
                self._log.finish(config, "FINISHED")
                self._reporter.finish(outcome.finished(self._storage.root, config))
                if self._retention is not None:
                    self._retention.finish(config)
            case _:
                self._fetch(config)
                self.tally.leave(config)
                self._log.finish(config, "KILLED")
                self._reporter.stop(config)

    def retry(self, config: RunConfig, cause: str, attempt: int) -> None:
        """Say that a run failed and is tried again."""
        self.tally.leave(config)
        self._reporter.retry(config, cause, attempt)

    def fail(self, config: RunConfig, cause: str, attempts: int) -> None:
        """Give a run up: keep the cause in its folder and go on with the others."""
        self._fetch(config)
        self.tally.fail(config)
        given_up = outcome.failed(self._storage.root, config, cause)
        self.failures.append(given_up)
        RunFolder(self._storage, config).fail(cause, attempts)
        self._log.finish(config, "FAILED")
        self._reporter.finish(given_up)

    def ask_to_stop(self) -> None:
        """Let every run stop after its current round, and start no other."""
        self.stopping = True
        self._folder.ask_to_stop()
        self._reporter.stopping()

    def conclude(self) -> None:
        """Say how far the grid is, at the end of the launch."""
        self._folder.write_progress(self.tally.as_dict())

    def tick(self) -> None:
        """Look after the launch as a whole; to be called often.

        Raises:
            RunError: if another driver has taken over, or the cluster can no longer carry the runs.
        """
        now = self._now()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        if self._lease.lost.is_set():
            raise RunError("another fedgrid has taken over this storage, so this one ends; nothing is lost")
        self.stopping = self.stopping or self._folder.stop_asked()
        if self.tally.running:
            self._busy = now
        elif now - self._busy > IDLE_SECONDS:
            self._busy = now
            self._check_cluster()
        self._reporter.tally(self.tally)
        if now - self._wrote >= WRITE_SECONDS:
            self._wrote = now
            self._folder.write_progress(self.tally.as_dict())

    def _fetch(self, config: RunConfig) -> None:
        folder = folder_of(self._storage.root, config).name
        self._storage.pull(folder, skip=("state-",))
