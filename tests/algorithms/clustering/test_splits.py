"""Splits by a clusterer's labels; those by positions are in test_latecomers.py."""

import numpy as np
import pytest

from fedgrid.algorithms.clustering.splits import split_by_labels
from fedgrid.algorithms.contract.base import State
from tests.helpers.small_cases import build_updates, partition, sets

ANGLES = {0: (1, 0), 1: (1, 0.1), 3: (0, 1), 4: (0.2, 1), 5: (-1, 0.1)}
"""The updates of five of six clients; client 5 is nearer to the second pair than to the first."""


def state_of(labels):
    return State((np.zeros(2, np.float32),) * (max(labels) + 1), np.array(labels))


@pytest.mark.parametrize(
    ("noise", "expected"),
    [("nearest", sets([0, 1], [2, 3, 4, 5])), ("residual", sets([0, 1, 2], [3, 4], [5]))],
)
def test_labels_split_their_cluster_and_noise_joins_the_nearest_or_is_one_cluster(noise, expected):
    """Client 2 has no update and joins the largest cluster, of equals the first."""
    state = split_by_labels(state_of([0] * 6), build_updates(ANGLES), [7, 7, 2, 2, -1], noise)
    assert partition(state) == expected


def test_only_the_cluster_of_the_updates_is_split():
    state = split_by_labels(state_of([0, 1, 0, 1, 1, 0]), build_updates(ANGLES).select([1, 3, 4]), [0, 1, 1])
    assert partition(state) == sets([0, 2, 5], [1], [3, 4])


@pytest.mark.parametrize(("labels", "of"), [([0, 1], [0] * 6), ([0, 0, 1, 1, 1], [0, 1, 0, 1, 1, 1])])
def test_labels_of_other_clients_and_of_several_clusters_are_refused(labels, of):
    with pytest.raises(ValueError, match=r"for 5 updates of the clusters .*updates.select"):
        split_by_labels(state_of(of), build_updates(ANGLES), labels)
