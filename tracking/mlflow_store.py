"""One MLflow run a run, found again on resume, written by one process through `MlflowClient` only.

The fluent API's active run is global state of the process, so it is not used. MLflow takes two seconds to
import: that happens in the functions.
"""

import logging
import os
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

RUN_ID_TAG = "fedgrid.run_id"
SCHEMES = ("sqlite", "postgresql", "mysql", "mssql", "http", "https")
METRICS_PER_BATCH = 1000
PARAMS_PER_BATCH = 100
"""MLflow refuses larger batches."""
PARAM_LENGTH = 6000
TAG_LENGTH = 8000
"""MLflow refuses longer values."""
REACH_SECONDS = 10
"""How long a server may take to answer at all."""

Metrics = Mapping[str, float | int | bool | None]
Status: TypeAlias = Literal["FINISHED", "FAILED", "KILLED"]


class TrackingError(ValueError):
    """MLflow cannot be used as asked: a malformed address, a store that does not answer or refuses."""


def default_uri(storage: Path) -> str:
    """Return the address of the sqlite store in `storage`; absolute, as Ray changes the directory."""
    return f"sqlite:///{storage.absolute() / 'mlflow.db'}"


def tracking_uri(storage: Path) -> str:
    """Return MLFLOW_TRACKING_URI where it is set, else the store in `storage`.

    Raises:
        TrackingError: if MLFLOW_TRACKING_URI is not an address that can be written to.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI") or default_uri(storage)
    scheme, separator, rest = uri.partition("://")
    if not _splits(uri) or not separator or not rest.strip("/") or scheme.split("+")[0] not in SCHEMES:
        raise TrackingError(
            f"MLFLOW_TRACKING_URI is '{shown(uri)}', which is no address of an MLflow store; give "
            "sqlite:////absolute/path/mlflow.db, a postgresql:// or mysql:// address, or http(s)://host:port"
        )
    if scheme == "sqlite" and not rest.startswith("//"):
        return f"sqlite:///{Path(rest.removeprefix('/')).absolute()}"
    return uri


def prepare(uri: str) -> None:
    """Create the store's schema; once, in the driver, as MLflow's migrations break when run at a time.

    Raises:
        TrackingError: if the store cannot be reached or created.
    """
    with _one_line(uri):
        if uri.startswith("sqlite:///"):
            Path(uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
        _client(uri).search_experiments(max_results=1)


def shown(uri: str) -> str:
    """Return the address without a user name or password, to be printed."""
    if not _splits(uri):
        return uri.rpartition("@")[2]
    return uri.replace(urlsplit(uri).netloc, urlsplit(uri).netloc.rpartition("@")[2], 1)


class Tracker:
    """The MLflow run of one run; `Tracker.open` makes it.

    Every method raises `TrackingError`, in one line, if the store fails.
    """

    def __init__(self, uri: str, client: Any, mlflow_run_id: str, logged: dict[str, set[int]]) -> None:
        self.mlflow_run_id = mlflow_run_id
        self._uri = uri
        self._client = client
        self._logged = logged

    @classmethod
    def open(
        cls,
        uri: str,
        experiment: str,
        *,
        run_name: str,
        run_id: str,
        tags: Mapping[str, str],
        params: Mapping[str, Any],
        artifact_root: Path,
    ) -> "Tracker":
        """Find the run of `run_id` in `experiment` or create it, and set it running.

        Args:
            uri: the store, as `tracking_uri` returns it.
            experiment: created if need be; its artifacts go to `artifact_root`, unless the store is a
                server, which has a place of its own.
            run_name: what the UI shows.
            run_id: the run's own id, kept in the tag `fedgrid.run_id`.
            tags: set anew each time.
            params: the configuration, nested or flat; those that the run has already are left alone.
            artifact_root: a folder.
        """
        with _one_line(uri):
            client = _client(uri)
            experiment_id = _experiment(client, uri, experiment, artifact_root)
            found = _runs(client, experiment_id, run_id)
            run = found[0] if found else client.create_run(experiment_id, tags={RUN_ID_TAG: run_id})
            tracker = cls(uri, client, run.info.run_id, _history(client, run))
            client.update_run(run.info.run_id, status="RUNNING", name=run_name)
            tracker._describe(tags, params, known=run.data.params)
        return tracker

    def logged_rounds(self) -> set[int]:
        """Return the rounds of which the store has metrics."""
        return set().union(*self._logged.values())

    def log_round(self, number: int, metrics: Metrics) -> None:
        """Log one round in one batch; see `log_rounds`."""
        self.log_rounds([(number, metrics)])

    def log_rounds(self, rounds: Iterable[tuple[int, Metrics]]) -> None:
        """Log (round, metrics), a round never torn apart; what the store has is not logged again.

        Metrics that are None, NaN or infinite are skipped (MLflow would store 1.8e308 for infinity).
        """
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        batch: list[Any] = []
        for number, metrics in rounds:
            points = [
                Metric(name, float(value), now, number)
                for name, value in metrics.items()
                if value is not None and isfinite(value) and number not in self._logged.get(name, ())
            ]
            if len(batch) + len(points) > METRICS_PER_BATCH:
                self._log(batch)
                batch = []
            batch += points
        self._log(batch)

    def log_artifacts(self, paths: Iterable[Path], folder: str | None = None) -> None:
        """Upload files, in `folder` of the run's artifacts; those of an earlier time are replaced."""
        with _one_line(self._uri):
            for path in paths:
                self._client.log_artifact(self.mlflow_run_id, str(path), folder)

    def finish(self, status: Status = "FINISHED") -> None:
        """Set the run's status and the time of its end."""
        with _one_line(self._uri):
            self._client.set_terminated(self.mlflow_run_id, status)

    def _log(self, batch: list[Any]) -> None:
        if not batch:
            return
        with _one_line(self._uri):
            self._client.log_batch(self.mlflow_run_id, metrics=batch, synchronous=True)
        for metric in batch:
            self._logged.setdefault(metric.key, set()).add(metric.step)

    def _describe(self, tags: Mapping[str, str], params: Mapping[str, Any], known: Mapping[str, str]) -> None:
        from mlflow.entities import Param, RunTag

        new = [
            Param(name, value[:PARAM_LENGTH]) for name, value in flatten(params).items() if name not in known
        ]
        for start in range(0, len(new), PARAMS_PER_BATCH):
            self._client.log_batch(self.mlflow_run_id, params=new[start : start + PARAMS_PER_BATCH])
        marks = [RunTag(name, str(value)[:TAG_LENGTH]) for name, value in tags.items()]
        self._client.log_batch(self.mlflow_run_id, tags=marks)


def forget(uri: str, experiment: str, run_id: str) -> None:
    """Delete the MLflow run of `run_id`, if there is one; a new one is created when it is run again.

    Raises:
        TrackingError: if the store fails.
    """
    with _one_line(uri):
        client = _client(uri)
        found = client.get_experiment_by_name(experiment)
        if found is not None:
            for run in _runs(client, found.experiment_id, run_id):
                client.delete_run(run.info.run_id)


def is_finished(uri: str, experiment: str, run_id: str) -> bool:
    """Return whether the store has the run of `run_id` in `experiment`, and as finished.

    Raises:
        TrackingError: if the store fails.
    """
    with _one_line(uri):
        client = _client(uri)
        found = client.get_experiment_by_name(experiment)
        runs = _runs(client, found.experiment_id, run_id) if found is not None else []
        return any(run.info.status == "FINISHED" for run in runs)


def flatten(params: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return `{"split.alpha": "1.0"}` of `{"split": {"alpha": 1.0}}`."""
    flat: dict[str, str] = {}
    for name, value in params.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = str(value)
    return flat


def _splits(uri: str) -> bool:
    try:
        _ = urlsplit(uri).port
    except ValueError:
        return False
    return True


def _client(uri: str) -> Any:
    _reach(uri)
    from mlflow.tracking import MlflowClient

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return MlflowClient(tracking_uri=uri)


def _reach(uri: str) -> None:
    """Fail at once where MLflow would retry for minutes."""
    scheme = urlsplit(uri).scheme
    if scheme == "sqlite":
        with closing(sqlite3.connect(uri.removeprefix("sqlite:///"))) as database:
            database.execute("PRAGMA schema_version")
    elif scheme in ("http", "https"):
        try:
            urllib.request.urlopen(f"{shown(uri).rstrip('/')}/health", timeout=REACH_SECONDS).close()
        except urllib.error.HTTPError as error:
            # An answer all the same: whether it lets us in is for MLflow to find out.
            error.close()
        except OSError as error:
            raise TrackingError(
                f"no MLflow server answers at {shown(uri)} ({getattr(error, 'reason', error)}); start it, or "
                "unset MLFLOW_TRACKING_URI to keep the metrics in a file beside the runs"
            ) from error


def _experiment(client: Any, uri: str, name: str, artifact_root: Path) -> str:
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        location = None if uri.startswith("http") else artifact_root.absolute().as_uri()
        try:
            return str(client.create_experiment(name, artifact_location=location))
        except MlflowException:
            # Another run of the grid was first.
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    if found.lifecycle_stage == "deleted":
        raise TrackingError(
            f"experiment '{name}' in {shown(uri)} was deleted; bring it back with `mlflow experiments "
            f"restore --experiment-id {found.experiment_id}`, or use another name"
        )
    return str(found.experiment_id)


def _runs(client: Any, experiment_id: str, run_id: str) -> Any:
    return client.search_runs([experiment_id], f"tags.`{RUN_ID_TAG}` = '{run_id}'")


def _history(client: Any, run: Any) -> dict[str, set[int]]:
    return {
        name: {metric.step for metric in client.get_metric_history(run.info.run_id, name)}
        for name in run.data.metrics
    }


@contextmanager
def _one_line(uri: str) -> Iterator[None]:
    """Turn whatever a store fails with into one line that names the store."""
    # Only a default: nothing of ours should call home, or wait for it on a cluster without a way out.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from alembic.util import CommandError
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, CommandError, sqlite3.Error, OSError, ImportError) as error:
        cause = str(error).strip().splitlines() or [type(error).__name__]
        raise TrackingError(f"MLflow at {shown(uri)}: {cause[0]}") from error
