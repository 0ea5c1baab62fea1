"""The runs of one MLflow experiment: found by one search, and no metric is logged twice or lost.

Rounds are logged in order, each in one transaction, together with the metric `round`. Its last value says
which rounds the store has, so that no metric history is read. One process writes, and only through
`MlflowClient`, because the active run of the fluent API is global state. Keys of metrics have a section, as
`clustering/ari`.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

from fedgrid.redaction import redacted
from fedgrid.tracking.mlflow.notes import ANNOTATED_TAG, NO_ANNOTATION, Annotation, is_ours, noted
from fedgrid.tracking.mlflow.store import TrackingError, connect, one_line
from fedgrid.tracking.mlflow.view import VIEW_TAG

RUN_ID_TAG = "fedgrid.run_id"
STORAGE_TAG = "fedgrid.storage_id"
ROUND = "round"
KIND_TAG, KIND = "mlflow.experimentKind", "custom_model_development"
"""Without it, MLflow's pages are those for language models."""
TOTALS = (
    *("cost/seconds", "cost/uncached_seconds", "cost/rounds_computed", "cost/peak_memory_mb"),
    *("grid/runs_done", "grid/runs_failed"),
)
"""Metrics of a whole run or grid rather than of a round. Their step is 0: MLflow draws them as bars."""
METRICS_PER_BATCH, PARAMS_PER_BATCH = 1000, 100
"""Limits of a batch in MLflow."""
PARAM_LENGTH, TAG_LENGTH = 6000, 8000
"""Limits of the length of a value in MLflow."""
RUNS_PER_PAGE = 100

Metrics: TypeAlias = Mapping[str, float | int | bool | None]
Round: TypeAlias = tuple[int, Metrics, int]
"""Number, metrics, and the Unix time of its end in milliseconds."""


@dataclass(slots=True)
class LoggedRun:
    """What the store has of a run."""

    mlflow_run_id: str
    artifacts: str = ""
    """The address of the run's artifacts."""
    status: str = "RUNNING"
    started: int = 0
    """The Unix time of its start in milliseconds."""
    rounds: int = 0
    """Rounds 1 to this one are logged."""
    totals: dict[str, float] = field(default_factory=dict)
    described: bool = False
    """Whether the parameters are logged."""
    has_dataset: bool = False
    annotated: str = ""
    """The `Annotation.mark` that it has."""

    @classmethod
    def of(cls, run: Any) -> "LoggedRun":
        """Return what MLflow's entity of a run says."""
        has, inputs = run.data.metrics, run.inputs
        return cls(
            run.info.run_id,
            run.info.artifact_uri,
            run.info.status,
            run.info.start_time,
            rounds=int(has.get(ROUND, 0)),
            totals={name: has[name] for name in TOTALS if name in has},
            described=bool(run.data.params),
            has_dataset=bool(inputs and inputs.dataset_inputs),
            annotated=run.data.tags.get(ANNOTATED_TAG, ""),
        )


class Experiment:
    """A storage's runs in an experiment, by the tag `fedgrid.run_id`; made by `Experiment.open`.

    Every method raises a `TrackingError` with a message of one line if the store fails. It is then unknown
    what was stored: open the experiment again.
    """

    def __init__(
        self, uri: str, client: Any, experiment_id: str, storage_id: str, entries: dict[str, LoggedRun]
    ) -> None:
        self.experiment_id = experiment_id
        self.entries = entries
        self._storage_id = storage_id
        self._uri = uri
        self._client = client

    @classmethod
    def open(cls, uri: str, name: str, artifact_root: Path, storage_id: str) -> "Experiment":
        """Find or create an experiment, and create the store if it is missing.

        Its entries are the runs of one storage: another one may have runs of the same ids in the same store.
        The artifacts of a new experiment go to `artifact_root`, unless the store is a server, which has its
        own.
        """
        client = connect(uri)
        found = client.get_experiment_by_name(name)
        if found is None:
            location = None if uri.startswith("http") else artifact_root.resolve().as_uri()
            created = client.create_experiment(name, artifact_location=location)
            return cls(uri, client, str(created), storage_id, {})
        if found.lifecycle_stage == "deleted":
            raise TrackingError(
                f"experiment '{name}' in {uri} was deleted; restore it with `mlflow "
                f"experiments restore --experiment-id {found.experiment_id}`, or use another name"
            )
        experiment_id = str(found.experiment_id)
        return cls(uri, client, experiment_id, storage_id, _entries(client, experiment_id, storage_id))

    def start(
        self,
        run_id: str,
        name: str,
        tags: Mapping[str, str],
        params: Mapping[str, Any],
        started_ms: int | None = None,
    ) -> LoggedRun:
        """Set a run running: a new one with all that is given, a known one with name and `tags` set anew.

        `params` may be nested; an existing run keeps its own. `started_ms` is a Unix time, None for now.
        """
        from mlflow.entities import Param

        entry = self.entries.get(run_id)
        if entry is None:
            marks = {RUN_ID_TAG: run_id, STORAGE_TAG: self._storage_id}
            marks |= {key: redacted(value)[:TAG_LENGTH] for key, value in tags.items()}
            run = self._client.create_run(self.experiment_id, started_ms, marks, name)
            entry = self.entries[run_id] = LoggedRun.of(run)
        else:
            self._client.update_run(entry.mlflow_run_id, status="RUNNING", name=name)
            self.set_tags(entry, tags)
        if not entry.described:
            flat = [Param(key, redacted(value)[:PARAM_LENGTH]) for key, value in flatten(params)]
            for first in range(0, len(flat), PARAMS_PER_BATCH):
                self._client.log_batch(entry.mlflow_run_id, params=flat[first : first + PARAMS_PER_BATCH])
        entry.status, entry.described = "RUNNING", True
        return entry

    def log_rounds(self, entry: LoggedRun, rounds: Sequence[Round]) -> None:
        """Log rounds that follow `entry.rounds`, in few batches, none torn apart.

        Metrics that are None, NaN or infinite are left out (MLflow would store 1.8e308 for infinity).
        The end of a round is the time stamp of its points; with the same one, the store takes a point once.
        """
        from mlflow.entities import Metric

        batch: list[Any] = []
        for number, metrics, ended_ms in rounds:
            points = [
                Metric(name, float(value), ended_ms, number)
                for name, value in {**metrics, ROUND: number}.items()
                if value is not None and isfinite(value)
            ]
            if len(batch) + len(points) > METRICS_PER_BATCH:
                self._log(entry, batch)
                batch = []
            batch += points
        self._log(entry, batch)

    def log_totals(self, entry: LoggedRun, totals: Mapping[str, float]) -> None:
        """Log those numbers of a whole run or grid that are not in the store with this value already."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        new = {name: value for name, value in totals.items() if entry.totals.get(name) != value}
        if new:
            points = [Metric(name, value, now, 0) for name, value in new.items()]
            self._client.log_batch(entry.mlflow_run_id, metrics=points)
            entry.totals |= new

    def log_dataset(self, entry: LoggedRun, dataset: Any) -> None:
        """Log the data set of a run, MLflow's `DatasetInput`, unless the store has it."""
        if not entry.has_dataset:
            self._client.log_inputs(entry.mlflow_run_id, [dataset])
            entry.has_dataset = True

    def log_artifact(self, entry: LoggedRun, path: Path, folder: str = "") -> None:
        """Upload a file, in `folder` of the run's artifacts; one of an earlier time is replaced.

        Not by `MlflowClient.log_artifact`: it remembers addresses by run, for all stores, and a copy of a
        storage has the same runs.
        """
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        with one_line(self._uri):
            place = get_artifact_repository(entry.artifacts, tracking_uri=self._uri)
            place.log_artifact(str(path), folder or None)

    def set_tags(self, entry: LoggedRun, tags: Mapping[str, str]) -> None:
        """Set tags anew; the others stay."""
        from mlflow.entities import RunTag

        marks = [RunTag(key, redacted(value)[:TAG_LENGTH]) for key, value in tags.items()]
        self._client.log_batch(entry.mlflow_run_id, tags=marks)

    def describe_run(self, entry: LoggedRun, text: str | None, own: Annotation = NO_ANNOTATION) -> None:
        """Set what the user has written on a run outside MLflow, and, unless `text` is None, its description.

        A description that he has written in MLflow stays.
        """
        there = self._client.get_run(entry.mlflow_run_id).data.tags
        for key in own.outdated(there):
            self._client.delete_tag(entry.mlflow_run_id, key)
        self.set_tags(entry, own.tags_of(there, text))
        entry.annotated = own.mark

    def describe(self, note: str, view: str) -> None:
        """Set the experiment's description, unless the user has written one, and its prepared view."""
        there = self._client.get_experiment(self.experiment_id).tags
        tags = {VIEW_TAG: view, **(noted(note) if is_ours(there) else {})}
        tags |= {} if KIND_TAG in there else {KIND_TAG: KIND}
        for key, value in tags.items():
            if there.get(key) != value:
                self._client.set_experiment_tag(self.experiment_id, key, value)

    def finish(self, entry: LoggedRun, status: str, ended_ms: int | None = None) -> None:
        """Set the run's status and the Unix time of its end in milliseconds, None for now.

        It ends no earlier than it started, although a clock may have been set back since.
        """
        ended_ms = max(entry.started, int(time.time() * 1000) if ended_ms is None else ended_ms)
        self._client.set_terminated(entry.mlflow_run_id, status, ended_ms)
        entry.status = status

    def forget(self, run_id: str) -> None:
        """Delete a run if it exists; `start` then creates a new one."""
        if entry := self.entries.pop(run_id, None):
            self._client.delete_run(entry.mlflow_run_id)

    def _log(self, entry: LoggedRun, batch: list[Any]) -> None:
        if batch:
            self._client.log_batch(entry.mlflow_run_id, metrics=batch, synchronous=True)
            entry.rounds = batch[-1].step


def delete_runs(uri: str, name: str, storage_id: str, run_ids: Collection[str] | None = None) -> int:
    """Mark runs of a storage in an experiment as deleted, and return their number; `mlflow gc` removes them.

    They are those with `run_ids`, or all, with the grid's own.

    Raises:
        TrackingError: the store fails; some of them may be marked.
    """
    client = connect(uri)
    found = client.get_experiment_by_name(name)
    if found is None or found.lifecycle_stage == "deleted":
        return 0
    entries = _entries(client, str(found.experiment_id), storage_id)
    doomed = [entry for run_id, entry in entries.items() if run_ids is None or run_id in run_ids]
    for entry in doomed:
        client.delete_run(entry.mlflow_run_id)
    return len(doomed)


def flatten(params: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield `split.alpha`, `1.0` of `{"split": {"alpha": 1.0}}`."""
    for name, value in params.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)


def _entries(client: Any, experiment_id: str, storage_id: str) -> dict[str, LoggedRun]:
    entries: dict[str, LoggedRun] = {}
    of_storage = f"tags.`{STORAGE_TAG}` = '{storage_id}'"
    token = None
    while True:
        page = client.search_runs([experiment_id], of_storage, max_results=RUNS_PER_PAGE, page_token=token)
        runs = ((run.data.tags.get(RUN_ID_TAG), run) for run in page)
        entries |= {run_id: LoggedRun.of(run) for run_id, run in runs if run_id is not None}
        token = page.token
        if not token:
            return entries
