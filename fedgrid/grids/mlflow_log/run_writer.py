"""Writes a grid's runs to MLflow, one after another: the rounds that it lacks, from their records."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.integrity.record_files import write_joined
from fedgrid.engine.runtime.leases.storage_id import id_of
from fedgrid.engine.runtime.plugins.algorithm_of import own_columns
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.format import DamagedFile
from fedgrid.grids.mlflow_log import notes
from fedgrid.grids.mlflow_log.mark import mark, unmark
from fedgrid.grids.mlflow_log.own_store import make_ready
from fedgrid.grids.mlflow_log.tags import described, made_by, metrics, run_name, tags, totals
from fedgrid.grids.results.times import round_ends, started_ms
from fedgrid.record_columns import schemas
from fedgrid.tracking.mlflow.notes import noted
from fedgrid.tracking.mlflow.runs import TOTALS, Experiment, LoggedRun, Status
from fedgrid.tracking.mlflow.view import view
from fedgrid.tracking.records import RecordsError
from fedgrid.tracking.scoring.scores import of_rounds

ARTIFACTS = ("config.json", "rounds.parquet", "clients.parquet", "timings.parquet", "log.txt")
PARENT = "grid"
"""Takes the place of a run id for the grid's own MLflow run."""

Round: TypeAlias = tuple[int, Mapping[str, Any], int]
"""Number, scores, and the Unix time of its end in milliseconds."""


class Writer:
    """Writes to a grid's MLflow experiment. Not thread-safe.

    If the store fails, every method raises `TrackingError`, in one line. Then call `disconnect`, and repeat
    the write later.
    """

    def __init__(
        self,
        uri: str,
        grid_name: str,
        storage: Path,
        artifacts: Path,
        axes: Sequence[str] = (),
        searched: Sequence[str] = (),
    ) -> None:
        """Write to the store `uri`; artifacts of a store that is no server go to `artifacts`.

        `axes` are the keys, beside scenario, algorithm and seed, in which the grid's runs differ: they are
        tags of a run, and stand in its name. `searched` are those of them that a search varies.
        """
        self._uri = uri
        self._grid_name = grid_name
        self._axes = axes
        self._searched = searched
        self._storage = storage
        self._artifacts = artifacts
        self.is_launch = True
        """Whether runs are made, rather than logged later: what made those that the store has stays then."""
        self._experiment: Experiment | None = None
        self._parent: LoggedRun | None = None

    def connect(self, text: str = "") -> None:
        """Find or create the store, the experiment and the grid's own run, with its preset's `text`."""
        self._connected()
        if self._parent is None:
            is_known = PARENT in self._connected().entries
            made = made_by(self._grid_name) if self.is_launch or not is_known else {}
            given = {"grid": self._grid_name, **made}
            given |= {} if is_known else noted(notes.of_metrics())
            self._parent = self._connected().start(PARENT, self._grid_name, given, {})
            self.describe()
            if text:
                self._connected().log_text(self._parent, text, "preset.yaml")

    def describe(self) -> None:
        """Write the experiment's description and prepared view."""
        experiment = self._connected()
        shown = view([*described()], TOTALS, self._axes, self._searched)
        note = notes.of_grid(self._grid_name, experiment.experiment_id)
        experiment.describe(note, shown)

    def disconnect(self) -> None:
        """Forget what the store has; the next write asks it again."""
        self._experiment = self._parent = None

    def write(
        self,
        config: RunConfig,
        status: Status | None,
        started: int | None = None,
        records: Path | None = None,
    ) -> int:
        """Log the rounds that the store lacks, and end the run if there is a status; return their number.

        Args:
            config: the run.
            status: how it has ended; None: it is under way.
            started: the Unix time in milliseconds at which a run without records started; None: now.
            records: the folder with its records; None: its own.
        """
        entry = self._start(config, started)
        folder = folder_of(self._storage, config)
        new = _recorded(records or folder, entry.rounds)
        rounds = [(number, metrics(scores), at) for number, scores, at in new]
        added = self._connected().log_rounds(entry, rounds)
        if status is not None:
            self._finish(config, entry, folder, status)
        return added

    def has(self, config: RunConfig, status: Status, rounds: int) -> bool:
        """Return whether the store has a run with this status, this many rounds, and its note and tags."""
        entry = self._connected().entries.get(config.run_id)
        own = notes.annotation(folder_of(self._storage, config)).mark
        return entry is not None and (entry.status, entry.rounds, entry.annotated) == (status, rounds, own)

    def annotate(self, config: RunConfig) -> bool:
        """Log the user's note and tags of a run; return whether the store has the run."""
        entry = self._connected().entries.get(config.run_id)
        if entry is not None:
            own = notes.annotation(folder_of(self._storage, config))
            self._connected().describe_run(entry, None, own)
        return entry is not None

    def has_ended(self, status: Status) -> bool:
        """Return whether the store has the grid's own run, with this status."""
        entry = self._connected().entries.get(PARENT)
        return entry is not None and entry.status == status

    def write_summary(
        self,
        files: Sequence[Path],
        done: int,
        failed: int,
    ) -> None:
        """Log to the grid's own MLflow run files, and the numbers of runs."""
        self.connect()
        assert self._parent is not None
        experiment = self._connected()
        experiment.log_artifacts(self._parent, files)
        experiment.log_totals(self._parent, {"grid/runs_done": done, "grid/runs_failed": failed})
        experiment.describe_run(self._parent, notes.of_metrics())

    def write_report(self, folder: Path) -> bool:
        """Log a folder to the grid's own run, as `report`; return whether the store has that run."""
        experiment = self._connected()
        parent = experiment.entries.get(PARENT)
        if parent is not None:
            experiment.log_folder(parent, folder, "report")
        return parent is not None

    def write_results(
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
        unmark(folder_of(self._storage, config))
        self._connected().forget(config.run_id)

    def close(self, status: Status) -> None:
        """End the grid's own run."""
        if self._parent is not None:
            self._connected().finish(self._parent, status)

    def _connected(self) -> Experiment:
        if self._experiment is None:
            key = id_of(self._storage)
            make_ready(self._uri, self._artifacts)
            self._experiment = Experiment.open(self._uri, self._grid_name, self._artifacts, key)
        return self._experiment

    def _start(self, config: RunConfig, started: int | None) -> LoggedRun:
        """Return the run's entry, which is running."""
        experiment = self._connected()
        entry = experiment.entries.get(config.run_id)
        if entry is not None and entry.opened:
            return entry
        self.connect()
        assert self._parent is not None
        given = {
            **tags(config, self._grid_name, self._axes),
            **(made_by(self._grid_name, config) if self.is_launch or entry is None else {}),
            "mlflow.parentRunId": self._parent.mlflow_run_id,
        }
        folder = folder_of(self._storage, config)
        if entry is None:
            given |= noted(notes.what(config))
            with suppress(DamagedFile):
                started = started_ms(folder) or started
        params = config.model_dump(mode="json")
        entry = experiment.start(config.run_id, run_name(config, self._axes), given, params, started)
        if (dataset := notes.dataset_of(config, folder)).digest:
            experiment.log_dataset(entry, dataset)
        return entry

    def _finish(self, config: RunConfig, entry: LoggedRun, folder: Path, status: Status) -> None:
        experiment = self._connected()
        experiment.log_dataset(entry, notes.dataset_of(config, folder))
        with _artifacts(config, folder) as files:
            experiment.log_artifacts(entry, files)
        with _figures(folder, status) as drawn:
            experiment.log_artifacts(entry, drawn, "figures")
        experiment.log_totals(entry, totals(folder))
        description = notes.of_run_ended(config, drawn, entry.mlflow_run_id)
        experiment.describe_run(entry, description, notes.annotation(folder))
        experiment.finish(entry, status, _ended_ms(folder, entry.rounds))
        if status == "FINISHED":
            mark(self._uri, folder, entry.mlflow_run_id, entry.rounds)
        else:
            unmark(folder)


@contextmanager
def _artifacts(config: RunConfig, folder: Path) -> Iterator[list[Path]]:
    """Yield those of a run's `ARTIFACTS` that there are; records in segments are joined for it."""
    with TemporaryDirectory(prefix="fedgrid-") as scratch:
        found = {name: folder / name for name in ARTIFACTS}
        with suppress(FileNotFoundError, DamagedFile):  # As they are: the next launch says what is wrong.
            columns = schemas(config.evaluation.global_model, own_columns(config))
            found |= {path.name: path for path in write_joined(folder, Path(scratch), columns)}
        yield [path for path in found.values() if path.is_file()]


@contextmanager
def _figures(folder: Path, status: Status) -> Iterator[list[Path]]:
    """Yield the figure of a finished run, which is drawn here: with a process of its own the writer does so
    beside the next run."""
    # Imports matplotlib, which takes seconds.
    from fedgrid.tracking import figures

    with TemporaryDirectory(prefix="fedgrid-") as scratch:
        drawn: list[Path] = []
        if status == "FINISHED":
            with suppress(RecordsError, DamagedFile):  # The next launch says what is wrong.
                drawn = [figures.write(folder, Path(scratch))]
        yield drawn


def _recorded(folder: Path, after: int) -> list[Round]:
    # No record yet, or half a round: the run's next update has it.
    with suppress(RecordsError, DamagedFile):
        found = list(of_rounds(folder, skip=set(range(1, after + 1))))
        ends = round_ends(folder, range(1, max((number for number, _ in found), default=0) + 1))
        return [(number, scores, ends[number]) for number, scores in found]
    return []


def _ended_ms(folder: Path, rounds: int) -> int | None:
    """Return the Unix time in milliseconds of a run's last round, None if it has none."""
    with suppress(DamagedFile):
        return round_ends(folder, range(1, rounds + 1)).get(rounds)
    return None
