"""Writes a grid's runs to MLflow, one after the other: what it lacks of them is read from their folders."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.run_folder import folder_of
from fedgrid.engine.storage.atomic import write_text
from fedgrid.grids.mlflow_log.tags import metrics, note, origin, tags
from fedgrid.grids.results.times import times_of
from fedgrid.tracking.mlflow.runs import Entry, Experiment, Status
from fedgrid.tracking.mlflow.store import database_file, one_line, shown
from fedgrid.tracking.records import RecordsError
from fedgrid.tracking.scoring.scores import RoundScores, of_rounds

ARTIFACTS = ("config.json", "rounds.parquet", "clients.parquet", "timings.parquet", "log.txt")
MARK = "mlflow.json"
"""Lies in the folder of a finished run and says that MLflow has it as such."""
PARENT = "grid"
"""Stands for the run id of the grid's own MLflow run."""


def is_logged(uri: str, folder: Path, rounds: int) -> bool:
    """Return whether the store has a run of so many rounds, whole, by what its folder says."""
    try:
        mark = json.loads((folder / MARK).read_text())
        same = (mark["uri"], mark["rounds"]) == (shown(uri), rounds)
    except (OSError, ValueError, TypeError, KeyError):
        return False
    file = database_file(uri)
    return same and (file is None or file.exists())


class Writer:
    """Keeps the entries of a grid's experiment, and nothing else of a run; not for several threads at once.

    Every method raises `TrackingError`, in one line, if the store fails; `disconnect` then, and write the
    same again later.
    """

    def __init__(self, uri: str, grid_name: str, storage: Path, artifacts: Path) -> None:
        """Write to the store `uri`; artifacts of a store that is no server go to `artifacts`."""
        self._uri = uri
        self._grid_name = grid_name
        self._storage = storage
        self._artifacts = artifacts
        self._experiment: Experiment | None = None
        self._parent: Entry | None = None
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
        """Forget what the store has; it is asked again."""
        self._experiment = self._parent = None

    def write(
        self, config: RunConfig, rounds: Sequence[tuple[int, RoundScores]], status: Status | None
    ) -> int:
        """Log what the store lacks of a run, end the run if there is a status, and return how many rounds.

        `rounds` saves reading the run's folder, if they are the next ones.
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
        # A batch that seemed to fail may arrive yet: with the same time, the store takes it once.
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
        """Put files and the numbers of runs on the grid's own run."""
        self.connect()
        assert self._parent is not None
        self._connected().log_artifacts(self._parent, files)
        self._connected().log_totals(self._parent, {"runs_done": done, "runs_failed": failed})

    def write_report(self, folder: Path) -> bool:
        """Put a folder on the grid's own run, as `report`; return whether the store has that run."""
        experiment = self._connected()
        parent = experiment.entries.get(PARENT)
        if parent is not None:
            experiment.log_folder(parent, folder, "report")
        return parent is not None

    def write_search(
        self,
        files: Sequence[Path],
        figures: Path,
        found: Mapping[str, str],
        scores: Mapping[str, float],
        trials: Mapping[str, int],
    ) -> bool:
        """Put on a search's own run its files, what it found (tags) and how good that is; on the others the
        number of their trial, by run id. Return whether the store has the search's own run.
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
        """Delete a run from the store, if it is there."""
        (folder_of(self._storage, config) / MARK).unlink(missing_ok=True)
        self._connected().forget(config.run_id)

    def close(self, status: Status) -> None:
        """End the grid's own run."""
        if self._parent is not None:
            self._connected().finish(self._parent, status)

    def _connected(self) -> Experiment:
        if self._experiment is None:
            self._experiment = Experiment.open(self._uri, self._grid_name, self._artifacts)
        return self._experiment

    def _start(self, config: RunConfig) -> tuple[Entry, bool]:
        """Return the run's entry, and whether it is set running only now."""
        experiment = self._connected()
        entry = experiment.entries.get(config.run_id)
        if entry is not None and entry.opened:
            return entry, False
        self.connect()
        assert self._parent is not None
        given = {**tags(config, self._grid_name), "mlflow.parentRunId": self._parent.mlflow_run_id}
        return experiment.start(config.run_id, config.name, given, config.model_dump(mode="json")), True

    def _finish(self, entry: Entry, folder: Path, status: Status) -> None:
        experiment = self._connected()
        experiment.log_artifacts(entry, [folder / name for name in ARTIFACTS if (folder / name).exists()])
        experiment.log_artifacts(entry, sorted((folder / "figures").glob("*")), "figures")
        experiment.log_totals(entry, _totals(folder))
        experiment.finish(entry, status)
        if status != "FINISHED":
            (folder / MARK).unlink(missing_ok=True)
            return
        mark = {"uri": shown(self._uri), "mlflow_run_id": entry.mlflow_run_id, "rounds": entry.rounds}
        if folder.is_dir():
            with one_line(self._uri):
                write_text(folder / MARK, json.dumps(mark) + "\n")


def _recorded(folder: Path, after: int) -> list[tuple[int, RoundScores]]:
    # No record yet, or half a round: it comes with the next news of the run.
    with suppress(RecordsError):
        return list(of_rounds(folder, skip=set(range(1, after + 1))))
    return []


def _totals(folder: Path) -> dict[str, float]:
    """Return what a run took, in all sessions, by the names of `TOTALS`; nothing before its first round."""
    try:
        times = times_of(folder)
    except (OSError, pa.ArrowException):
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
