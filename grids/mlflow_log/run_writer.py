"""Writes a grid's runs to MLflow, one after another; rounds that it lacks are read from their folders."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fedgrid.engine.format import DamagedFile, seal, unseal
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.run_folder import folder_of
from fedgrid.engine.storage.atomic import write_text
from fedgrid.engine.storage.storage_id import id_of
from fedgrid.grids.mlflow_log.tags import metrics, note, origin, tags
from fedgrid.grids.results.axes import name_of
from fedgrid.grids.results.times import times_of
from fedgrid.redaction import redacted
from fedgrid.tracking.mlflow.runs import Experiment, LoggedRun, Status
from fedgrid.tracking.mlflow.store import database_file, one_line
from fedgrid.tracking.records import RecordsError
from fedgrid.tracking.scoring.scores import RoundScores, of_rounds

ARTIFACTS = ("config.json", "rounds.parquet", "clients.parquet", "timings.parquet", "log.txt")
MARK = "mlflow.json"
"""A file in the folder of a finished run: MLflow has the run, as finished."""
PARENT = "grid"
"""Takes the place of a run id for the grid's own MLflow run."""


def is_logged(uri: str, folder: Path, rounds: int) -> bool:
    """Return whether the store has a whole run of so many rounds, according to the run's folder.

    Raises:
        NewerFormat: a newer fedgrid wrote it.
    """
    try:
        mark = unseal(folder / MARK)
    except (FileNotFoundError, DamagedFile):
        return False
    same = (mark.get("uri"), mark.get("rounds")) == (redacted(uri), rounds)
    file = database_file(uri)
    return same and (file is None or file.exists())


class Writer:
    """Writes to a grid's MLflow experiment. Not thread-safe.

    If the store fails, every method raises `TrackingError`, in one line. Then call `disconnect`, and repeat
    the write later.
    """

    def __init__(
        self, uri: str, grid_name: str, storage: Path, artifacts: Path, axes: Sequence[str] = ()
    ) -> None:
        """Write to the store `uri`; artifacts of a store that is no server go to `artifacts`.

        `axes` are the grid's further axes: they are tags of a run, and stand in its name.
        """
        self._uri = uri
        self._grid_name = grid_name
        self._axes = axes
        self._storage = storage
        self._artifacts = artifacts
        self._experiment: Experiment | None = None
        self._parent: LoggedRun | None = None
        self._doubtful: dict[str, int] = {}

    def connect(self, text: str = "") -> None:
        """Find or create the store, the experiment and the grid's own run, with its preset's `text`."""
        self._connected()
        if self._parent is None:
            given = {"grid": self._grid_name, "mlflow.note.content": note(), **origin()}
            self._parent = self._connected().start(PARENT, self._grid_name, given, {})
            if text:
                self._connected().log_text(self._parent, text, "preset.yaml")

    def disconnect(self) -> None:
        """Forget what the store has; the next write asks it again."""
        self._experiment = self._parent = None

    def write(
        self, config: RunConfig, rounds: Sequence[tuple[int, RoundScores]], status: Status | None
    ) -> int:
        """Log what the store lacks of a run, and end it if there is a status; return the new rounds' number.

        If `rounds` are the next ones for the store, the run's folder is not read.
        """
        experiment = self._connected()
        entry, is_new = self._start(config)
        new = [(number, scores) for number, scores in rounds if number > entry.rounds]
        end = entry.rounds + len(new)
        in_order = [number for number, _ in new] == list(range(entry.rounds + 1, end + 1))
        ends_early = status is not None and end < config.training.rounds
        folder = folder_of(self._storage, config)
        if not in_order or ends_early or (is_new and not new):
            new = _recorded(folder, entry.rounds)
        # A batch that seemed to fail may still arrive. With the same time stamp the store takes it only once.
        millis = self._doubtful.setdefault(config.run_id, int(time.time() * 1000))
        added = experiment.log_rounds(entry, [(number, metrics(scores)) for number, scores in new], millis)
        del self._doubtful[config.run_id]
        if status is not None:
            self._finish(entry, folder, status)
        return added

    def has(self, config: RunConfig, status: Status, rounds: int) -> bool:
        """Return whether the store has a run with this status and so many rounds."""
        entry = self._connected().entries.get(config.run_id)
        return entry is not None and (entry.status, entry.rounds) == (status, rounds)

    def write_summary(self, files: Sequence[Path], done: int, failed: int) -> None:
        """Log files and the numbers of runs to the grid's own MLflow run."""
        self.connect()
        assert self._parent is not None
        self._connected().log_artifacts(self._parent, files)
        self._connected().log_totals(self._parent, {"runs_done": done, "runs_failed": failed})

    def write_report(self, folder: Path) -> bool:
        """Log a folder to the grid's own run, as `report`; return whether the store has that run."""
        experiment = self._connected()
        parent = experiment.entries.get(PARENT)
        if parent is not None:
            experiment.log_folder(parent, folder, "report")
        return parent is not None

    def write_explanations(
        self, config: RunConfig, scores: Mapping[str, float], files: Sequence[Path], folder: str
    ) -> bool:
        """Log scores and files to a run, the files in `folder`; return whether the store has the run."""
        entry = self._connected().entries.get(config.run_id)
        if entry is not None:
            self._connected().log_totals(entry, scores)
            self._connected().log_artifacts(entry, files, folder)
        return entry is not None

    def write_search(
        self,
        files: Sequence[Path],
        figures: Path,
        found: Mapping[str, str],
        scores: Mapping[str, float],
        trials: Mapping[str, int],
    ) -> bool:
        """Log the result of a search; return whether the store has the search's own run.

        Args:
            files, figures: artifacts for the search's own run.
            found: tags for it, the best settings.
            scores: metrics for it, the best scores.
            trials: run id -> number of its trial, a tag for that run.
        """
        experiment = self._connected()
        parent = experiment.entries.get(PARENT)
        if parent is None:
            return False
        experiment.log_artifacts(parent, files)
        experiment.log_folder(parent, figures, "figures")
        experiment.set_tags(parent, found)
        experiment.log_totals(parent, scores)
        for run_id, number in trials.items():
            if run_id in experiment.entries:
                experiment.set_tags(experiment.entries[run_id], {"trial": str(number)})
        return True

    def forget(self, config: RunConfig) -> None:
        """Delete a run from the store, if it has it."""
        (folder_of(self._storage, config) / MARK).unlink(missing_ok=True)
        self._connected().forget(config.run_id)

    def close(self, status: Status) -> None:
        """End the grid's own run."""
        if self._parent is not None:
            self._connected().finish(self._parent, status)

    def _connected(self) -> Experiment:
        if self._experiment is None:
            key = id_of(self._storage)
            self._experiment = Experiment.open(self._uri, self._grid_name, self._artifacts, key)
        return self._experiment

    def _start(self, config: RunConfig) -> tuple[LoggedRun, bool]:
        """Return the run's entry, and whether this call has set it to running."""
        experiment = self._connected()
        entry = experiment.entries.get(config.run_id)
        if entry is not None and entry.opened:
            return entry, False
        self.connect()
        assert self._parent is not None
        given = {
            **tags(config, self._grid_name, self._axes),
            "mlflow.parentRunId": self._parent.mlflow_run_id,
        }
        name = name_of(config, self._axes)
        return experiment.start(config.run_id, name, given, config.model_dump(mode="json")), True

    def _finish(self, entry: LoggedRun, folder: Path, status: Status) -> None:
        experiment = self._connected()
        experiment.log_artifacts(entry, [folder / name for name in ARTIFACTS if (folder / name).exists()])
        experiment.log_artifacts(entry, sorted((folder / "figures").glob("*")), "figures")
        experiment.log_totals(entry, _totals(folder))
        experiment.finish(entry, status)
        if status != "FINISHED":
            (folder / MARK).unlink(missing_ok=True)
            return
        mark = {"uri": redacted(self._uri), "mlflow_run_id": entry.mlflow_run_id, "rounds": entry.rounds}
        if folder.is_dir():
            with one_line(self._uri):
                write_text(folder / MARK, seal(mark))


def _recorded(folder: Path, after: int) -> list[tuple[int, RoundScores]]:
    # No record yet, or half a round: the run's next update has it.
    with suppress(RecordsError):
        return list(of_rounds(folder, skip=set(range(1, after + 1))))
    return []


def _totals(folder: Path) -> dict[str, float]:
    """Return the totals of a run over all sessions, named as in `TOTALS`; empty before its first round."""
    try:
        times = times_of(folder)
    except DamagedFile:
        # Its run is not finished: the next launch repeats it, and logs its totals.
        return {}
    if not times.rounds:
        return {}
    totals = {
        "seconds": times.seconds,
        "alone_seconds": times.alone_seconds,
        "rounds_computed": times.rounds_computed,
        "peak_memory_mb": times.peak_memory_mb,
    }
    return {name: value for name, value in totals.items() if value is not None}
