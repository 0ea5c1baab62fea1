"""One MLflow run a run: found again, no metric twice, none missing."""

from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow import mlflow_tracker, runs
from fedgrid.grids.trackers.mlflow.mlflow_tracker import MlflowTracker
from fedgrid.grids.trackers.mlflow.store import default_uri
from fedgrid.grids.trackers.tracker import TrackedGrid, TrackedRun
from tests.helpers.command_line import new_storage
from tests.helpers.logged_runs import build_config

AT = 1_700_000_000_000
"""Unix time in milliseconds."""


@pytest.fixture
def storage(tmp_path: Path, own_store: None) -> Path:
    """Return a storage whose path has a space."""
    return new_storage(tmp_path / "my runs")


@pytest.fixture
def opened(storage: Path) -> Callable[[], MlflowTracker]:
    """Make the tracker as a process that starts would."""
    return lambda: MlflowTracker(TrackedGrid("mine", Storage(storage)))


@pytest.fixture
def client(storage: Path) -> MlflowClient:
    return MlflowClient(tracking_uri=default_uri(storage))


@pytest.fixture
def run(storage: Path) -> TrackedRun:
    return TrackedRun.from_config(build_config(0), Storage(storage))


def log_rounds(tracker: MlflowTracker, run: TrackedRun, rounds: dict[int, dict[str, Any]]) -> None:
    for number, scores in rounds.items():
        tracker.round(run, number, scores, AT)
    tracker.flush()


def points(
    client: MlflowClient, tracker: MlflowTracker, run: TrackedRun, key: str
) -> list[tuple[int, float]]:
    history = client.get_metric_history(tracker.runs[run.config.run_id].info.run_id, key)
    return sorted((metric.step, metric.value) for metric in history)


def test_a_new_run_takes_two_calls_a_round_one_and_runs_are_found_with_one_search(
    opened, storage, run, monkeypatch
):
    calls: list[str] = []

    def counting(name: str) -> Callable[..., Any]:
        plain = getattr(MlflowClient, name)

        def call(*given: Any, **more: Any) -> Any:
            calls.append(name)
            return plain(*given, **more)

        return call

    for name in ("create_run", "log_batch", "search_runs", "get_metric_history", "update_run", "get_run"):
        monkeypatch.setattr(MlflowClient, name, counting(name))
    tracker = opened()
    tracker.opened(run)
    calls.clear()
    other = TrackedRun.from_config(build_config(1), Storage(storage))
    tracker.opened(other)
    assert calls == ["create_run", "log_batch"]
    log_rounds(tracker, run, {1: {"ari": 0.5}, 2: {"ari": 0.5}})
    assert calls == ["create_run", "log_batch", "log_batch"]
    calls.clear()
    there = opened().runs
    assert [runs.read_logged_rounds(there[each.config.run_id]) for each in (run, other)] == [2, 0]
    assert calls == ["search_runs"]


def test_all_pages_of_runs_are_read(opened, storage, monkeypatch):
    monkeypatch.setattr(runs, "RUNS_PER_PAGE", 2)
    tracker, configs = opened(), [build_config(seed) for seed in range(5)]
    for config in configs:
        tracker.opened(TrackedRun.from_config(config, Storage(storage)))
    assert {*opened().runs} == {*(config.run_id for config in configs), mlflow_tracker.GRID_KEY}


def test_a_run_killed_before_its_parameters_were_written_gets_them(opened, client, run, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(runs, "log_params", lambda *given: None)
        opened().opened(run)
    tracker = opened()
    tracker.opened(run)
    there = client.get_run(tracker.runs[run.config.run_id].info.run_id)
    assert there.data.params["training.rounds"] == "4"


def test_a_batch_that_seemed_to_fail_and_arrives_later_is_stored_once(opened, client, run):
    """Both processes think that the store has nothing; the points have the same time."""
    tracker = opened()
    tracker.opened(run)
    lagging = opened()
    log_rounds(tracker, run, {1: {"ari": 0.5}, 2: {"ari": 0.75}})
    log_rounds(lagging, run, {1: {"ari": 0.5}, 2: {"ari": 0.75}, 3: {"ari": 1.0}})
    assert points(client, tracker, run, "clustering/ari") == [(1, 0.5), (2, 0.75), (3, 1.0)]


def test_what_was_not_measured_is_not_logged(opened, client, run):
    tracker = opened()
    tracker.opened(run)
    log_rounds(tracker, run, {1: {"temperature": nan, "ami": None, "silhouette": inf, "ari": True}})
    there = client.get_run(tracker.runs[run.config.run_id].info.run_id)
    assert there.data.metrics == {"clustering/ari": 1.0, "round": 1.0}


def test_catching_up_takes_few_batches_and_tears_no_round_apart(opened, run, monkeypatch):
    """30 metrics and `round` itself: 32 rounds fill a batch of at most 1000, 70 rounds 32 + 32 + 6."""
    tracker = opened()
    tracker.opened(run)
    batches: list[list[int]] = []
    monkeypatch.setattr(
        MlflowClient,
        "log_batch",
        lambda *_, metrics, **__: batches.append([metric.step for metric in metrics]),
    )
    monkeypatch.setattr(mlflow_tracker, "select_metrics", lambda scores: scores)
    scores = {f"metric_{index}": 1.0 for index in range(30)}
    log_rounds(tracker, run, dict.fromkeys(range(1, 71), scores))
    assert [len(set(steps)) for steps in batches] == [32, 32, 6]
    assert [len(steps) for steps in batches] == [992, 992, 186]


def test_totals_are_logged_when_they_change(opened, client, run):
    tracker = opened()
    tracker.opened(run)
    tracker.log_numbers(run.config.run_id, {"cost/seconds": 5.5, "cost/peak_memory_mb": 100})
    again = opened()
    again.log_numbers(run.config.run_id, {"cost/seconds": 5.5, "cost/peak_memory_mb": 200})
    assert points(client, again, run, "cost/seconds") == [(0, 5.5)]
    assert points(client, again, run, "cost/peak_memory_mb") == [(0, 100), (0, 200)]


def test_long_values_and_many_parameters_are_accepted(opened, client):
    """MLflow takes 6000 characters a value and 100 parameters a batch."""
    opened()
    there = client.create_run(client.get_experiment_by_name("mine").experiment_id)
    params = {f"key{index}": index for index in range(150)} | {"long": "x" * 7000}
    runs.log_params(client, there, params)
    logged = client.get_run(there.info.run_id).data.params
    assert (len(logged), logged["long"]) == (151, "x" * 6000)


def test_artifacts_lie_under_the_artifact_root_whatever_the_directory(
    opened, client, storage, run, monkeypatch
):
    (storage / "clients.parquet").write_text("rows")
    (storage / "elsewhere").mkdir()
    monkeypatch.chdir(storage / "elsewhere")
    tracker = opened()
    tracker.opened(run)
    tracker.artifact(run, storage / "clients.parquet")
    tracker.artifact(run, storage / "clients.parquet", "records")
    mlflow_run_id = tracker.runs[run.config.run_id].info.run_id
    assert {item.path for item in client.list_artifacts(mlflow_run_id)} == {"clients.parquet", "records"}
    kept = storage / "mlartifacts" / mlflow_run_id / "artifacts"
    assert (kept / "records" / "clients.parquet").read_text() == "rows"
    assert not list((storage / "elsewhere").iterdir())


@pytest.mark.parametrize("ended", [None, AT])
def test_a_run_ends_no_earlier_than_it_started_although_the_clock_was_set_back(opened, client, ended):
    ahead = 10 * AT
    opened()
    there = client.create_run(client.get_experiment_by_name("mine").experiment_id, ahead)
    runs.end_run(client, there, "FINISHED", ended)
    assert client.get_run(there.info.run_id).info.end_time == ahead


def test_a_deleted_experiment_is_an_error_that_says_how_to_restore_it(opened, client):
    opened()
    client.delete_experiment(client.get_experiment_by_name("mine").experiment_id)
    with pytest.raises(TrackerFailed, match="'mine' in .* was deleted.*`mlflow experiments restore"):
        opened()
