"""Logs a running grid to MLflow, which follows the records of its runs: one thread writes what MLflow lacks.

It is told which runs have news, and reads their records. If the store fails, there is a warning and training
goes on; what MLflow lacks is logged when the store is back, or by `fedgrid sync`.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.hints import command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.mlflow_log.mark import is_logged
from fedgrid.grids.mlflow_log.own_process import ProcessWriter
from fedgrid.grids.mlflow_log.run_writer import Writer
from fedgrid.tracking.mlflow.runs import Status
from fedgrid.tracking.mlflow.store import TrackingError, artifact_root, tracking_uri

Records: TypeAlias = Callable[[RunConfig], AbstractContextManager[Path | None]]
"""Gives the folder with a run's records; None: its own."""


@dataclass(frozen=True)
class Pauses:
    """Seconds."""

    gather: float = 2.0
    """From the first update to writing, so that fast rounds share a batch."""
    retry: float = 15.0
    """Between attempts after a failure of the store."""
    warn: float = 60.0
    """Between warnings."""
    flush: float = 30.0
    """How long the end waits for a store that accepts nothing."""


@dataclass(slots=True)
class _Update:
    config: RunConfig
    status: Status | None = None
    started: int | None = None
    """Unix time in milliseconds."""


class RunLog:
    """Logs the runs of a grid, many at once; `start`, `round`, `finish` and `summary` never wait.

    Within its context one thread writes. At the end the queue is written; what could not be written is
    counted in a warning.
    """

    def __init__(
        self,
        grid_name: str,
        storage: Storage,
        warn: Callable[[str], None],
        *,
        axes: Sequence[str] = (),
        searched: Sequence[str] = (),
        pauses: Pauses = Pauses(),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Log to MLFLOW_TRACKING_URI, else to a file in `storage`; `warn` is called from any thread.

        `axes` and `searched` are as in `Writer`.

        Raises:
            ConfigError: if MLFLOW_TRACKING_URI is malformed.
        """
        try:
            self.uri = tracking_uri(storage.root)
        except TrackingError as error:
            raise ConfigError(str(error)) from error
        self.writer = Writer(self.uri, grid_name, storage.root, artifact_root(storage.root), axes, searched)
        self._at_work: Writer | ProcessWriter = self.writer
        self._sync = command(storage, "sync", grid_name)
        self._storage = storage.root
        self._warn = warn
        self._records: Records = lambda config: nullcontext()
        self._pauses = pauses
        self._now = now
        self._warned: float | None = None
        self.text = ""
        """The preset's, for the grid's own run; to be set before the thread starts."""
        self._thread = threading.Thread(target=self._work, name="mlflow", daemon=True)
        self._changed = threading.Condition()
        self._waiting: dict[str, _Update] = {}
        self._taken: dict[str, _Update] = {}
        self._summary: tuple[Sequence[Path], int, int] | None = None
        self._under_way: dict[str, RunConfig] = {}
        self._end: Status | None = None
        self._stopped = False
        self._is_down = False
        self._written = 0

    def follow(self, records: Records, every: float) -> None:
        """Take the records of runs under way from elsewhere, once in `every` seconds at most."""
        self._records = records
        self._pauses = replace(self._pauses, gather=every)

    @contextmanager
    def own_process(self) -> Iterator[None]:
        """Write in a process of its own within the block, unless this one has imported MLflow already.

        After the block nothing is written: a thread that the store kept waiting must not go on here.
        """
        if "mlflow" in sys.modules:
            yield
            return
        self._at_work = process = ProcessWriter(self.writer)
        try:
            yield
        finally:
            process.stop()

    def prepare(self, text: str) -> None:
        """Do now what the thread would begin with: make the grid's own run, with the preset's `text`."""
        self.text = text
        try:
            self._at_work.connect(text)
        except TrackingError as error:
            self._fail(error)

    def is_logged(self, config: RunConfig) -> bool:
        """Return whether the store has all rounds of a run, by the mark in its folder."""
        return is_logged(self.uri, folder_of(self._storage, config), config.training.rounds)

    def forget(self, configs: Sequence[RunConfig]) -> None:
        """Delete runs from the store, if it has them. To be called before the thread starts."""
        try:
            for config in configs:
                self._at_work.forget(config)
        except TrackingError as error:
            self._fail(error)

    def start(self, config: RunConfig) -> None:
        """A run starts, or resumes."""
        with self._changed:
            self._under_way[config.run_id] = config
            update = self._update(config)
            update.status, update.started = None, int(time.time() * 1000)

    def round(self, config: RunConfig) -> None:
        """A run has done another round."""
        with self._changed:
            self._update(config)

    def finish(self, config: RunConfig, status: Status) -> None:
        """A run has ended: records and figures are uploaded, and its folder is marked as logged."""
        with self._changed:
            self._under_way.pop(config.run_id, None)
            self._update(config).status = status

    def summary(
        self,
        files: Sequence[Path],
        done: int,
        failed: int,
        *,
        stopped: bool = False,
    ) -> None:
        """Log files, the numbers of finished and failed runs to the grid's own MLflow run.

        That run ends as KILLED if the grid was `stopped` before its runs were finished.
        """
        with self._changed:
            self._stopped = stopped
            self._summary = (files, done, failed)
            self._changed.notify()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            for config in self._under_way.values():
                self._update(config).status = "KILLED"
            self._end = "KILLED" if kind or self._stopped else "FINISHED"
            self._changed.notify()
        written = -1
        while self._thread.is_alive() and written != self._written:
            written = self._written
            self._thread.join(self._pauses.flush)
        lacking = len(self._waiting.keys() | self._taken.keys())
        if lacking:
            self._warn(
                f"{lacking} {'run is' if lacking == 1 else 'runs are'} not, or not completely, in MLflow; "
                f"`{self._sync}` logs what is missing"
            )

    def _update(self, config: RunConfig) -> _Update:
        self._changed.notify()
        return self._waiting.setdefault(config.run_id, _Update(config))

    def _work(self) -> None:
        # Before the first news: the import of MLflow takes seconds, in which Ray starts.
        self._write()
        while True:
            end = self._rest()
            self._write()
            if end is not None:
                return

    def _rest(self) -> Status | None:
        """Wait for updates, and then for more of them, or for the next retry. The end does not wait."""
        with self._changed:
            if self._is_down:
                self._changed.wait_for(lambda: self._end, self._pauses.retry)
            else:
                self._changed.wait_for(lambda: self._end or self._waiting or self._summary)
                self._changed.wait_for(lambda: self._end, self._pauses.gather)
            return self._end

    def _write(self) -> None:
        with self._changed:
            self._taken, self._waiting = self._waiting, {}
            summary, end = self._summary, self._end
            self._is_down = False
        try:
            self._at_work.connect(self.text)
            while self._taken:
                self._write_first()
            if summary is not None:
                self._at_work.write_summary(*summary)
                with self._changed:
                    self._summary = None if self._summary is summary else self._summary
            if end is not None:
                self._at_work.close(end)
        except Exception as error:
            # The store failed, or this is a bug of ours or of MLflow's: training must not stop for it.
            self._fail(error)

    def _write_first(self) -> None:
        """Write a run. If it fails, the next ones are tried, unless the store cannot be reached."""
        update = next(iter(self._taken.values()))
        try:
            # A finished run has been fetched.
            is_here = update.status == "FINISHED"
            with nullcontext() if is_here else self._records(update.config) as records:
                self._at_work.write(update.config, update.status, update.started, records)
        except Exception as error:
            self._fail(error, update)
            self._at_work.connect(self.text)
        else:
            del self._taken[update.config.run_id]
            self._written += 1

    def _fail(self, error: Exception, *failed: _Update) -> None:
        """Queue runs again (all taken ones, if none is given)."""
        self._at_work.disconnect()
        with self._changed:
            self._is_down = True
            for old in failed or list(self._taken.values()):
                self._taken.pop(old.config.run_id)
                self._waiting.setdefault(old.config.run_id, old)
        if self._warned is None or self._now() - self._warned >= self._pauses.warn:
            self._warned = self._now()
            cause = str(error) if isinstance(error, TrackingError) else f"MLflow: {error!r}"
            self._warn(f"{cause}; training goes on, and what MLflow has missed is logged when it is back")
