"""MLflow as a tracker: an experiment a grid, a run a run, and a run for the grid itself."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.leases.storage_id import id_of
from fedgrid.engine.runtime.storage.atomic import write_text
from fedgrid.engine.runtime.storage.format import DamagedFile, UnreadableFile, seal, unseal
from fedgrid.engine.runtime.storage.hints import command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.times import round_ends, started_ms
from fedgrid.grids.trackers import notes
from fedgrid.grids.trackers.names import described, made_by, metrics, run_name, tags, totals
from fedgrid.grids.trackers.own_store import make_ready
from fedgrid.grids.trackers.tracker import Status, TrackedGrid, TrackedRun, Tracker
from fedgrid.redaction import redacted
from fedgrid.tracking.mlflow.notes import noted
from fedgrid.tracking.mlflow.runs import TOTALS, Experiment, LoggedRun, Round
from fedgrid.tracking.mlflow.store import (
    TrackingError,
    artifact_root,
    database_file,
    one_line,
    tracking_uri,
)
from fedgrid.tracking.mlflow.view import view

PARENT = "grid"
"""Takes the place of a run id for the grid's own MLflow run."""
MARK = "mlflow.json"
"""Says in a run's folder that MLflow has the run, as finished."""


class MlflowTracker(Tracker):
    """Writes to MLFLOW_TRACKING_URI, else to a file in the storage.

    If the store fails, every method raises `TrackingError`, in one line; it is then unknown what was stored.
    """

    name = "mlflow"

    def __init__(self, grid: TrackedGrid) -> None:
        """Find or create the store and the grid's experiment."""
        super().__init__(grid)
        root = grid.storage.root
        self._uri = tracking_uri(root)
        storage_id = id_of(root)
        make_ready(self._uri, artifact_root(root))
        self.experiment = Experiment.open(self._uri, grid.name, artifact_root(root), storage_id)
        self._is_begun = False
        self._rounds: list[Round] = []
        self._of_rounds: LoggedRun | None = None
        self._figures: list[Path] = []
        """Of the run that ends."""

    def opened(self, run: TrackedRun) -> int:
        """Set a run running: a new one with all that is known, a known one with name and tags set anew."""
        config = run.config
        entry, parent = self.entry(run), self._begin()
        given = {**tags(config, self.grid.name, self.grid.axes), "mlflow.parentRunId": parent.mlflow_run_id}
        if self.grid.is_launch or entry is None:
            given |= made_by(self.grid.name, config)
        started = run.started_ms
        if entry is None:
            given |= noted(notes.what(config))
            with suppress(DamagedFile):
                started = started_ms(run.folder) or started
        params, name = config.model_dump(mode="json"), run_name(config, self.grid.axes)
        entry = self.experiment.start(config.run_id, name, given, params, started)
        if digest := notes.dataset_digest(run.folder):
            self.experiment.log_dataset(entry, notes.dataset_of(config, digest))
        return entry.rounds

    def round(self, run: TrackedRun, number: int, scores: Mapping[str, Any], ended_ms: int) -> None:
        """Keep a round for the next batch."""
        self._of_rounds = self._known(run)
        self._rounds.append((number, metrics(scores), ended_ms))

    def flush(self) -> None:
        """Log the rounds."""
        if self._of_rounds is not None:
            self.experiment.log_rounds(self._of_rounds, self._rounds)
        self._of_rounds, self._rounds = None, []

    def artifact(self, run: TrackedRun | None, path: Path, folder: str = "") -> None:
        """Upload a file."""
        entry = (self.entry(None) or self._begin()) if run is None else self._known(run)
        self.experiment.log_artifact(entry, path, folder)
        if run is not None and folder == "figures":
            self._figures.append(path)

    def finished(self, run: TrackedRun) -> None:
        """End a run, and mark its folder: the next launch need not log it."""
        entry = self._end(run, "FINISHED")
        if run.folder.is_dir():
            mark = {"uri": redacted(self._uri), "mlflow_run_id": entry.mlflow_run_id, "rounds": entry.rounds}
            with one_line(self._uri):
                write_text(run.folder / MARK, seal(mark))
            self.grid.storage.push(f"{run.folder.name}/{MARK}")

    def failed(self, run: TrackedRun, status: Status) -> None:
        """End a run that is not finished."""
        self._end(run, status)
        (run.folder / MARK).unlink(missing_ok=True)

    def forget(self, run: TrackedRun) -> None:
        """Delete a run, if it is there; when it is opened, it is a new one."""
        (run.folder / MARK).unlink(missing_ok=True)
        self.experiment.forget(run.config.run_id)

    def close(self, status: Status, counts: Mapping[str, float]) -> None:
        """End the grid's own run."""
        entry = self._begin()
        if counts:
            self.experiment.log_totals(entry, counts)
            self.experiment.describe_run(entry, notes.of_metrics())
        self.experiment.finish(entry, status)

    def has(self, run: TrackedRun | None, status: Status, rounds: int) -> bool:
        """Return whether the store has a run with this status, so many rounds, and its note and tags."""
        entry = self.entry(run)
        if run is None or entry is None:
            return entry is not None and entry.status == status
        if status == "FINISHED" and self.lacks(run, self.grid):
            return False
        own = notes.annotation(run.folder).mark
        return (entry.status, entry.rounds, entry.annotated) == (status, rounds, own)

    @classmethod
    def prepare(cls) -> None:
        """Import MLflow."""
        with one_line(""):
            import mlflow.tracking  # noqa: F401

    @classmethod
    def check(cls, grid: TrackedGrid) -> None:
        """Check the address of the store."""
        try:
            tracking_uri(grid.storage.root)
        except TrackingError as error:
            raise ConfigError(str(error)) from error

    @classmethod
    def lacks(cls, run: TrackedRun, grid: TrackedGrid) -> bool:
        """Return whether the run's folder has no mark of this store with all rounds.

        Raises:
            NewerFormat: a newer fedgrid wrote it.
        """
        try:
            mark = unseal(run.folder / MARK)
        except (FileNotFoundError, DamagedFile, UnreadableFile):
            return True
        uri = tracking_uri(grid.storage.root)
        file = database_file(uri)
        same = (mark.get("uri"), mark.get("rounds")) == (redacted(uri), run.config.training.rounds)
        return not same or not (file is None or file.exists())

    @classmethod
    def title(cls) -> str:
        """Return the product's name."""
        return "MLflow"

    @classmethod
    def lines(cls, grid: TrackedGrid) -> list[str]:
        """Return where the store is, and the command that shows it."""
        uri = redacted(tracking_uri(grid.storage.root))
        return [f"MLflow store: {uri}", f"See it:  {command(grid.storage, 'ui', grid.name)}"]

    def entry(self, run: TrackedRun | None) -> LoggedRun | None:
        """Return what the store has of a run, or of the grid's own (None); None: it has not got it."""
        return self.experiment.entries.get(PARENT if run is None else run.config.run_id)

    def folder(self, folder: Path, name: str) -> None:
        """Upload all that is in a folder, as `name` of the grid's own run.

        File by file: MLflow replaces a file, but of a folder's it sets the times, as only their owner may.
        """
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            self.artifact(None, path, PurePosixPath(name, path.parent.relative_to(folder)).as_posix())

    def annotate(self, run: TrackedRun) -> None:
        """Log the user's note and tags of a run, if the store has the run."""
        if entry := self.entry(run):
            self.experiment.describe_run(entry, None, notes.annotation(run.folder))

    def describe(self) -> None:
        """Write the experiment's description and prepared view."""
        shown = view([*described()], TOTALS, self.grid.axes, self.grid.searched)
        self.experiment.describe(notes.of_grid(self.grid.name, self.experiment.experiment_id), shown)

    def _known(self, run: TrackedRun) -> LoggedRun:
        entry = self.entry(run)
        assert entry is not None, "a run is opened first"
        return entry

    def _begin(self) -> LoggedRun:
        """Return the grid's own run, which is running."""
        entry = self.entry(None)
        if self._is_begun and entry is not None:
            return entry
        given = {"grid": self.grid.name}
        given |= made_by(self.grid.name) if self.grid.is_launch or entry is None else {}
        given |= noted(notes.of_metrics()) if entry is None else {}
        entry = self.experiment.start(PARENT, self.grid.name, given, {})
        self.describe()
        if self.grid.text:
            with TemporaryDirectory(prefix="fedgrid-") as scratch:
                preset = Path(scratch, "preset.yaml")
                preset.write_text(redacted(self.grid.text))
                self.experiment.log_artifact(entry, preset)
        self._is_begun = True
        return entry

    def _end(self, run: TrackedRun, status: Status) -> LoggedRun:
        """Log what a run has at its end, and its status."""
        entry, figures = self._known(run), self._figures
        self._figures = []
        self.experiment.log_dataset(entry, notes.dataset_of(run.config, notes.dataset_digest(run.folder)))
        self.experiment.log_totals(entry, totals(run.folder))
        text = notes.of_run_ended(run.config, figures, entry.mlflow_run_id)
        self.experiment.describe_run(entry, text, notes.annotation(run.folder))
        ended_ms = None
        with suppress(DamagedFile):
            ended_ms = round_ends(run.folder, range(1, entry.rounds + 1)).get(entry.rounds)
        self.experiment.finish(entry, status, ended_ms)
        return entry


def log_report(name: str, storage: Storage, folder: Path) -> bool:
    """Log a folder to the own run of a grid, as `report`; return whether the store has that run.

    Raises:
        TrackingError: the store fails.
    """
    tracker = MlflowTracker(TrackedGrid(name, storage))
    if tracker.entry(None) is not None:
        tracker.folder(folder, "report")
    return tracker.entry(None) is not None
