"""A run's MLflow side: logged once, found again, and never in the way of the training."""

import os
from pathlib import Path

import pytest
from command_line import new_storage
from mlflow.tracking import MlflowClient

from engine.errors import ConfigError
from engine.pool import InProcessPool
from engine.run_config import complete
from engine.run_folder import folder_of
from engine.session import Session
from grids.track import RunLog
from tracking.scores import of_round

NOWHERE = "http://127.0.0.1:9"
"""The discard port: nothing listens there."""
CONFIG = complete({"clients": 3, "training": {"rounds": 2}, "algorithm": "bnc"}, Path("unused"))


@pytest.fixture(autouse=True)
def own_store(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture
def storage(tmp_path):
    return new_storage(tmp_path / "runs")


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def log(storage, warnings):
    return RunLog("mine", storage, warnings.append)


@pytest.fixture
def session(tmp_path):
    return Session(InProcessPool(), tmp_path)


@pytest.fixture
def folder(storage):
    return folder_of(storage, CONFIG)


def scored(session):
    record = session.next_round()
    return of_round(record.round, record.clients)


def store(storage):
    client = MlflowClient(tracking_uri=f"sqlite:///{storage / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("mine")
    return client, client.search_runs([experiment.experiment_id])


def steps(storage, metric="temperature"):
    client, [run] = store(storage)
    return [point.step for point in client.get_metric_history(run.info.run_id, metric)]


def test_a_run_is_named_tagged_and_described(storage, log, session, folder, warnings):
    session.open(CONFIG, storage)
    log.open(CONFIG, folder)
    log.round(1, scored(session))
    log.close(folder, "FINISHED")
    client, [run] = store(storage)
    assert run.info.run_name == "digits-3-nonoverlapping-balanced-bnc-s0"
    assert run.info.status == "FINISHED"
    tags = run.data.tags
    assert tags["fedgrid.run_id"] == CONFIG.run_id
    assert tags["scenario"] == "digits-3-nonoverlapping-balanced"
    assert (tags["algorithm"], tags["seed"], tags["clients"], tags["model"]) == ("bnc", "0", "3", "digitnet")
    assert tags["commit"]
    assert "torch " in tags["versions"]
    assert run.data.params["training.rounds"] == "2"
    assert len(run.data.metrics) >= 20
    kept = {artifact.path for artifact in client.list_artifacts(run.info.run_id)}
    assert {"config.json", "rounds.parquet", "clients.parquet", "timings.parquet", "log.txt"} <= kept
    assert warnings == []


def test_rounds_that_the_store_lacks_are_logged_from_disk_once(storage, log, session, folder):
    """The first round was trained while nobody logged; the second is logged twice by mistake."""
    session.open(CONFIG, storage)
    scored(session)
    log.open(CONFIG, folder)
    second = scored(session)
    log.round(2, second)
    log.round(2, second)
    log.close(folder, "FINISHED")
    log.open(CONFIG, folder)
    log.close(folder, "FINISHED")
    assert steps(storage) == [1, 2]
    assert steps(storage, "personalised_accuracy") == [1, 2]


def test_only_a_finished_run_is_had(storage, log, session, folder):
    assert not log.has(CONFIG)
    session.open(CONFIG, storage)
    log.open(CONFIG, folder)
    assert not log.has(CONFIG)
    log.close(folder, "KILLED")
    assert not log.has(CONFIG)
    log.open(CONFIG, folder)
    log.close(folder, "FINISHED")
    assert log.has(CONFIG)


def test_a_forgotten_run_is_a_new_one_the_next_time(storage, log, session, folder):
    session.open(CONFIG, storage)
    log.open(CONFIG, folder)
    log.close(folder, "FINISHED")
    [before] = store(storage)[1]
    log.forget(CONFIG)
    assert store(storage)[1] == []
    log.open(CONFIG, folder)
    [after] = store(storage)[1]
    assert after.info.run_id != before.info.run_id


def test_a_server_that_is_away_is_told_once_and_stops_nothing(
    storage, session, folder, warnings, monkeypatch
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", NOWHERE)
    log = RunLog("mine", storage, warnings.append)
    log.prepare()
    session.open(CONFIG, storage)
    log.open(CONFIG, folder)
    log.round(1, scored(session))
    log.close(folder, "FINISHED")
    log.forget(CONFIG)
    assert log.has(CONFIG), "or a finished run would be opened again for a server that is away"
    [warning] = warnings
    assert warning.startswith(f"no MLflow server answers at {NOWHERE} ")
    assert warning.endswith("; training goes on, the records are on disk")


def test_a_malformed_address_is_refused(storage, monkeypatch):
    monkeypatch.setitem(os.environ, "MLFLOW_TRACKING_URI", "bogus")
    with pytest.raises(ConfigError, match="MLFLOW_TRACKING_URI is 'bogus'"):
        RunLog("mine", storage, print)
