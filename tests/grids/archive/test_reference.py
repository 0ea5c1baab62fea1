"""The part of the authors' archive that we have: what its files say arrives, and scores as published."""

import csv
import math
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

import numpy as np
import pyarrow.parquet as pq
import pytest

from fedgrid.algorithms.registry import find_paper_row
from fedgrid.grids.archive import archived_run, layout
from fedgrid.grids.archive.layout import ALGORITHMS
from fedgrid.tracking.scoring.partitions import score_published_clustering
from tests.helpers import reference
from tests.helpers.command_line import fedgrid, strict_json
from tests.helpers.reference import ARCHIVE, OVERLAPS, REFERENCE, read_rows, round_twice

PAPER = dict(
    zip(("BNC", "SCL", "BCL", "OCFL-KM", "OCFL-AFF", "OCFL-MS", "OCFL-HDB"), ALGORITHMS.values(), strict=True)
)
TESTS = {
    "before_update_metrics": "local_own",
    "after_update_generalizability": "local_server",
    "after_update_metrics": "personalised",
}
METRIC_FILES = ["training_metrics.csv", *(f"{name}.csv" for name in TESTS)]


@pytest.fixture(scope="module")
def archive():
    if not ARCHIVE.is_dir():
        pytest.skip("NOT CHECKED AGAINST THE AUTHORS' FULL ARCHIVE: shared/reference is missing")
    return ARCHIVE


@pytest.fixture(scope="module")
def published():
    """Rows of Tables 1 and 2 by scenario and algorithm, in our words."""
    return {(scenario_of(row), PAPER[row["algorithm"]]): row for row in reference.read_published()}


def scenario_of(row):
    return f"{row['dataset'].lower()}-{row['n']}-{OVERLAPS[row['overlap']]}-{row['balance']}"


def table_cells(scores):
    """Return a row of Tables 1 and 2."""
    cells = {
        f"{name.upper()}_published": round_twice(scores[f"published_{name}"])
        for name in ("rand", "ami", "com")
    }
    return cells | {"round_published": scores["published_round"]}


def test_every_run_is_found_and_scored_as_published(archive, published):
    found = layout.find_runs(archive)
    assert len(found) == len(published) == 112
    for run in found:
        read = archived_run.read_run(run, published_truth=False)
        shape = (read.rounds.num_rows, run.scenario.num_clients)
        assert shape[0] == (50 if run.scenario.dataset == "mnist" else 80)
        labels_RK = read.clients["cluster"].to_numpy().reshape(shape)
        truth_K = read.clients["true_cluster"].to_numpy()[: shape[1]]
        scores = asdict(
            score_published_clustering(labels_RK, truth_K, "OCFL-HDB" if "hdbscan" in run.algorithm else "")
        )
        row = published[run.scenario.name, run.algorithm]
        assert table_cells(scores) == {name: float(row[name]) for name in table_cells(scores)}
        assert read.rounds["clusters"][-1].as_py() == int(row["k_final"])
        if run.algorithm.startswith("ocfl"):
            assert shape[0] - read.rounds["temperature"].null_count == int(row["round_published"])


def test_what_the_part_lacks_is_told(archive):
    """Two runs have their metrics, 64 a temperature, MNIST's eight scenarios who held which images."""
    absent = [archived_run.read_run(run, published_truth=False).absent for run in layout.find_runs(archive)]
    assert [names.count("dataset blueprint") for names in absent] == [0] * 56 + [1] * 56
    assert sum(set(METRIC_FILES) <= set(names) for names in absent) == 110
    assert not any("clusters_temperature.csv" in names for names in absent)


@pytest.fixture(scope="module")
def whole(archive):
    """The two runs with all of their files, and those files' folders."""
    runs = [run for run in layout.find_runs(archive) if (run.folder / METRIC_FILES[0]).exists()]
    assert [run.algorithm for run in runs] == ["fedavg", "ocfl-hdbscan-as-published"]
    return [(run.folder, archived_run.read_run(run, published_truth=False)) for run in runs]


def by_round_and_client(path, round_column):
    with path.open(newline="") as file:
        rows = {(int(row[round_column]) + 1, int(row["node_id"])): row for row in csv.DictReader(file)}
    assert len(rows) == 50 * 15
    return rows


def test_the_records_of_the_two_whole_runs_are_what_their_files_say(whole):
    for folder, run in whole:
        trained = by_round_and_client(folder / "training_metrics.csv", "iteration")
        tested = {test: by_round_and_client(folder / f"{name}.csv", "epoch") for name, test in TESTS.items()}
        records = run.clients.to_pylist()
        assert [(row["round"], row["client"]) for row in records] == sorted(trained)
        for row in records:
            key = row["round"], row["client"]
            assert row["train_loss"] == float(trained[key]["loss"])
            assert row["train_accuracy"] == float(trained[key]["accuracy"])
            for test, rows in tested.items():
                expected = rows[key]
                recalls = [float(expected[f"accuracy_per_{label}"]) for label in range(10)]
                known = [recall for recall in recalls if not math.isnan(recall)]
                assert row[f"{test}_loss"] == float(expected["test_loss"])
                assert row[f"{test}_accuracy"] == float(expected["accuracy"])
                assert row[f"{test}_f1_union"] == float(expected["f1score"])
                assert np.array_equal(row[f"{test}_recall"], recalls, equal_nan=True)
                assert row[f"{test}_balanced_accuracy"] == pytest.approx(sum(known) / len(known))
                # The authors' recall is the mean over the union of true and predicted classes.
                assert row[f"{test}_balanced_accuracy"] >= float(expected["recall"]) - 1e-12


def test_images_are_those_of_the_published_clients(whole):
    clients = read_rows(REFERENCE / "clients.csv")
    rows = [row for row in clients if scenario_of(row) == "mnist-15-overlapping-imbalanced"]
    for _, run in whole:
        first = run.clients.slice(0, 15)
        assert first["train_images"].to_pylist() == [int(row["train"]) for row in rows]
        assert first["test_images"].to_pylist() == [int(row["test"]) for row in rows]
        assert first["true_cluster"].to_pylist() == [int(row["cluster"]) - 1 for row in rows]


def test_an_accuracy_is_a_whole_number_of_the_images_that_were_tested(whole):
    for _, run in whole:
        right = run.clients["personalised_accuracy"].to_numpy() * run.clients["test_images"].to_numpy()
        assert right == pytest.approx(np.round(right), abs=1e-9)


def test_all_published_temperatures_arrive(tmp_path):
    """The runs' own files are not in our part; they hold what the published table does."""
    rows = read_rows(REFERENCE / "published_temperature.csv")
    expected = {}
    for row in rows:
        place = tmp_path.joinpath(
            "temperature_experiments", *(row[key] for key in ("dataset", "overlap", "balance", "n"))
        )
        place.mkdir(parents=True, exist_ok=True)
        with (place / "clusters_temperature.csv").open("a") as file:
            file.write(f"{row['round']},{row['temperature']}\n")
        expected.setdefault(scenario_of(row), []).append(float(row["temperature"]))
    found = layout.find_temperature_runs(tmp_path)
    assert len(found) == len(expected) == 16
    for run in found:
        read = archived_run.read_run(run, published_truth=False)
        assert read.rounds["temperature"].to_pylist() == expected[run.scenario.name]
        assert set(read.clients["cluster"].to_pylist()) == {0}


@pytest.fixture(scope="module")
def imported(archive, tmp_path_factory):
    """The command, the storage it imported everything into, and what it said; not into MLflow."""
    storage = tmp_path_factory.mktemp("imported") / "runs"
    command = ("import", archive, "--name", "ocfl-archive", "--storage", storage, "--json")
    said, temperatures = strict_json(fedgrid(*command).out)["grids"]
    assert (said["grid"], temperatures["grid"]) == ("ocfl-archive", "ocfl-archive-temperature")
    assert temperatures["imported"] == 2
    return command, storage, said


@pytest.fixture(scope="module")
def report(imported, unrendered):
    """What `fedgrid report` says, and the folder of its tables."""
    _, storage, _ = imported
    command = ("report", "ocfl-archive", "--against", "published", "--storage", storage, "--json")
    said = strict_json(fedgrid(*command).out)
    return said, Path(said["index"]).parent / "tables"


@pytest.mark.slow
def test_the_command_imports_all_of_it(imported, published):
    command, storage, said = imported
    assert [said[name] for name in ("runs", "imported", "scenarios", "algorithms")] == [112, 112, 16, 7]
    assert {tuple(absent["files"]): absent["runs"] for absent in said["absent"]} == {
        tuple(METRIC_FILES): 54,
        (*METRIC_FILES, "dataset blueprint"): 56,
    }
    for (scenario, algorithm), row in published.items():
        (folder,) = storage.glob(f"{scenario}-{algorithm.replace('-', '_')}-s0-*")
        scores = strict_json((folder / "scores.json").read_text())
        final = {name: round_twice(scores[name]) for name in ("ari", "ami", "completeness", "homogeneity")}
        columns = ("ARI_final", "AMI_final", "COM_final", "HOM_final")
        assert list(final.values()) == [float(row[column]) for column in columns]
        assert scores["published_round"] == int(row["round_published"])
        assert pq.read_metadata(folder / "clients.parquet").num_rows == scores["rounds"] * int(row["n"])
    assert strict_json(fedgrid(*command).out)["grids"][0]["unchanged"] == 112


@pytest.mark.slow
def test_its_report_has_every_published_cell(report, published):
    """All 336 cells of Table 1 and 112 of Table 2 that MNIST and CIFAR10 have, to their four digits."""
    said, tables = report
    assert (said["runs"], said["finished"], said["lacking"]) == (112, 112, {})
    for row in published.values():
        dataset, split = row["dataset"].lower(), f"{OVERLAPS[row['overlap']]} {row['balance']}"
        scores = cells(tables / f"table1-{dataset}-{row['n']}.csv")[row["algorithm"]]
        for name in ("RAND", "AMI", "COM"):
            assert round_twice(float(scores[f"{split}: {name}"])) == float(row[f"{name}_published"])
        rounds = cells(tables / f"table2-{dataset}.csv")[row["algorithm"]]
        assert float(rounds[f"{row['n']} clients: {split}"]) == float(row["round_published"])


@pytest.mark.slow
def test_its_report_has_the_scores_of_explanations(report):
    """MNIST's BNC, members: the mean of four runs; none on images of others, who are all in one cluster."""
    row = next(row for row in read_rows(report[1] / "explanations-15.csv") if "mnist" in row["data sets"])
    assert (row["algorithm"], row["others: gap"]) == ("BNC", "")
    expected = {"insertion": 0.6259035328, "deletion": 0.3827121071}
    assert {name: float(row[f"members: {name}"]) for name in expected} == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
def test_its_personalisation_is_that_of_the_two_whole_runs(report, whole):
    """Each is the only run of its algorithm with metrics, so that the means over scenarios are its own."""
    rows = cells(report[1] / "personalisation-published-mnist.csv")
    for (folder, _), algorithm in zip(whole, ("BNC", "OCFL-HDB"), strict=True):
        own = by_round_and_client(folder / "after_update_metrics.csv", "epoch")
        server = by_round_and_client(folder / "after_update_generalizability.csv", "epoch")
        last = [key for key in own if key[0] == 50]
        for span, keys in (("mean over rounds", list(own)), ("last round", last)):
            found = {
                name: float(rows[algorithm][f"{span}: {name}"]) for name in ("PF1", "GF1", "PA", "GA", "gap")
            }
            assert found == pytest.approx(
                {
                    "PF1": fmean(float(own[key]["f1score"]) for key in keys),
                    "GF1": fmean(float(server[key]["f1score"]) for key in keys),
                    "PA": fmean(float(own[key]["accuracy"]) for key in keys),
                    "GA": fmean(float(server[key]["accuracy"]) for key in keys),
                    "gap": fmean(
                        abs(float(own[key]["accuracy"]) - float(server[key]["accuracy"])) for key in keys
                    ),
                },
                rel=1e-12,
            )


def cells(path):
    """Return the lines of a table by algorithm, under the name that it has in the paper."""
    with path.open(newline="") as file:
        return {find_paper_row(line["algorithm"]): line for line in csv.DictReader(file)}
