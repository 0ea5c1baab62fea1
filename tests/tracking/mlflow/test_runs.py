"""One MLflow run a run: found again, no metric twice, none missing."""

from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from fedgrid.tracking.mlflow import runs as mlflow_runs
from fedgrid.tracking.mlflow.runs import Experiment, LoggedRun, flatten
from fedgrid.tracking.mlflow.store import TrackingError, default_uri
from tests.helpers.command_line import new_storage

AT = 1_700_000_000_000
"""Unix time in milliseconds."""
START = {"name": "digits-fedavg", "tags": {"algorithm": "fedavg"}, "params": {"seed": 1}}


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    return new_storage(tmp_path / "my runs")


@pytest.fixture
def opened(storage: Path) -> Callable[[], Experiment]:
    """Open the experiment as a process that starts would."""
    return lambda: Experiment.open(default_uri(storage), "quickstart", storage / "artifacts", "here")


@pytest.fixture
def client(storage: Path) -> MlflowClient:
    return MlflowClient(tracking_uri=default_uri(storage))


def start(experiment: Experiment, run_id: str = "abc", **changes: Any) -> LoggedRun:
    return experiment.start(run_id, **(START | changes))


def points(client: MlflowClient, entry: LoggedRun, name: str) -> list[tuple[int, float]]:
    history = client.get_metric_history(entry.mlflow_run_id, name)
    return sorted((metric.step, metric.value) for metric in history)


def test_a_run_is_created_with_its_name_tags_and_flat_parameters(opened, client):
    entry = start(opened(), params={"seed": 1, "training": {"rounds": 5, "momentum": 0.0}})
    run = client.get_run(entry.mlflow_run_id)
    assert (run.info.status, run.info.run_name) == ("RUNNING", "digits-fedavg")
    assert (run.data.tags["algorithm"], run.data.tags["fedgrid.run_id"]) == ("fedavg", "abc")
    assert run.data.params == {"seed": "1", "training.rounds": "5", "training.momentum": "0.0"}


def test_a_new_run_takes_two_calls_a_round_one_and_runs_are_found_with_one_search(opened, monkeypatch):
    calls: list[str] = []

    def counting(name: str) -> Callable[..., Any]:
        plain = getattr(MlflowClient, name)

        def call(*given: Any, **more: Any) -> Any:
            calls.append(name)
            return plain(*given, **more)

        return call

    for name in ("create_run", "log_batch", "search_runs", "get_metric_history", "update_run"):
        monkeypatch.setattr(MlflowClient, name, counting(name))
    experiment = opened()
    for run_id in ("a", "b"):
        start(experiment, run_id)
    assert calls == ["create_run", "log_batch"] * 2
    experiment.log_rounds(experiment.entries["a"], [(1, {"ari": 0.5}, AT), (2, {"ari": 0.5}, AT)])
    assert calls == ["create_run", "log_batch"] * 2 + ["log_batch"]
    calls.clear()
    assert {run_id: entry.rounds for run_id, entry in opened().entries.items()} == {"a": 2, "b": 0}
    assert calls == ["search_runs"]


def test_all_pages_of_runs_are_read(opened, monkeypatch):
    monkeypatch.setattr(mlflow_runs, "RUNS_PER_PAGE", 2)
    experiment = opened()
    for number in range(5):
        start(experiment, str(number))
    assert sorted(opened().entries) == ["0", "1", "2", "3", "4"]


def test_a_resumed_run_is_the_same_mlflow_run_and_runs_again(opened, client):
    experiment = opened()
    first = start(experiment)
    experiment.finish(first, "KILLED")
    assert client.get_run(first.mlflow_run_id).info.status == "KILLED"
    second = start(opened(), tags={"commit": "abc"}, params={"seed": 2})
    assert second.mlflow_run_id == first.mlflow_run_id
    run = client.get_run(first.mlflow_run_id)
    assert run.info.status == "RUNNING"
    assert (run.data.tags["algorithm"], run.data.tags["commit"]) == ("fedavg", "abc")
    assert run.data.params == {"seed": "1"}, "MLflow refuses to change what is there"
    assert start(opened(), "another").mlflow_run_id != first.mlflow_run_id


def test_a_run_killed_before_its_parameters_were_written_gets_them(opened, client):
    experiment = opened()
    client.create_run(experiment.experiment_id, tags={"fedgrid.run_id": "abc"})
    entry = start(opened())
    assert client.get_run(entry.mlflow_run_id).data.params == {"seed": "1"}


def test_rounds_that_follow_are_logged_once(opened, client):
    experiment = opened()
    experiment.log_rounds(start(experiment), [(1, {"ari": 0.0, "clusters": 1}, AT), (2, {"ari": 0.5}, AT)])
    again = opened()
    entry = start(again)
    assert entry.rounds == 2
    again.log_rounds(entry, [(number, {"ari": number / 4, "clusters": number}, AT) for number in (3, 4)])
    assert (entry.rounds, opened().entries["abc"].rounds) == (4, 4)
    assert points(client, entry, "ari") == [(1, 0.0), (2, 0.5), (3, 0.75), (4, 1.0)]
    assert points(client, entry, "clusters") == [(1, 1), (3, 3), (4, 4)]
    assert points(client, entry, "round") == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_a_batch_that_seemed_to_fail_and_arrives_later_is_stored_once(opened, client):
    """Both processes think that the store has nothing; the points have the same time."""
    experiment, other = opened(), opened()
    entry = start(experiment)
    lagging = LoggedRun(entry.mlflow_run_id)
    experiment.log_rounds(entry, [(1, {"ari": 0.5}, AT), (2, {"ari": 0.75}, AT)])
    other.log_rounds(lagging, [(1, {"ari": 0.5}, AT), (2, {"ari": 0.75}, AT), (3, {"ari": 1.0}, AT)])
    assert points(client, entry, "ari") == [(1, 0.5), (2, 0.75), (3, 1.0)]


def test_what_was_not_measured_is_not_logged(opened, client):
    experiment = opened()
    entry = start(experiment)
    experiment.log_rounds(entry, [(1, {"loss": nan, "f1": None, "gap": inf, "ari": 0.5, "right": True}, AT)])
    assert client.get_run(entry.mlflow_run_id).data.metrics == {"ari": 0.5, "right": 1.0, "round": 1.0}


def test_catching_up_takes_few_batches_and_tears_no_round_apart(opened, monkeypatch):
    """30 metrics and `round` itself: 32 rounds fill a batch of at most 1000, 70 rounds 32 + 32 + 6."""
    experiment = opened()
    entry = start(experiment)
    batches: list[list[int]] = []
    monkeypatch.setattr(
        MlflowClient,
        "log_batch",
        lambda *_, metrics, **__: batches.append([metric.step for metric in metrics]),
    )
    metrics = {f"metric_{index}": 1.0 for index in range(30)}
    experiment.log_rounds(entry, [(number, metrics, AT) for number in range(1, 71)])
    assert entry.rounds == 70
    assert [len(set(steps)) for steps in batches] == [32, 32, 6]
    assert [len(steps) for steps in batches] == [992, 992, 186]


def test_totals_are_logged_when_they_change(opened, client):
    experiment = opened()
    experiment.log_totals(start(experiment), {"cost/seconds": 5.5, "cost/peak_memory_mb": 100})
    again = opened()
    entry = start(again)
    again.log_totals(entry, {"cost/seconds": 5.5, "cost/peak_memory_mb": 200})
    assert points(client, entry, "cost/seconds") == [(0, 5.5)]
    assert points(client, entry, "cost/peak_memory_mb") == [(0, 100), (0, 200)]


def test_long_values_and_many_parameters_are_accepted(opened, client):
    """MLflow takes 6000 characters a value and 100 parameters a batch."""
    params = {f"key{index}": index for index in range(150)} | {"long": "x" * 7000}
    run = client.get_run(start(opened(), params=params).mlflow_run_id)
    assert len(run.data.params) == 151
    assert run.data.params["long"] == "x" * 6000


def test_nested_parameters_are_laid_flat():
    flat = dict(flatten({"a": {"b": 1, "c": {"d": None}}, "e": "f"}))
    assert flat == {"a.b": "1", "a.c.d": "None", "e": "f"}


def test_artifacts_lie_under_the_artifact_root_whatever_the_directory(opened, client, storage, monkeypatch):
    (storage / "clients.parquet").write_text("rows")
    (storage / "elsewhere").mkdir()
    monkeypatch.chdir(storage / "elsewhere")
    experiment = opened()
    entry = start(experiment)
    experiment.log_artifact(entry, storage / "clients.parquet")
    experiment.log_artifact(entry, storage / "clients.parquet", "records")
    names = {item.path for item in client.list_artifacts(entry.mlflow_run_id)}
    assert names == {"clients.parquet", "records"}
    kept = storage / "artifacts" / entry.mlflow_run_id / "artifacts"
    assert (kept / "records" / "clients.parquet").read_text() == "rows"
    assert not list((storage / "elsewhere").iterdir())


def test_a_finished_run_has_an_end(opened, client):
    experiment = opened()
    entry = start(experiment)
    experiment.finish(entry, "FINISHED")
    info = client.get_run(entry.mlflow_run_id).info
    assert info.status == entry.status == "FINISHED"
    assert info.end_time >= info.start_time


@pytest.mark.parametrize("ended", [None, AT])
def test_a_run_ends_no_earlier_than_it_started_although_the_clock_was_set_back(opened, client, ended):
    ahead = 10 * AT
    entry = start(opened(), started_ms=ahead)
    again = opened()
    again.finish(again.entries["abc"], "FINISHED", ended)
    assert client.get_run(entry.mlflow_run_id).info.end_time == ahead


def test_a_forgotten_run_starts_anew(opened):
    experiment = opened()
    first = start(experiment)
    experiment.forget("abc")
    experiment.forget("no such run")
    assert start(experiment).mlflow_run_id != first.mlflow_run_id
    assert len(opened().entries) == 1


def test_a_deleted_experiment_is_an_error_that_says_how_to_restore_it(opened, client):
    client.delete_experiment(opened().experiment_id)
    with pytest.raises(TrackingError, match="'quickstart' in .* was deleted.*`mlflow experiments restore"):
        opened()


def test_a_store_that_fails_while_logging_is_an_error_of_one_line(opened, monkeypatch):
    experiment = opened()
    entry = start(experiment)

    def fail(*_: object, **__: object) -> None:
        raise ConnectionError("connection reset\nwith details")

    monkeypatch.setattr(MlflowClient, "log_batch", fail)
    with pytest.raises(TrackingError, match=r"^MLflow at sqlite:.*: connection reset$"):
        experiment.log_rounds(entry, [(1, {"ari": 1.0}, AT)])
    assert entry.rounds == 0
