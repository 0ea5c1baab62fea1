"""What MLflow lacks is logged from the runs' folders, whatever became of the runs."""

from platform import node

import pytest

from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.trackers.mlflow.mlflow_tracker import MlflowTracker
from fedgrid.grids.trackers.names import format_run_name, read_origin
from fedgrid.grids.trackers.tracker import TrackedGrid, TrackedRun
from tests.helpers.logged_runs import ROUNDS, build_config, new_session, write_run

FINISHED, FAILED, STOPPED, UNTOUCHED = RUNS = [build_config(seed) for seed in range(4)]


@pytest.fixture(autouse=True)
def recorded(storage, own_store):
    write_run(storage, FINISHED, ROUNDS)
    write_run(storage, FAILED, 2)
    (build_folder_path(storage, FAILED) / "failed.json").write_text('{"cause": "client 3", "attempts": 3}\n')
    write_run(storage, STOPPED, 1)


def synced(storage, runs=RUNS, **given):
    return new_session(storage, text="dataset: digits\n", is_launch=False).sync_runs(runs, **given)


def test_sync_logs_finished_failed_and_unfinished_runs_once(storage, store):
    assert synced(storage) == (3, 7)
    assert synced(storage) == (0, 0)
    assert (store.status(FINISHED), store.steps(FINISHED)) == ("FINISHED", [1, 2, 3, 4])
    assert (store.status(FAILED), store.steps(FAILED)) == ("FAILED", [1, 2])
    assert (store.status(STOPPED), store.steps(STOPPED)) == ("KILLED", [1])
    assert format_run_name(UNTOUCHED) not in store.runs
    assert store.artifacts("mine") == {"preset.yaml"}
    assert store.runs["mine"].info.status == "KILLED", "not all of its runs are finished"
    grid = TrackedGrid("mine", Storage(storage))
    assert not MlflowTracker.lacks(TrackedRun.from_config(FINISHED, grid.storage), grid)
    write_run(storage, STOPPED, 3)
    assert synced(storage) == (1, 2), "only what is missing"
    assert store.steps(STOPPED) == [1, 2, 3]


def test_figures_of_finished_runs_are_drawn_if_asked_for(storage, store):
    synced(storage)
    assert synced(storage, with_figures=True) == (1, 0)
    assert store.artifacts(format_run_name(FINISHED), "figures") == {"figures/run.png"}
    assert (store.status(FINISHED), store.steps(FINISHED)) == ("FINISHED", [1, 2, 3, 4])
    assert synced(storage) == (0, 0)


def test_sync_with_nothing_to_do_leaves_the_grids_source(storage, store, monkeypatch):
    """Also of a grid whose runs are all finished."""
    for runs in (RUNS, [FINISHED]):
        monkeypatch.setattr("sys.argv", ["fedgrid", "run", "mine"])
        synced(storage, runs)
        monkeypatch.setattr("sys.argv", ["fedgrid", "sync", "mine"])
        assert synced(storage, runs) == (0, 0)
        assert store.runs["mine"].data.tags["mlflow.source.name"] == "fedgrid run mine"


def test_sync_with_something_to_log_leaves_the_source_of_the_grid_and_of_known_runs(
    storage, store, monkeypatch
):
    monkeypatch.setattr("sys.argv", ["fedgrid", "run", "mine"])
    synced(storage)
    monkeypatch.setattr("sys.argv", ["fedgrid", "sync", "mine"])
    monkeypatch.setattr("fedgrid.grids.trackers.names.node", lambda: "another machine")
    read_origin.cache_clear()
    try:
        write_run(storage, STOPPED, 3)
        write_run(storage, UNTOUCHED, 2)
        assert synced(storage) == (2, 4)
    finally:
        read_origin.cache_clear()
    made = {
        name: (found.data.tags["mlflow.source.name"], found.data.tags["host"])
        for name, found in store.runs.items()
    }
    assert made.pop(format_run_name(UNTOUCHED)) == ("fedgrid sync mine", "another machine"), (
        "its launch is not known"
    )
    assert set(made.values()) == {("fedgrid run mine", node())}
    assert store.runs["mine"].data.tags["command"] == "fedgrid run mine"


def test_sync_asks_the_store_instead_of_the_marks(storage, store):
    """Someone deleted a run in the UI, and a mark was lost."""
    synced(storage)
    store.client.delete_run(store.runs[format_run_name(FINISHED)].info.run_id)
    assert synced(storage) == (1, 4)
    (build_folder_path(storage, FINISHED) / "mlflow.json").unlink()
    assert synced(storage) == (1, 0)
    assert store.steps(FINISHED) == [1, 2, 3, 4]
