"""Scores, worked out by hand on a handful of clients."""

from dataclasses import asdict
from math import log
from pathlib import Path

import numpy as np
import pytest

from fedgrid.record_columns import build_schemas
from fedgrid.tracking import records
from fedgrid.tracking.arrays import compute_scores
from fedgrid.tracking.records import Columns
from fedgrid.tracking.scoring import partitions, scores
from fedgrid.tracking.scoring.client_scores import CLIENTS, average_lowest_tenth
from tests.helpers.manifests import edit_table, list_files
from tests.helpers.run_records import write_records

TRUTH = [0, 0, 0, 1, 1, 1]
ONE = [0, 0, 0, 0, 0, 0]
MIXED = [0, 0, 1, 1, 1, 1]


def entropy(share: float) -> float:
    return -share * log(share) - (1 - share) * log(1 - share)


def test_a_partition_that_mixes_groups_is_scored_with_the_arguments_in_the_right_order():
    """Contingency of MIXED with TRUTH: (2, 0) and (1, 3).

    ARI: pairs together in both 1 + 3 = 4, in the truth 6, in the partition 1 + 6 = 7, of 15; expected
    6 * 7 / 15 = 2.8, maximum 6.5, so (4 - 2.8) / (6.5 - 2.8). Homogeneity: 1 - H(truth | cluster) /
    H(truth), of which only the cluster of four is uncertain. Completeness: 1 - H(cluster | truth) /
    H(cluster) = 1 - (H(1/3) / 2) / H(1/3).
    """
    result = partitions.score_partition(MIXED, TRUTH)
    assert result["clusters"] == 2
    assert result["ari"] == pytest.approx(1.2 / 3.7)
    assert result["homogeneity"] == pytest.approx(1 - (4 / 6) * entropy(1 / 4) / log(2))
    assert result["completeness"] == pytest.approx(0.5)


def test_one_cluster_is_complete_and_singletons_are_homogeneous():
    """Singletons: H(truth) = ln 2 of H(cluster) = ln 6 is shared, so completeness is ln 2 / ln 6."""
    one, singletons = partitions.score_partition(ONE, TRUTH), partitions.score_partition(range(6), TRUTH)
    assert (one["clusters"], one["ari"], one["homogeneity"], one["completeness"]) == (1, 0.0, 0.0, 1.0)
    assert (singletons["clusters"], singletons["ari"], singletons["homogeneity"]) == (
        6,
        0.0,
        pytest.approx(1.0),
    )
    assert singletons["completeness"] == pytest.approx(log(2) / log(6))


@pytest.mark.parametrize("labels_K", [ONE, MIXED])
def test_clients_in_one_group_have_no_score_against_groups(labels_K):
    """One cluster for all would be perfect and any other partition a failure: 1 and 0 that say nothing."""
    result = partitions.score_partition(labels_K, ONE)
    assert np.isnan([result[name] for name in ("ari", "ami", "homogeneity", "completeness")]).all()
    assert result["clusters"] == len(set(labels_K))
    assert partitions.score_clustering([labels_K], ONE)["exactly_right"] is None


@pytest.mark.parametrize(
    ("labels_K", "smallest", "alone"),
    [(MIXED, 2, 0), (ONE, 6, 0), (range(6), 1, 6), ([7, 7, 7, 2, 2, 5], 1, 1), (["A", "B", "B"], 1, 1)],
)
def test_the_smallest_cluster_and_the_clients_alone_are_counted(labels_K, smallest, alone):
    result = partitions.score_partition(labels_K, TRUTH[: len(labels_K)])
    assert (result["smallest_cluster"], result["clients_alone"]) == (smallest, alone)


def test_a_perfect_one_shot_clustering_in_round_3_of_60_publishes_48_of_50():
    """Rounds 1 and 2 count 0, rounds 3 to 50 count 1, rounds 51 to 60 are cut: (51 - 3) / 50."""
    labels_RK = [ONE] * 2 + [[1, 1, 1, 0, 0, 0]] * 58
    published = partitions.score_published_clustering(labels_RK, TRUTH)
    right = partitions.score_clustering(labels_RK, TRUTH)
    assert asdict(published) == pytest.approx(
        {"published_rand": 0.96, "published_ami": 0.96, "published_com": 0.96, "published_round": 3}
    )
    assert (right["clustering_round"], right["last_change_round"], right["exactly_right"]) == (3, 3, True)


def test_the_published_ami_of_hdbscan_is_its_ari():
    published = partitions.score_published_clustering([MIXED], TRUTH, "OCFL-HDB")
    assert published.published_ami == published.published_rand == pytest.approx(1.2 / 3.7)
    assert partitions.score_published_clustering([MIXED], TRUTH).published_ami != published.published_ami


@pytest.mark.parametrize(
    ("labels_RK", "decided_R", "first", "last", "published"),
    [
        ([ONE] * 2, None, None, None, 1),
        ([["A"] * 6] * 2 + [["AA"] * 6] * 2, None, 3, None, 3),
        ([ONE] * 2, [False, True], 2, None, 1),
        ([MIXED] * 2, None, 1, 1, 1),
        ([ONE, MIXED, MIXED, [0, 0, 2, 1, 1, 1], [0, 0, 2, 1, 1, 1]], None, 2, 4, 4),
    ],
    ids=["never", "renamed", "a decision without a change", "in the first round", "twice"],
)
def test_rounds_of_the_first_decision_the_last_change_and_as_published(
    labels_RK, decided_R, first, last, published
):
    right = partitions.score_clustering(labels_RK, TRUTH, decided_R)
    assert (right["clustering_round"], right["last_change_round"]) == (first, last)
    assert not right["exactly_right"]
    assert partitions.score_published_clustering(labels_RK, TRUTH).published_round == published


TWO_ROUNDS = {
    "personalised_accuracy": [[0.5, 0.7], [0.9, 0.6]],
    "personalised_f1": [[0.4, 0.6], [0.8, 0.6]],
    "personalised_f1_union": [[0.2, 0.3], [0.4, 0.3]],
    "generalised_accuracy": [[0.4, 0.4], [0.5, 0.7]],
    "generalised_f1": [[0.3, 0.3], [0.2, 0.4]],
    "local_server_accuracy": [[0.1, 0.3], [0.4, 0.8]],
    "local_server_f1_union": [[0.1, 0.1], [0.2, 0.4]],
}


def test_scores_of_a_run_with_two_rounds(write_run):
    """Final: second round, means of two clients; the learning gap is (|0.9-0.5| + |0.6-0.7|) / 2 = 0.25.

    Published: means of all four rows; DIST is (|0.5-0.1| + |0.7-0.3| + |0.9-0.4| + |0.6-0.8|) / 4.
    """
    run = scores.score_run(write_run([[0, 0], [0, 1]], [0, 1], clustered=[2], columns=TWO_ROUNDS))
    assert (run["rounds"], run["evaluated_round"]) == (2, 2)
    assert run["clustering_round"] == 2
    assert run["exactly_right"]
    assert run["personalised_accuracy"] == pytest.approx(0.75)
    assert run["personalised_f1"] == pytest.approx(0.7)
    assert run["personalised_f1_union"] == pytest.approx(0.35)
    assert run["generalised_accuracy"] == pytest.approx(0.6)
    assert run["generalised_f1"] == pytest.approx(0.3)
    assert run["learning_gap"] == pytest.approx(0.25)
    assert run["learning_gap_f1"] == pytest.approx((0.6 + 0.2) / 2)
    assert run["worst_client_accuracy"] == 0.6
    assert {name: run[name] for name in run if name.startswith("published_")} == pytest.approx(
        {
            "published_rand": 0.5,
            "published_ami": 0.5,
            "published_com": 0.5,
            "published_round": 2,
            "published_pf1": 1.2 / 4,
            "published_gf1": 0.8 / 4,
            "published_pa": 2.7 / 4,
            "published_ga": 1.6 / 4,
            "published_learning_gap": 1.5 / 4,
        }
    )


@pytest.mark.parametrize(
    ("accuracies", "index"),
    [
        ([0.9, 0.6], 2.25 / 2.34),
        ([0.7, 0.7, 0.7], 1.0),
        ([0.8, 0.0, 0.0, 0.0], 1 / 4),
        ([0.0, 0.0], 1.0),
        ([0.9, 0.6, float("nan")], 2.25 / 2.34),
        ([float("nan"), float("nan")], float("nan")),
    ],
    ids=["two", "equal", "one has all", "all 0", "one not tested", "none tested"],
)
def test_jains_index_is_the_squared_sum_over_k_times_the_sum_of_squares(accuracies, index):
    """0.9 and 0.6: (0.9 + 0.6)^2 / (2 (0.81 + 0.36)) = 2.25 / 2.34."""
    assert jain(accuracies) == pytest.approx(index, nan_ok=True)


def jain(accuracies):
    return of_clients({"personalised_accuracy": accuracies})["jain_index"]


def of_clients(columns):
    size = len(next(iter(columns.values())))
    return compute_scores(CLIENTS, Columns((size,), columns))


def test_clients_that_are_held_out_have_a_score_of_their_own_and_are_in_no_other(tmp_path):
    """Client 2, alone in a wrong cluster, is tested in round 2 only; the others are 0.6 and 0.8."""
    columns = {
        "part": [["trained", "trained", "held out"]] * 2,
        "personalised_accuracy": [[0.5, 0.5, None], [0.6, 0.8, 0.1]],
    }
    path = write_records(tmp_path, [[0, 1, 2]] * 2, [0, 1, 1], columns=columns)
    run = scores.score_run(path)
    assert run["held_out_accuracy"] == 0.1
    assert run["personalised_accuracy"] == pytest.approx(0.7)
    assert (run["worst_client_accuracy"], run["clusters"], run["ari"]) == (0.6, 2, 1)
    rounds = dict(scores.score_rounds(path))
    assert [rounds[number]["held_out_accuracy"] for number in (1, 2)] == [None, 0.1]
    others = write_records(tmp_path / "others", [[0, 1]], [0, 1])
    assert "held_out_accuracy" not in scores.score_run(others)


def test_the_learning_gap_in_loss_is_of_the_clusters_models():
    """(|0.2 - 1.2| + |1.0 - 0.5|) / 2; the loss of the local models has no part in it."""
    losses = {
        "personalised_loss": [0.2, 1.0],
        "generalised_loss": [1.2, 0.5],
        "local_server_loss": [9.0, 9.0],
    }
    assert of_clients(losses)["learning_gap_loss"] == pytest.approx(0.75)


def test_rounds_without_a_test_are_left_out_of_the_means(write_run):
    """Only round 1 of 3 was tested: it is the final one, and the published means are of its two rows."""
    columns = {name: [rows[0], [None, None], [None, None]] for name, rows in TWO_ROUNDS.items()}
    run = scores.score_run(write_run([[0, 0], [0, 1], [0, 1]], [0, 1], columns=columns))
    assert (run["rounds"], run["evaluated_round"]) == (3, 1)
    assert run["personalised_accuracy"] == pytest.approx(0.6)
    assert run["published_pf1"] == pytest.approx(0.25)
    assert run["ari"] == 1.0
    untested = scores.score_run(write_run([[0, 0]], [0, 1]))
    assert [untested[name] for name in ("evaluated_round", "personalised_accuracy")] == [None] * 2
    assert untested["published_learning_gap"] is None


def test_local_models_tested_on_the_server_in_the_last_round_only_have_no_published_mean(write_run):
    servers = ("local_server_accuracy", "local_server_f1_union")
    columns = {**TWO_ROUNDS, "local_own_accuracy": [[0.5, 0.5]] * 2}
    columns |= {name: [[None, None], TWO_ROUNDS[name][1]] for name in servers}
    run = scores.score_run(write_run([[0, 0], [0, 1]], [0, 1], columns=columns))
    assert {run[f"published_{name}"] for name in ("gf1", "ga", "learning_gap")} == {None}
    assert run["published_pf1"] == pytest.approx(1.2 / 4)


def test_rounds_are_scored_by_name_each_by_itself(write_run):
    """The mean training loss of round 2 is 1/2; 200 bytes down is what `write_run` notes for round 2."""
    folder = write_run([[0, 0], [0, 1]], [0, 1], temperature_R=[0.4, 0.45], clustered=[2], columns=TWO_ROUNDS)
    rounds = dict(scores.score_rounds(folder))
    assert (
        rounds[2].items()
        >= {
            "temperature": 0.45,
            "clusters": 2,
            "ari": 1.0,
            "personalised_accuracy": 0.75,
            "personalised_loss": None,
            "train_loss": 0.5,
            "excluded": 0,
            "bytes_down": 200,
        }.items()
    )
    assert rounds[2]["published_gf1"] == pytest.approx(0.3)
    assert dict(scores.score_rounds(folder, after=1)) == {2: rounds[2]}
    assert dict(scores.score_rounds(folder, after=2)) == {}


def test_curves_rounds_and_runs_have_the_same_scores(write_run):
    """Of a run with a client that is held out."""
    columns = {
        "part": [["trained"] * 3 + ["held out"]] * 3,
        "personalised_accuracy": [[0.1, 0.2, 0.7, 0.4], [0.3, 0.6, 0.9, 0.5], [0.2, 0.3, 0.4, 0.6]],
    }
    folder = write_run([[0, 0, 1, 0], [0, 1, 1, 0], [0, 1, 2, 0]], [0, 1, 1, 0], columns=columns)
    curves, run = scores.compute_curves(records.read_records(folder)), scores.score_run(folder)
    rounds = dict(scores.score_rounds(folder))
    assert {"held_out_accuracy", "ari", "jain_index"} <= rounds[1].keys()
    for place, number in enumerate((1, 2, 3)):
        for name, value in rounds[number].items():
            assert (np.nan if value is None else value) == pytest.approx(curves[name][place], nan_ok=True)
    for name in ("ari", "ami", "clusters", "personalised_accuracy", "held_out_accuracy"):
        assert run[name] == rounds[3][name]


def test_a_round_that_reached_only_one_file_is_left_out(write_run):
    folder = write_run([[0, 0], [0, 1]], [0, 1])
    edit_table(folder, "clients", lambda clients: clients.slice(0, 2))
    assert scores.score_run(folder)["rounds"] == 1


def test_missing_or_damaged_records_are_an_error_that_names_the_file(tmp_path: Path, write_run):
    with pytest.raises(records.RecordsError, match="no rounds.parquet in"):
        scores.score_run(tmp_path)
    folder = write_run([[0, 0]], [0, 1])
    edit_table(folder, "clients", lambda clients: clients.slice(0, 0))
    with pytest.raises(records.RecordsError, match="has no finished round yet"):
        scores.score_run(folder)
    (folder / "rounds.parquet").write_bytes(b"not parquet")
    with pytest.raises(records.RecordsError, match="cannot read .*rounds.parquet"):
        scores.score_run(folder)


def test_every_column_that_is_read_is_declared():
    assert {*records.ROUND_KEYS} <= set(build_schemas()["rounds"].names)
    read = {*records.CLIENT_KEYS, *records.CLIENT_COLUMNS, "part"}
    assert read <= set(build_schemas({"global_model", "probabilities", "target"})["clients"].names)


def test_the_last_local_accuracy_is_of_each_client_that_has_trained_by_then(write_run):
    """Client 0 trains in rounds 1 and 3, client 1 in round 2, client 2 never.

    Round 1: 0.5. Round 2: (0.5 + 0.7) / 2. Round 3: (0.9 + 0.7) / 2.
    """
    local = [[0.5, None, None], [None, 0.7, None], [0.9, None, None]]
    run = write_run([[0, 0, 0]] * 3, [0, 0, 1], columns={"local_own_accuracy": local})
    assert scores.compute_curves(records.read_records(run))["last_local_accuracy"] == pytest.approx(
        [0.5, 0.6, 0.8]
    )


def test_the_mean_over_those_asked_leaves_out_clients_that_were_only_tested(write_run):
    """Asked are the trained, the excluded and the dropped: (0.2 + 0.4 + 0.6) / 3; then client 3 alone."""
    parts = [["trained", "excluded", "dropped", "not asked"], ["not asked"] * 3 + ["trained"]]
    tests = [[0.2, 0.4, 0.6, 1.0], [0.1, 0.2, 0.3, 0.7]]
    columns = {"part": parts, "personalised_accuracy": tests}
    curves = scores.compute_curves(records.read_records(write_run([[0] * 4] * 2, [0] * 4, columns=columns)))
    assert curves["asked_accuracy"] == pytest.approx([0.4, 0.7])
    assert curves["personalised_accuracy"] == pytest.approx([0.55, 0.325])
    assert curves["asked_clients"].tolist() == [3, 1]


def test_the_global_model_is_scored_only_where_it_was_tested(write_run):
    columns = {"global_accuracy": [[0.6, 0.6]], "global_own_accuracy": [[0.2, 0.4]]}
    run = scores.score_run(write_run([[0, 1]], [0, 1], columns=columns))
    assert (run["global_accuracy"], run["global_own_accuracy"]) == pytest.approx((0.6, 0.3))
    assert scores.score_run(write_run([[0, 1]], [0, 1]))["global_accuracy"] is None


def test_auc_is_a_mean_over_the_clients_that_have_one_and_no_score_of_other_runs(write_run):
    """The test set of client 1 has one class."""
    columns = {"personalised_auc": [[0.6, None, 0.8]], "generalised_ece": [[0.1, 0.2, 0.3]]}
    folder = write_run([[0, 1, 1]], [0, 1, 1], columns=columns)
    run = scores.score_run(folder)
    assert (run["personalised_auc"], run["generalised_ece"]) == pytest.approx((0.7, 0.2))
    assert run["generalised_auc"] is None
    [(_, of_round)] = scores.score_rounds(folder)
    assert (
        of_round["personalised_auc"]
        == scores.compute_curves(records.read_records(folder))["personalised_auc"]
    )
    assert "personalised_auc" not in scores.score_run(write_run([[0, 1]], [0, 1]))


def test_seconds_add_up_and_are_unknown_without_timings(write_run):
    folder = write_run([[0, 1]] * 3, [0, 1])
    assert scores.compute_curves(records.read_records(folder))["seconds"].tolist() == [0.5, 1.0, 1.5]
    (folder / "timings.parquet").unlink()
    list_files(folder)
    assert np.isnan(scores.compute_curves(records.read_records(folder))["seconds"]).all()


def test_worst_tenth_of_20_clients_are_two_and_of_9_or_2_that_were_tested_one():
    assert average_lowest_tenth([0.3, *[0.9] * 18, 0.1]) == pytest.approx(0.2)
    assert average_lowest_tenth([0.9] * 8 + [0.4]) == 0.4
    rounds_RK = np.array([[0.7, 0.6, *[np.nan] * 9], [np.nan] * 11])
    assert average_lowest_tenth(rounds_RK) == pytest.approx([0.6, np.nan], nan_ok=True)
