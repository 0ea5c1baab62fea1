"""Runs that are killed, interrupted, repeated, locked or failing: nothing is lost or duplicated."""

import shutil
import signal
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from fedgrid.grids.trackers.mlflow.view import TOTALS
from tests.helpers.command_line import fedgrid, new_storage, start_command, stop_command, wait_for_round
from tests.helpers.manifests import list_finished
from tests.helpers.stored_runs import CLOCKS

pytestmark = pytest.mark.usefixtures("in_mlflow")

ROUNDS = 12
RUN = ("run", "--clients", 4, f"training.rounds={ROUNDS}", "--algorithm", "ocfl-kmeans", "--json")
"""Digits, a tenth of a second a round. The first is reported at once, those after it a second later."""
OTHER = (
    "run",
    "--clients",
    4,
    f"training.rounds={ROUNDS}",
    "--algorithm",
    "fedavg",
    "--name",
    "other",
    "--json",
)
"""A grid of its own, with FedAvg: it shares rounds with the first."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    storage = new_storage(tmp_path_factory.mktemp("undisturbed"))
    assert fedgrid(*RUN, "--in-process", "--storage", storage).code == 0
    return storage


@pytest.fixture
def storage(tmp_path):
    return new_storage(tmp_path / "runs")


@pytest.fixture
def finished(undisturbed, tmp_path):
    """A storage with the finished run."""
    return shutil.copytree(undisturbed, tmp_path / "finished")


def contents(storage: Path, algorithm: str = "") -> dict[str, bytes]:
    """Return file -> bytes of the storage's only run of an algorithm, without the files of `CLOCKS`."""
    [folder] = (path.parent for path in storage.glob(f"*-{algorithm}*/config.json"))
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name not in CLOCKS)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def mlflow_runs(storage: Path, experiment: str = "runs"):
    client = MlflowClient(tracking_uri=f"sqlite:///{storage / 'mlflow.db'}")
    found = client.get_experiment_by_name(experiment)
    return client, client.search_runs([found.experiment_id], "tags.`mlflow.parentRunId` != ''")


def check_mlflow(storage: Path, experiment: str = "runs") -> None:
    """Check that there is one run, finished, with each metric logged once a round."""
    client, [run] = mlflow_runs(storage, experiment)
    assert run.info.status == "FINISHED"
    steps = {
        name: [metric.step for metric in client.get_metric_history(run.info.run_id, name)]
        for name in run.data.metrics
        if name not in TOTALS
    }
    assert len(steps) >= 20
    clustered = steps.pop("clustering/silhouette", [ROUNDS])
    assert clustered == list(range(clustered[0], ROUNDS + 1)), "there is none of a single cluster"
    assert steps == {name: list(range(1, ROUNDS + 1)) for name in steps}


@pytest.mark.slow
def test_killed_run_resumes_beside_another_driver_and_both_end_with_the_bytes_of_each_alone(
    undisturbed, storage, tmp_path
):
    """Killed in a process of its own, resumed in this one; for Ray see tests/chaos/test_kills.py.

    A second driver of the same run is refused; the first one is stopped meanwhile, or it would be finished.
    The other driver shares rounds with both, so `--fresh`, which deletes them, is refused in the name
    of either. It is not known how far it is when the first one is killed.
    """
    command = (*RUN, "--in-process", "--storage", storage)
    with start_command(*OTHER, "--in-process", "--storage", storage) as other:
        wait_for_round(other, 1)
        with start_command(*command) as process:
            wait_for_round(process, 1)
            process.send_signal(signal.SIGSTOP)
            for second in (command, (*command, "--fresh"), (*command, "--name", "copy")):
                refused = fedgrid(*second)
                assert (refused.code, refused.out) == (2, "")
                in_the_way = {"runs": process} | ({"other": other} if "--fresh" in second else {})
                assert any(
                    f"{storage} is in use: grid {name} of " in refused.err
                    and f", process {driver.pid} on " in refused.err
                    for name, driver in in_the_way.items()
                )
                assert refused.err.count("\n") == 1
            # As it is, stopped: awake it may finish before it is killed.
            assert stop_command(process, signal.SIGKILL)[0] == -signal.SIGKILL
        assert list_finished(storage, "*kmeans*") == []
        again = fedgrid(*command)
        assert (again.code, again.err) == (0, "")
        assert again.events[0]["event"] == "start"
        assert 1 <= again.events[0]["rounds_done"] < ROUNDS
        _, err = other.communicate(timeout=60)
        assert (other.returncode, err) == (0, "")
    assert contents(storage, "ocfl_kmeans") == contents(undisturbed)
    alone = tmp_path / "alone"
    assert fedgrid(*OTHER, "--in-process", "--storage", alone, FEDGRID_TRACK="none").code == 0
    assert contents(storage, "fedavg") == contents(alone)
    check_mlflow(storage)
    check_mlflow(storage, "other")
    assert list((storage / "drivers").iterdir()) == []


@pytest.mark.slow
def test_interrupted_run_exits_with_130_and_resumes(undisturbed, storage):
    """What MLflow has of it then: grids/following/test_follow.py."""
    command = (*RUN, "--in-process", "--storage", storage)
    with start_command(*command, FEDGRID_TRACK="none") as process:
        wait_for_round(process, 1)
        code, err = stop_command(process, signal.SIGINT)
    assert (code, err.count("\n")) == (130, 1)
    assert "interrupted; the same command continues" in err
    assert fedgrid(*command, FEDGRID_TRACK="none").code == 0
    assert contents(storage) == contents(undisturbed)


def test_finished_run_is_not_computed_again(undisturbed):
    before = contents(undisturbed)
    times = {path: path.stat().st_mtime_ns for path in undisturbed.glob("*/*.parquet")}
    again = fedgrid(*RUN, "--storage", undisturbed)
    assert [event["event"] for event in again.events] == ["result"]
    assert again.events[0]["clusters"] == 3
    assert contents(undisturbed) == before
    assert {path: path.stat().st_mtime_ns for path in times} == times
    check_mlflow(undisturbed)


def test_fresh_run_computes_the_same_bytes_again(undisturbed, finished):
    fresh = fedgrid(*RUN, "--in-process", "--storage", finished, "--fresh")
    assert sum(event["event"] == "round" for event in fresh.events) == ROUNDS
    assert contents(finished) == contents(undisturbed)
    check_mlflow(finished)


def test_run_killed_before_its_scores_gets_them_when_resumed(undisturbed, finished):
    [scores] = finished.glob("*/scores.json")
    scores.unlink()
    again = fedgrid(*RUN, "--in-process", "--storage", finished)
    assert [event["event"] for event in again.events] == ["start", "result"]
    assert contents(finished) == contents(undisturbed)
    check_mlflow(finished)


def test_failed_run_does_not_stop_the_others(tmp_path, storage):
    """A server learning rate of 1e38 makes the second round's updates infinite."""
    preset = tmp_path / "two.yaml"
    preset.write_text(
        "clients: 3\ntraining: {rounds: 2}\n"
        "algorithm: [{name: fedavg, server_learning_rate: 1.0e+38}, fedavg]\n"
    )
    command = ("run", preset, "--in-process", "--storage", storage)
    result = fedgrid(*command)
    assert (result.code, result.err) == (1, "")
    words = " ".join(result.out.replace("│", " ").split())
    assert "clients 0, 1, 2, round 2: every update is NaN or infinite" in words
    assert "the state of round 1 is kept" in words
    _, runs = mlflow_runs(storage, "two")
    assert sorted(run.info.status for run in runs) == ["FAILED", "FINISHED"]
    failed, finished = fedgrid(*command, "--json").events[-2:]
    assert failed["error"].startswith("clients 0, 1, 2, round 2: every update is NaN or infinite")
    assert (finished["error"], finished["clusters"]) == (None, 1)
