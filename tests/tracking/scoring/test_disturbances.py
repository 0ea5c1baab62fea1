"""Scores of attackers and of clients whose data move, worked out by hand."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedgrid.tracking.scoring import scores
from fedgrid.tracking.scoring.disturbances import (
    compare_groups,
    compute_attackers_apart,
    count_rounds_to_new_group,
)
from tests.helpers.manifests import list_files
from tests.helpers.run_records import write_records

NAN = float("nan")


def test_an_attacker_is_apart_if_no_honest_client_is_in_its_cluster():
    """Attackers 0 and 1: with honest 2; each alone; together alone; one with honest 3."""
    attacker_K = [1, 1, 0, 0]
    labels_RK = [[0, 0, 0, 0], [1, 2, 0, 0], [1, 1, 0, 0], [0, 1, 2, 0]]
    assert compute_attackers_apart(labels_RK, attacker_K).tolist() == [0, 1, 1, 0.5]


class TestMovedClients:
    """Groups 0: clients 0 to 2; 1: clients 3 to 5. Client 0 moves to group 1 in round 2."""

    TRUTH = [[0, 0, 0, 1, 1, 1]] + [[1, 0, 0, 1, 1, 1]] * 4

    @pytest.mark.parametrize(
        ("labels_K", "sits"),
        [
            ([0, 0, 0, 0, 0, 0], 0),  # 3/3 of the new group, 2/2 of the old one
            ([0, 1, 2, 3, 4, 5], 0),  # nobody else
            ([0, 0, 0, 1, 1, 1], 0),
            ([1, 0, 0, 1, 1, 1], 1),
            ([1, 1, 0, 1, 1, 0], 1),  # 2/3 and 1/2
            ([1, 1, 0, 1, 0, 0], 0),  # 1/3 and 1/2
        ],
    )
    def test_it_sits_with_its_new_group_if_more_of_that_than_of_the_old_one_is_there(self, labels_K, sits):
        found_RK = compare_groups([labels_K] * 5, self.TRUTH)
        assert found_RK[1:, 0].tolist() == [sits] * 4
        assert np.isnan(found_RK[0]).all()
        assert np.isnan(found_RK[:, 1:]).all()

    def test_rounds_until_found_count_from_the_move_and_stay_when_it_leaves_again(self):
        """Not in rounds 2 and 3, in round 4, not in round 5: found after 2 rounds."""
        old, new = [0, 0, 0, 1, 1, 1], [1, 0, 0, 1, 1, 1]
        waited_RK = count_rounds_to_new_group(compare_groups([new, old, old, new, old], self.TRUTH))
        np.testing.assert_equal(waited_RK[:, 0], [NAN, NAN, NAN, 2, 2])

    def test_a_client_that_is_found_at_once_has_waited_for_no_round(self):
        waited_RK = count_rounds_to_new_group(compare_groups([[1, 0, 0, 1, 1, 1]] * 5, self.TRUTH))
        np.testing.assert_equal(waited_RK[:, 0], [NAN, 0, 0, 0, 0])


def folder_with(tmp_path, labels_RK, truth_RK, faults_K=None):
    """Write records whose truth changes, and the column `fault` if it is given."""
    path = write_records(tmp_path, labels_RK, truth_RK[0])
    table = pq.read_table(path / "clients.parquet").to_pylist()
    for row in table:
        row["true_cluster"] = truth_RK[row["round"] - 1][row["client"]]
        if faults_K:
            row["fault"] = faults_K[row["client"]]
    schema = pq.read_schema(path / "clients.parquet")
    schema = schema.append(pa.field("fault", pa.string())) if faults_K else schema
    pq.write_table(pa.Table.from_pylist(table, schema=schema), path / "clients.parquet")
    list_files(path)
    return path


def test_a_run_is_scored_against_the_truth_of_each_round(tmp_path):
    """Client 0 moves in round 2; the partition follows in round 3."""
    before, after = [0, 0, 0, 1, 1, 1], [1, 0, 0, 1, 1, 1]
    found = scores.score_run(folder_with(tmp_path, [before, before, after], [before, after, after]))
    assert found["ari"] == 1
    assert found["exactly_right"]
    assert (found["with_new_group"], found["moved_found"], found["moved"]) == (1, 1, 1)
    assert json.dumps(found)


def test_honest_clients_are_scored_alone(tmp_path):
    """Attacker 2 sits with group 1; without it the partition is right."""
    labels_K, truth_K = [0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1]
    faults_K = [None, None, "sign_flip", None, None, None]
    found = scores.score_run(folder_with(tmp_path, [labels_K], [truth_K], faults_K))
    assert (found["attackers_apart"], found["honest_ari"]) == (0, 1)


def test_a_run_without_attackers_and_moves_has_none_of_these_scores(tmp_path):
    labels_K = [0, 0, 0, 1, 1, 1]
    found = scores.score_run(folder_with(tmp_path, [labels_K] * 2, [labels_K] * 2))
    assert not {"attackers_apart", "honest_ari", "moved", "with_new_group"} & found.keys()
