"""Our scores of the authors' runs: every published row of MNIST and CIFAR10, and two complete runs."""

from statistics import fmean

import numpy as np
import pytest

from fedgrid.tracking.arrays import compute_scores
from fedgrid.tracking.scoring.client_scores import PUBLISHED_CLIENTS
from fedgrid.tracking.scoring.partitions import (
    score_clustering,
    score_partition,
    score_partitions,
    score_published_clustering,
)
from tests.helpers.reference import (
    ARCHIVE,
    SIZES,
    build_key,
    find_archived_results,
    format_key,
    needs_archive,
    read_archived_labels,
    read_labels,
    read_published,
    read_rows,
    read_temperatures,
    round_twice,
)


@needs_archive
def test_the_reference_is_a_faithful_extract_of_the_archive():
    assert len(list((ARCHIVE / "experiments").rglob("cluster_id_mapping.csv"))) == 112
    for row in read_published():
        assert np.array_equal(read_labels(row), read_archived_labels(row))
        path = find_archived_results(row) / "clusters_temperature.csv"
        lines = path.read_text().splitlines() if path.exists() else []
        assert read_temperatures(row) == [float(line.split(",")[-1]) for line in lines]


@pytest.mark.parametrize("row", read_published(), ids=format_key)
def test_a_published_row_is_reproduced_to_its_four_digits(row):
    num_clients = int(row["n"])
    labels_RK = read_labels(row)
    truth_K = np.repeat([0, 1, 2], SIZES[row["balance"], num_clients])
    tables = score_published_clustering(labels_RK, truth_K, row["algorithm"])
    parts = score_partitions(labels_RK, truth_K)
    final = parts[-1]
    mean_50 = {name: float(np.mean([part[name] for part in parts[:50]])) for name in final}
    assert {
        "RAND_published": round_twice(tables.published_rand),
        "AMI_published": round_twice(tables.published_ami),
        "COM_published": round_twice(tables.published_com),
        "round_published": tables.published_round,
        "k_final": final["clusters"],
        "ARI50_true": round_twice(mean_50["ari"]),
        "AMI50_true": round_twice(mean_50["ami"]),
        "COM50_true": round_twice(mean_50["completeness"]),
        "ARI_final": round_twice(final["ari"]),
        "AMI_final": round_twice(final["ami"]),
        "COM_final": round_twice(final["completeness"]),
        "HOM_final": round_twice(final["homogeneity"]),
    } == {name: float(value) for name, value in list(row.items())[5:]}


def test_of_all_published_runs_only_those_of_briggs_on_a_resnet_end_with_every_client_alone():
    """Their code gives it similarities as distances, near 1 on a ResNet, which has CIFAR10 here."""
    alone = {}
    for row in read_published():
        labels_K = read_labels(row)[-1]
        alone[build_key(row)] = score_partition(labels_K, np.zeros(len(labels_K)))["clients_alone"]
    all_alone = {run for run, count in alone.items() if count == int(run[3])}
    assert all_alone == {run for run in alone if (run[0], run[4]) == ("CIFAR10", "BCL")}
    assert len(all_alone) == 8


@pytest.mark.parametrize(
    "row", [row for row in read_published() if row["algorithm"].startswith("OCFL")], ids=format_key
)
def test_the_first_strict_rise_of_the_temperature_is_the_clustering_round(row):
    temperatures = read_temperatures(row)
    rises = [
        index + 1 for index in range(1, len(temperatures)) if temperatures[index] > temperatures[index - 1]
    ]
    labels_RK = read_labels(row)
    truth_K = np.repeat([0, 1, 2], SIZES[row["balance"], int(row["n"])])
    assert rises == [len(temperatures)] == [int(row["round_published"])]
    assert score_clustering(labels_RK, truth_K)["clustering_round"] == rises[0]


def by_round_and_client(rows: list[dict[str, str]], column: str) -> dict[tuple[int, int], float]:
    return {(int(row["epoch"]), int(row["node_id"])): float(row[column]) for row in rows}


@needs_archive
@pytest.mark.parametrize("algorithm", ["baseline", "HDBSCAN"])
def test_personalisation_of_a_whole_run_is_what_its_csv_files_say(algorithm):
    name = f"{algorithm}_MNIST_overlaping_imbalanced_15"
    folder = ARCHIVE / "experiments/MNIST/overlaping/imbalanced/15" / name / "results"
    own, server = (
        read_rows(folder / f"{kind}.csv")
        for kind in ("after_update_metrics", "after_update_generalizability")
    )
    own_accuracy = by_round_and_client(own, "accuracy")
    server_accuracy = by_round_and_client(server, "accuracy")
    assert own_accuracy.keys() == server_accuracy.keys()
    expected = {
        "published_pf1": fmean(float(row["f1score"]) for row in own),
        "published_gf1": fmean(float(row["f1score"]) for row in server),
        "published_pa": fmean(own_accuracy.values()),
        "published_ga": fmean(server_accuracy.values()),
        "published_learning_gap": fmean(
            abs(own_accuracy[key] - server_accuracy[key]) for key in own_accuracy
        ),
    }

    def table_RK(rows: list[dict[str, str]], column: str) -> np.ndarray:
        values_RK = np.full((50, 15), np.nan)
        for (round_index, client), value in by_round_and_client(rows, column).items():
            values_RK[round_index, client] = value
        return values_RK

    columns = {
        "personalised_accuracy": table_RK(own, "accuracy"),
        "personalised_f1_union": table_RK(own, "f1score"),
        "local_server_accuracy": table_RK(server, "accuracy"),
        "local_server_f1_union": table_RK(server, "f1score"),
    }
    ours = compute_scores(PUBLISHED_CLIENTS, {name: values.ravel() for name, values in columns.items()})
    assert ours == pytest.approx(expected, rel=1e-12)
