"""One MLflow run a run: found again, no metric twice, none missing."""

import socket
from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from tracking import mlflow_store
from tracking.mlflow_store import Tracker, TrackingError


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for the module: its schema takes seconds to create."""
    folder = tmp_path_factory.mktemp("my runs")
    mlflow_store.prepare(mlflow_store.default_uri(folder))
    return folder


@pytest.fixture
def open_run(storage: Path, request: pytest.FixtureRequest) -> Callable[..., Tracker]:
    def open_(**changes: Any) -> Tracker:
        given: dict[str, Any] = {
            "run_name": "digits-bnc",
            "run_id": request.node.name,
            "tags": {"algorithm": "bnc"},
            "params": {"seed": 1, "training": {"rounds": 5, "momentum": 0.0}},
            "artifact_root": storage / "artifacts",
        }
        return Tracker.open(mlflow_store.default_uri(storage), "quickstart", **(given | changes))

    return open_


def stored(storage: Path, tracker: Tracker) -> Any:
    return client(storage).get_run(tracker.mlflow_run_id)


def client(storage: Path) -> Any:
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=mlflow_store.default_uri(storage))


def points(storage: Path, tracker: Tracker, name: str) -> list[tuple[int, float]]:
    history = client(storage).get_metric_history(tracker.mlflow_run_id, name)
    return sorted((metric.step, metric.value) for metric in history)


def test_a_run_is_created_with_its_name_tags_and_flat_parameters(storage, open_run):
    run = stored(storage, open_run())
    assert run.info.status == "RUNNING"
    assert run.info.run_name == "digits-bnc"
    assert run.data.tags["algorithm"] == "bnc"
    assert run.data.tags["fedgrid.run_id"] == "test_a_run_is_created_with_its_name_tags_and_flat_parameters"
    assert run.data.params == {"seed": "1", "training.rounds": "5", "training.momentum": "0.0"}


def test_a_resumed_run_is_the_same_mlflow_run_and_runs_again(storage, open_run):
    first = open_run()
    first.finish("KILLED")
    assert stored(storage, first).info.status == "KILLED"
    second = open_run(tags={"commit": "abc"})
    assert second.mlflow_run_id == first.mlflow_run_id
    run = stored(storage, second)
    assert run.info.status == "RUNNING"
    assert (run.data.tags["algorithm"], run.data.tags["commit"]) == ("bnc", "abc")
    assert open_run(run_id="another").mlflow_run_id != first.mlflow_run_id


def test_resuming_logs_no_metric_twice_and_misses_none(storage, open_run):
    first = open_run()
    first.log_round(1, {"ari": 0.0, "clusters": 1})
    first.log_round(2, {"ari": 0.5})
    second = open_run()
    assert second.logged_rounds() == {1, 2}
    second.log_rounds([(number, {"ari": number / 4, "clusters": number}) for number in (1, 2, 3, 4)])
    second.log_round(4, {"ari": 1.0, "clusters": 4})
    assert points(storage, second, "ari") == [(1, 0.0), (2, 0.5), (3, 0.75), (4, 1.0)]
    assert points(storage, second, "clusters") == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_what_was_not_measured_is_not_logged(storage, open_run):
    tracker = open_run()
    tracker.log_round(1, {"loss": nan, "f1": None, "gap": inf, "ari": 0.5, "exactly_right": True})
    assert stored(storage, tracker).data.metrics == {"ari": 0.5, "exactly_right": 1.0}
    assert tracker.logged_rounds() == {1}


def test_catching_up_takes_few_batches_and_tears_no_round_apart(open_run, monkeypatch):
    """30 metrics a round: 33 rounds fill a batch of at most 1000, so 70 rounds take 33 + 33 + 4."""
    tracker = open_run()
    batches: list[list[int]] = []
    log_batch = tracker._client.log_batch

    def counting(run_id: str, metrics: list[Any], **rest: Any) -> None:
        batches.append([metric.step for metric in metrics])
        log_batch(run_id, metrics=metrics, **rest)

    monkeypatch.setattr(tracker._client, "log_batch", counting)
    metrics = {f"metric_{index}": 1.0 for index in range(30)}
    tracker.log_rounds((number, metrics) for number in range(1, 71))
    assert [len(set(steps)) for steps in batches] == [33, 33, 4]
    assert [len(steps) for steps in batches] == [990, 990, 120]
    tracker.log_round(71, metrics)
    assert len(batches) == 4
    tracker.log_rounds([(71, metrics)])
    assert len(batches) == 4


def test_long_values_and_many_parameters_are_accepted(storage, open_run):
    """MLflow takes 6000 characters a value and 100 parameters a batch."""
    params = {f"key{index}": index for index in range(150)} | {"long": "x" * 7000}
    run = stored(storage, open_run(params=params))
    assert len(run.data.params) == 151
    assert run.data.params["long"] == "x" * 6000


def test_parameters_that_a_killed_creation_lost_are_added_and_others_left_alone(storage, open_run):
    open_run(params={"seed": 1})
    run = stored(storage, open_run(params={"seed": 2, "rounds": 5}))
    assert run.data.params == {"seed": "1", "rounds": "5"}


def test_artifacts_lie_under_the_artifact_root_whatever_the_directory(
    storage, open_run, tmp_path, monkeypatch
):
    (tmp_path / "clients.parquet").write_text("rows")
    monkeypatch.chdir(tmp_path)
    tracker = open_run()
    tracker.log_artifacts([tmp_path / "clients.parquet"])
    tracker.log_artifacts([tmp_path / "clients.parquet"], "records")
    names = {item.path for item in client(storage).list_artifacts(tracker.mlflow_run_id)}
    assert names == {"clients.parquet", "records"}
    kept = storage / "artifacts" / tracker.mlflow_run_id / "artifacts"
    assert (kept / "records" / "clients.parquet").read_text() == "rows"
    assert [path.name for path in tmp_path.iterdir()] == ["clients.parquet"]


def test_a_finished_run_has_an_end(storage, open_run):
    tracker = open_run()
    tracker.finish()
    run = stored(storage, tracker)
    assert run.info.status == "FINISHED"
    assert run.info.end_time >= run.info.start_time


def test_a_forgotten_run_starts_anew(storage, open_run):
    uri = mlflow_store.default_uri(storage)
    first = open_run()
    first.log_round(1, {"ari": 0.5})
    mlflow_store.forget(uri, "quickstart", "test_a_forgotten_run_starts_anew")
    second = open_run()
    assert second.mlflow_run_id != first.mlflow_run_id
    assert second.logged_rounds() == set()
    mlflow_store.forget(uri, "quickstart", "no such run")
    mlflow_store.forget(uri, "no such experiment", "no such run")


def test_a_deleted_experiment_says_how_to_get_it_back(storage):
    uri = mlflow_store.default_uri(storage)
    given: dict[str, Any] = {
        "run_name": "r",
        "run_id": "r",
        "tags": {},
        "params": {},
        "artifact_root": storage,
    }
    Tracker.open(uri, "old", **given)
    found = client(storage).get_experiment_by_name("old")
    client(storage).delete_experiment(found.experiment_id)
    with pytest.raises(
        TrackingError, match="'old' in .* was deleted; bring it back with `mlflow experiments"
    ):
        Tracker.open(uri, "old", **given)


def test_the_default_store_is_an_absolute_sqlite_file(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    assert mlflow_store.tracking_uri(Path("runs")) == f"sqlite:///{tmp_path}/runs/mlflow.db"


@pytest.mark.parametrize(
    "uri", ["http://head:5000", "sqlite:////abs/mlflow.db", "postgresql+psycopg2://user:word@host/mlflow"]
)
def test_the_environment_names_another_store(uri, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert mlflow_store.tracking_uri(tmp_path) == uri


def test_a_relative_sqlite_file_is_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")
    assert mlflow_store.tracking_uri(tmp_path / "elsewhere") == f"sqlite:///{tmp_path}/mlflow.db"


@pytest.mark.parametrize(
    "uri", ["htp://host:5000", "./mlruns", "file:///tmp/mlruns", "http://", "sqlite:///"]
)
def test_an_address_that_is_none_is_refused_with_what_is_allowed(uri, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(TrackingError, match=r"MLFLOW_TRACKING_URI is '.*give sqlite:////absolute"):
        mlflow_store.tracking_uri(tmp_path)


def test_a_server_that_does_not_answer_is_one_line(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(TrackingError, match=f"at http://127.0.0.1:{port} .*refused.*; start it") as caught:
        mlflow_store.prepare(f"http://user:secret@127.0.0.1:{port}")
    assert "secret" not in str(caught.value)


def test_a_file_that_is_no_database_is_one_line(tmp_path):
    (tmp_path / "mlflow.db").write_text("not a database, but long enough to be read as one" * 50)
    with pytest.raises(TrackingError, match="mlflow.db: file is not a database$"):
        mlflow_store.prepare(mlflow_store.default_uri(tmp_path))


def test_a_store_that_fails_while_logging_is_one_line(open_run, monkeypatch):
    tracker = open_run()

    def fail(*_: object, **__: object) -> None:
        raise ConnectionError("connection reset\nwith details")

    monkeypatch.setattr(tracker._client, "log_batch", fail)
    with pytest.raises(TrackingError, match=r"^MLflow at sqlite:.*: connection reset$"):
        tracker.log_round(1, {"ari": 1.0})
    assert tracker.logged_rounds() == set()
