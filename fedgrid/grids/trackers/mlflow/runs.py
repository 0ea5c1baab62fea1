"""An experiment of MLflow and its runs: finding all by one search, logging parameters, ending, deleting."""

import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from fedgrid.engine.runtime.leases.storage_id import read_storage_id
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow.own_store import prepare_store
from fedgrid.grids.trackers.mlflow.store import artifact_root, is_missing, open_client, tracking_uri
from fedgrid.redaction import redact_secrets

RUN_ID_TAG = "fedgrid.run_id"
STORAGE_TAG = "fedgrid.storage_id"
ROUND = "round"
"""Metric that counts rounds."""
RUNS_PER_PAGE = 100
PARAMS_PER_BATCH, PARAM_LENGTH, TAG_LENGTH = 100, 6000, 8000
"""Limits of MLflow: parameters in a request, and characters of a parameter and of a tag."""


def open_experiment(uri: str, name: str, storage: Path) -> tuple[Any, str]:
    """Open an experiment of a store; both are created if they are missing.

    The artifacts of a new experiment go to a folder in `storage`, unless the store is a server, which has its
    own.

    Args:
        uri: Address of the store.
        name: Name of the experiment, which is the grid's.
        storage: Root folder of the storage.

    Returns:
        A client of the store, and MLflow's id of the experiment.

    Raises:
        TrackerFailed: The experiment was deleted, or the store fails.
    """
    artifacts = artifact_root(storage)
    prepare_store(uri, artifacts)
    client = open_client(uri)
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        location = None if uri.startswith("http") else artifacts.resolve().as_uri()
        return client, str(client.create_experiment(name, artifact_location=location))
    # MLflow keeps the name of a deleted experiment, and refuses another one of that name.
    if experiment.lifecycle_stage == "deleted":
        raise TrackerFailed(
            f"experiment '{name}' in {uri} was deleted; restore it with `mlflow "
            f"experiments restore --experiment-id {experiment.experiment_id}`, or use another name"
        )
    return client, str(experiment.experiment_id)


def find_runs(client: Any, experiment_id: str, storage_id: str) -> dict[str, Any]:
    """Find MLflow's runs of one storage, by run id.

    Another storage, such as a copy, may have runs of the same ids in the same store; their `STORAGE_TAG`
    differs.
    """
    runs: dict[str, Any] = {}
    condition = f"tags.`{STORAGE_TAG}` = '{storage_id}'"
    # MLflow returns runs by pages; a grid may have thousands.
    token = None
    while True:
        page = client.search_runs([experiment_id], condition, max_results=RUNS_PER_PAGE, page_token=token)
        runs |= {run.data.tags[RUN_ID_TAG]: run for run in page if RUN_ID_TAG in run.data.tags}
        token = page.token
        if not token:
            return runs


def read_logged_rounds(run: Any) -> int:
    """Read the number of the last round that is logged, 0 if there is none."""
    return int(run.data.metrics.get(ROUND, 0))


def log_params(client: Any, run: Any, params: Mapping[str, Any]) -> None:
    """Log the parameters of a run, which may be nested."""
    from mlflow.entities import Param

    flat = [Param(key, redact_secrets(value)[:PARAM_LENGTH]) for key, value in flatten_params(params)]
    for first in range(0, len(flat), PARAMS_PER_BATCH):
        client.log_batch(run.info.run_id, params=flat[first : first + PARAMS_PER_BATCH])


def end_run(client: Any, run: Any, status: str, ended_ms: int | None = None) -> None:
    """Set a run's status and the time of its end.

    It ends no earlier than it started, although a clock may have been set back since: MLflow would show a
    negative duration.

    Args:
        client: An `MlflowClient`.
        run: MLflow's run.
        status: FINISHED, FAILED or KILLED.
        ended_ms: Unix time in milliseconds; None for now.
    """
    ended_ms = max(run.info.start_time, int(time.time() * 1000) if ended_ms is None else ended_ms)
    client.set_terminated(run.info.run_id, status, ended_ms)


def delete_runs(name: str, storage: Storage, run_ids: Collection[str] | None = None) -> int:
    """Mark runs of a storage in a grid's experiment as deleted, and return their number.

    `mlflow gc` removes them from the store; until then they can be restored.

    Args:
        name: The grid's name.
        storage: Storage of the runs.
        run_ids: The runs to delete; None for all, with the grid's own.

    Raises:
        TrackerFailed: The store fails; some of the runs may be marked.
    """
    uri = tracking_uri(storage.root)
    if is_missing(uri):
        return 0
    client = open_client(uri)
    experiment = client.get_experiment_by_name(name)
    if experiment is None or experiment.lifecycle_stage == "deleted":
        return 0
    runs = find_runs(client, str(experiment.experiment_id), read_storage_id(storage.root))
    # Marked one by one: MLflow has no request for several runs.
    selected = [run for run_id, run in runs.items() if run_ids is None or run_id in run_ids]
    for run in selected:
        client.delete_run(run.info.run_id)
    return len(selected)


def flatten_params(params: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested parameters with dotted names: `split.alpha`, `1.0` of `{"split": {"alpha": 1.0}}`."""
    for name, value in params.items():
        if isinstance(value, Mapping):
            yield from flatten_params(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)


def fit_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Remove secrets from tags, and cut their values to MLflow's limit."""
    return {key: redact_secrets(value)[:TAG_LENGTH] for key, value in tags.items()}
