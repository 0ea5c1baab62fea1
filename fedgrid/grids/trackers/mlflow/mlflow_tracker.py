"""MLflow as a tracker: an experiment for each grid, with a run for each run and one for the grid itself.

Rounds are logged in order, each in one transaction, together with the metric `round`. The last value of
`round` says which rounds the store has, so that no metric history is read. One process writes, and only
through `MlflowClient`, because the active run of MLflow's fluent API is global state.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path, PurePosixPath
from typing import Any

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.leases.scratch import create_scratch_folder
from fedgrid.engine.runtime.leases.storage_id import read_storage_id
from fedgrid.engine.runtime.run.run_folder import find_last_round
from fedgrid.engine.runtime.storage.format import DamagedFile
from fedgrid.engine.runtime.storage.hints import format_command
from fedgrid.grids.results.times import read_round_ends, read_start_ms
from fedgrid.grids.trackers.annotations import Annotations, read_annotations
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow import descriptions, runs
from fedgrid.grids.trackers.mlflow.store import (
    convert_errors,
    is_marked,
    is_missing,
    tracking_uri,
    write_mark,
)
from fedgrid.grids.trackers.mlflow.view import build_view
from fedgrid.grids.trackers.names import (
    build_source_tags,
    build_tags,
    format_run_name,
    metric_meanings,
    read_totals,
    select_metrics,
)
from fedgrid.grids.trackers.tracker import Status, TrackedGrid, TrackedRun, Tracker
from fedgrid.redaction import redact_secrets

GRID_KEY = "grid"
"""Takes the place of a run id for the grid's own MLflow run."""
MARK_FILE = "mlflow.json"
"""File in a run's folder which says that MLflow has the run, as finished."""
METRICS_PER_BATCH = 1000
"""MLflow's limit of the metrics in one request."""


class MlflowTracker(Tracker):
    """Tracker that writes to MLFLOW_TRACKING_URI, or by default to a file in the storage.

    If the store fails, every method raises `TrackerFailed`, in one line. It is then unknown what was stored:
    the session makes another tracker, which reads that from the store.
    """

    name = "mlflow"

    def __init__(self, grid: TrackedGrid) -> None:
        """Find or create the store and the grid's experiment."""
        super().__init__(grid)
        root = grid.storage.root
        self._uri, self._storage_id = tracking_uri(root), read_storage_id(root)
        # One search reads all runs of the experiment here; afterwards each is read again only when it
        # changes.
        self._client, self._experiment_id = runs.open_experiment(self._uri, grid.name, root)
        self.runs = runs.find_runs(self._client, self._experiment_id, self._storage_id)
        """MLflow's runs as they were read last, by run id, or by `GRID_KEY` for the grid's own."""
        self._is_begun = False
        self._points: list[Any] = []
        """Metrics of rounds that are not logged yet, all of the run `_points_run_id`."""
        self._points_run_id = ""
        """MLflow's id of the run that has the `_points`."""
        self._figures: list[Path] = []
        """Figures of the run that is ending, for its description."""

    def opened(self, run: TrackedRun) -> int:
        """Set a run running in MLflow, and create it if it is new.

        A new run gets all that is known of it; one that is there gets name and tags again, as the grid's axes
        may have changed.
        """
        config, is_new = run.config, run.config.run_id not in self.runs
        given = build_tags(config, self.grid.name, self.grid.axes)
        # MLflow indents a run below its parent by this tag. The grid's own run must therefore exist first.
        given["mlflow.parentRunId"] = self._start_grid_run().info.run_id
        # A later `fedgrid sync` on another machine must not claim to have computed the run.
        if self.grid.is_launch or is_new:
            given |= build_source_tags(self.grid.name, config)
        # The end of the first round, less its duration, is more exact than the time of the folder.
        started = run.started_ms
        if is_new:
            given |= descriptions.note_tags(descriptions.describe_run(config))
            with suppress(DamagedFile):
                started = read_start_ms(run.folder) or started
        name, params = format_run_name(config, self.grid.axes), config.model_dump(mode="json")
        return runs.read_logged_rounds(self._start_run(config.run_id, name, given, params, started))

    def round(self, run: TrackedRun, number: int, scores: Mapping[str, Any], ended_ms: int) -> None:
        """Collect the metrics of a round for the next batch.

        Metrics that are None, NaN or infinite are left out, as MLflow would store 1.8e308 for infinity. The
        end of a round is the time stamp of its points: MLflow stores a point with an equal step, time stamp
        and value once, so that a batch that was repeated after a failure leaves no duplicates.

        Args:
            run: The run, which was `opened`.
            number: The round, counted from 1. It is the step of MLflow's metrics.
            scores: Value by name.
            ended_ms: Unix time of the round's end in milliseconds.
        """
        from mlflow.entities import Metric

        points = [
            Metric(key, float(value), ended_ms, number)
            for key, value in {**select_metrics(scores), runs.ROUND: number}.items()
            if value is not None and isfinite(value)
        ]
        # A round is never divided between two batches: the metric `round` must not be stored without the
        # others.
        if len(self._points) + len(points) > METRICS_PER_BATCH:
            self.flush()
        self._points, self._points_run_id = [*self._points, *points], self.runs[run.config.run_id].info.run_id

    def flush(self) -> None:
        """Log the collected rounds, and wait until the store has them."""
        if self._points:
            # MLflow may log in a thread of its own, which would report an error after `flush` has returned.
            self._client.log_batch(self._points_run_id, metrics=self._points, synchronous=True)
            self._points = []

    def artifact(self, run: TrackedRun | None, path: Path, folder: str = "") -> None:
        """Upload a file in place of an earlier one of this name.

        `MlflowClient.log_artifact` is not used: it caches addresses by run id for all stores of a process,
        and a copy of a storage has runs of the same ids.
        """
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        owner = (
            self.runs.get(GRID_KEY) or self._start_grid_run() if run is None else self.runs[run.config.run_id]
        )
        with convert_errors(self._uri):
            place = get_artifact_repository(owner.info.artifact_uri, tracking_uri=self._uri)
            place.log_artifact(str(path), folder or None)
        if run is not None and folder == "figures":
            self._figures.append(path)

    def finished(self, run: TrackedRun) -> None:
        """End a run, and mark its folder so that the next launch need not log it."""
        last, planned = find_last_round(run.folder, run.config), run.config.training.rounds
        # An early stop of a search is no failure; the tag tells why rounds are missing.
        if last < planned:
            self.log_numbers(run.config.run_id, {}, {"stopped": f"after round {last} of {planned}"})
        # The mark comes last. After a crash before it, the run is logged again, which changes nothing; a mark
        # before the end would leave the run "running" in MLflow for ever.
        mlflow_run_id, rounds = self._end_run(run, "FINISHED")
        if run.folder.is_dir():
            with convert_errors(self._uri):
                facts = {"mlflow_run_id": mlflow_run_id, "rounds": rounds}
                write_mark(self.grid.storage, run.folder / MARK_FILE, self._uri, **facts)

    def failed(self, run: TrackedRun, status: Status) -> None:
        """End a run that is not finished, and remove its mark, which may be of fewer rounds."""
        self._end_run(run, status)
        self.grid.storage.remove(f"{run.folder.name}/{MARK_FILE}")

    def forget(self, run: TrackedRun) -> None:
        """Delete a run, if MLflow has it; when it is opened again, it is a new one."""
        # The mark goes first: without it the run is at worst logged twice, with it never again.
        self.grid.storage.remove(f"{run.folder.name}/{MARK_FILE}")
        if logged := self.runs.pop(run.config.run_id, None):
            self._client.delete_run(logged.info.run_id)

    def close(self, status: Status, counts: Mapping[str, float]) -> None:
        """End the grid's own run."""
        # A launch that had nothing to log has not started it yet.
        self._start_grid_run()
        parent = self._refresh_run(GRID_KEY)
        if counts:
            self._log_description(
                GRID_KEY, descriptions.build_metric_table(metric_meanings()), Annotations(), counts
            )
        runs.end_run(self._client, parent, status)

    def has(self, run: TrackedRun | None, status: Status, rounds: int) -> bool:
        """Check whether the store has a run with this status and number of rounds, and its note and tags."""
        logged = self.runs.get(GRID_KEY if run is None else run.config.run_id)
        if run is None or logged is None:
            return logged is not None and logged.info.status == status
        if status == "FINISHED" and self.lacks(run, self.grid):
            return False
        mark = descriptions.compute_annotation_mark(read_annotations(run.folder))
        marked = logged.data.tags.get(descriptions.ANNOTATED_TAG, "")
        return (logged.info.status, runs.read_logged_rounds(logged), marked) == (status, rounds, mark)

    @classmethod
    def prepare(cls) -> None:
        """Import MLflow, and what it would otherwise import when its store is used first."""
        with convert_errors(""):
            import mlflow.store.tracking.sqlalchemy_store
            import mlflow.tracking  # noqa: F401

    @classmethod
    def check(cls, grid: TrackedGrid) -> None:
        """Check the address of the store.

        Raises:
            ConfigError: MLFLOW_TRACKING_URI is malformed.
        """
        try:
            tracking_uri(grid.storage.root)
        except TrackerFailed as error:
            raise ConfigError(str(error)) from error

    @classmethod
    def lacks(cls, run: TrackedRun, grid: TrackedGrid) -> bool:
        """Check whether the run's folder lacks a mark of this store with all rounds.

        Raises:
            OtherVersion: Another version of fedgrid wrote the mark.
        """
        uri = tracking_uri(grid.storage.root)
        rounds = find_last_round(run.folder, run.config)
        # A user who deletes the file of the store expects to find all runs in the next one.
        return not is_marked(run.folder / MARK_FILE, uri, rounds=rounds) or is_missing(uri)

    @classmethod
    def title(cls) -> str:
        """Return the product's name."""
        return "MLflow"

    @classmethod
    def lines(cls, grid: TrackedGrid) -> list[str]:
        """Format where the store is, and the command that shows it."""
        uri = redact_secrets(tracking_uri(grid.storage.root))
        return [f"MLflow store: {uri}", f"See it:  {format_command(grid.storage, 'ui', grid.name)}"]

    def log_numbers(self, key: str, numbers: Mapping[str, float], tags: Mapping[str, str] = {}) -> None:
        """Set tags of a run, and log numbers that hold for the whole run.

        Args:
            key: Run id, or `GRID_KEY`.
            numbers: Metric's name -> value; one that the run already has with this value is not logged again.
            tags: Tags to set, none by default.
        """
        from mlflow.entities import Metric, RunTag

        logged, now = self.runs[key], int(time.time() * 1000)
        new = {name: value for name, value in numbers.items() if logged.data.metrics.get(name) != value}
        points = [Metric(name, value, now, 0) for name, value in new.items()]
        marks = [RunTag(name, text) for name, text in runs.fit_tags(tags).items()]
        self._client.log_batch(logged.info.run_id, metrics=points, tags=marks)

    def upload_folder(self, folder: Path, name: str) -> None:
        """Upload all files of a folder, as the folder `name` of the grid's own run.

        This goes file by file. MLflow's `log_artifacts` replaces files too, but sets the times of folders,
        which only their owner may do.
        """
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            self.artifact(None, path, PurePosixPath(name, path.parent.relative_to(folder)).as_posix())

    def log_annotations(self, run: TrackedRun) -> None:
        """Log the user's note and tags of a run, if the store has the run."""
        if run.config.run_id in self.runs:
            self._refresh_run(run.config.run_id)
            self._log_description(run.config.run_id, None, read_annotations(run.folder), {})

    def _start_grid_run(self) -> Any:
        """Start the grid's own run unless that is done, and return it."""
        if self._is_begun:
            return self.runs[GRID_KEY]
        given, is_new = {"grid": self.grid.name}, GRID_KEY not in self.runs
        if self.grid.is_launch or is_new:
            given |= build_source_tags(self.grid.name)
        if is_new:
            given |= descriptions.note_tags(descriptions.build_metric_table(metric_meanings()))
        parent = self._start_run(GRID_KEY, self.grid.name, given, {}, None)
        shown = build_view([*metric_meanings()], self.grid.axes, self.grid.searched)
        descriptions.describe_experiment(self._client, self._experiment_id, self.grid.name, shown)
        if self.grid.text:
            with create_scratch_folder() as scratch:
                preset = scratch / "preset.yaml"
                preset.write_text(redact_secrets(self.grid.text))
                self.artifact(None, preset)
        # Set last: after a failure in between, all of it is repeated, which changes nothing that is there.
        self._is_begun = True
        return parent

    def _start_run(
        self, key: str, name: str, tags: Mapping[str, str], params: Mapping[str, Any], started_ms: int | None
    ) -> Any:
        """Set a run running, and create it if the store has none.

        Args:
            key: Run id, or `GRID_KEY`.
            name: Name that MLflow shows.
            tags: Tags to set. An existing run keeps its other tags.
            params: Parameters, which may be nested. A run that has some keeps its own.
            started_ms: Unix time of the start in milliseconds; None for now. Only a new run gets it.

        Returns:
            MLflow's run.
        """
        if key in self.runs:
            self._client.update_run(self.runs[key].info.run_id, status="RUNNING", name=name)
            self.log_numbers(key, {}, tags)
            run = self._refresh_run(key)
        else:
            marks = {runs.RUN_ID_TAG: key, runs.STORAGE_TAG: self._storage_id, **runs.fit_tags(tags)}
            run = self.runs[key] = self._client.create_run(self._experiment_id, started_ms, marks, name)
        # Parameters are logged after the run is made, in another request: a crash in between leaves none, and
        # the next start logs them. MLflow refuses to change a parameter that is there.
        if not run.data.params:
            runs.log_params(self._client, run, params)
        return run

    def _end_run(self, run: TrackedRun, status: Status) -> tuple[str, int]:
        """Log what a run has at its end, and its status.

        Returns:
            The run's id in MLflow, and its number of rounds there.
        """
        key, figures = run.config.run_id, self._figures
        self._figures = []
        # Read again: the rounds since `opened` are in the store, not in the copy of the run that is here.
        logged = self._refresh_run(key)
        rounds = runs.read_logged_rounds(logged)
        if not (logged.inputs and logged.inputs.dataset_inputs):
            self._client.log_inputs(
                logged.info.run_id, [descriptions.build_dataset_input(run.config, run.folder)]
            )
        text = descriptions.describe_ended_run(run.config, figures, logged.info.run_id)
        self._log_description(key, text, read_annotations(run.folder), read_totals(run.folder))
        ended_ms = None
        with suppress(DamagedFile):
            ended_ms = read_round_ends(run.folder, range(1, rounds + 1)).get(rounds)
        # The status is set last, so that a run that is "FINISHED" in MLflow has all that belongs to it.
        runs.end_run(self._client, logged, status, ended_ms)
        return logged.info.run_id, rounds

    def _refresh_run(self, key: str) -> Any:
        """Read a run from the store, and return it."""
        run = self.runs[key] = self._client.get_run(self.runs[key].info.run_id)
        return run

    def _log_description(
        self, key: str, text: str | None, own: Annotations, numbers: Mapping[str, float]
    ) -> None:
        """Log numbers and annotations of a run, and its description unless the user has changed it in MLflow.

        Args:
            key: Run id, or `GRID_KEY`.
            text: The description; None leaves it as it is.
            own: The user's note and tags.
            numbers: Metric's name -> value for the whole run.
        """
        logged = self.runs[key]
        tags, outdated = descriptions.plan_annotation_tags(logged.data.tags, own, text)
        for tag in outdated:
            self._client.delete_tag(logged.info.run_id, tag)
        self.log_numbers(key, numbers, tags)
