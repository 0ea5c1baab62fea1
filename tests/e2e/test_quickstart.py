"""`fedgrid run quickstart`: seven algorithms on real digits.

In this process; on Ray it runs in `.ci/run`, and a smaller grid in tests/chaos/test_kills.py.
"""

import json

import pyarrow.parquet as pq
import pytest
from mlflow.tracking import MlflowClient

from fedgrid.grids.trackers.mlflow.view import TOTALS
from fedgrid.manifest import read_manifest
from tests.helpers.command_line import fedgrid, new_storage

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("in_mlflow")]

ROUNDS = 10
"""Of 15: the last algorithm clusters in round 6, and in round 10 the clusters' models are good."""
CLIENTS = 15
RIGHT = ("sattler", "briggs", "ocfl-kmeans", "ocfl-affinity", "ocfl-hdbscan")
"""The algorithms that must find the three hidden groups."""


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    """Return (the storage, what was printed)."""
    storage = new_storage(tmp_path_factory.mktemp("quickstart"))
    short = f"training.rounds={ROUNDS}"
    result = fedgrid("run", "quickstart", short, "--storage", storage, "--in-process")
    assert (result.code, result.err) == (0, "")
    return storage, result.out


@pytest.fixture(scope="module")
def table(quickstart):
    """Return algorithm -> cells, as printed."""
    lines = quickstart[1].split("Final round, digits-15-nonoverlapping-balanced, seed 0")[1].splitlines()
    rows = [line.split() for line in lines[4:11]]
    return {row[0]: row[1:] for row in rows}


def test_quickstart_table_has_the_seven_algorithms(table):
    assert list(table) == [
        "fedavg",
        "sattler",
        "briggs",
        "ocfl-kmeans",
        "ocfl-affinity",
        "ocfl-meanshift",
        "ocfl-hdbscan",
    ]
    assert {len(cells) for cells in table.values()} == {13}


def test_quickstart_algorithms_find_the_hidden_groups(table):
    for name in RIGHT:
        number, *partition = table[name][:6]
        assert 1 <= int(number) <= ROUNDS
        assert partition == ["3", "1.000", "1.000", "1.000", "1.000"], name
    number, clusters, _, _, homogeneity, _ = table["ocfl-meanshift"][:6]
    assert 1 <= int(number) <= ROUNDS
    assert int(clusters) >= 3
    assert homogeneity == "1.000"
    assert table["fedavg"][:6] == ["–", "1", "0.000", "0.000", "0.000", "1.000"]


def test_quickstart_clustering_gains_personalised_and_loses_generalised_accuracy(table):
    """Columns: personalised accuracy and F1, generalised accuracy and F1, learning gap."""
    baseline = [float(cell) for cell in table["fedavg"][6:11]]
    for name in RIGHT:
        personal, _, general, _, gap = (float(cell) for cell in table[name][6:11])
        assert personal > 0.9 > baseline[0]
        assert general < baseline[2]
        assert gap > baseline[4]


def test_quickstart_is_in_mlflow_once_with_every_round(quickstart):
    client = MlflowClient(tracking_uri=f"sqlite:///{quickstart[0] / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("quickstart")
    found = client.search_runs([experiment.experiment_id], "tags.`mlflow.parentRunId` != ''")
    assert [run.info.status for run in found] == ["FINISHED"] * 7
    for run in found:
        assert len(run.data.metrics) >= 20
        for name in run.data.metrics.keys() - {*TOTALS, "clustering/silhouette"}:
            points = client.get_metric_history(run.info.run_id, name)
            assert [point.step for point in points] == list(range(1, ROUNDS + 1)), name


def test_quickstart_prints_progress_and_next_steps(quickstart):
    storage, out = quickstart
    for algorithm in ("fedavg", "ocfl_hdbscan"):
        for number in range(1, ROUNDS + 1):
            run = f"digits-15-nonoverlapping-balanced-{algorithm}-s0"
            assert f"\n{run} round {number}/{ROUNDS} temp. 0." in out
    assert f" {storage} " in out
    assert f" sqlite:///{storage}/mlflow.db\n" in out
    assert out.endswith(f"  fedgrid ui quickstart --storage {storage}\n")


def test_quickstart_run_folders_are_complete(quickstart):
    folders = sorted(path.parent for path in quickstart[0].glob("*/config.json"))
    assert len(folders) == 7
    for folder in folders:
        config = json.loads((folder / "config.json").read_text())
        assert (config["dataset"], config["clients"]) == ("digits", CLIENTS)
        assert read_manifest(folder).is_finished
        rows = {name: pq.read_table(folder / f"{name}.parquet") for name in ("rounds", "clients", "timings")}
        assert {name: len(table) for name, table in rows.items()} == {
            "rounds": ROUNDS,
            "clients": ROUNDS * CLIENTS,
            "timings": ROUNDS,
        }
        assert {"temperature", "clusters", "clustered", "bytes_up", "warnings"} <= set(
            rows["rounds"].column_names
        )
        states = [path.name for path in sorted(folder.glob("state-*"))]
        assert states == [f"state-{number:06d}.safetensors" for number in (ROUNDS - 1, ROUNDS)]
        assert not list(folder.rglob("*.writing*"))
        assert "finished" in (folder / "log.txt").read_text()
