"""Ward's tree, the number of groups that it says, and k-means after it."""

import numpy as np
import pytest

from fedgrid.algorithms.clustering import ward
from fedgrid.algorithms.clustering.pooled import centred_cosines
from tests.helpers.small_cases import rng


def on_circle(*angles):
    """Return the cosines between unit vectors at these angles."""
    return np.cos(np.subtract.outer(angles, angles))


def federation(sizes, seed, spread=0.3, dimensions=12):
    """Return centred cosines of groups with a direction each, and noise."""
    draw = np.random.default_rng(seed)
    vectors = np.repeat(np.eye(dimensions)[: len(sizes)], sizes, axis=0)
    vectors = vectors + spread * draw.standard_normal(vectors.shape) / np.sqrt(dimensions)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return centred_cosines(vectors @ vectors.T)


def ranges(sizes):
    stops = np.cumsum(sizes).tolist()
    return [list(range(stop - size, stop)) for size, stop in zip(sizes, stops, strict=True)]


class TestNumberOfGroups:
    def test_is_where_the_next_cluster_is_worth_least_against_the_last(self):
        """Eight clients, at most four groups. Left: 53.25, 3.25, 2.25, 1.25. F(2) = 100 / (53.25 / 6) = 11.3,
        F(3) = 50 / (3.25 / 5) = 76.9, F(4) = 1.8, F(5) = 2.4; ratios 0.15, 43, 0.74."""
        assert ward.number_of_groups(np.array([100, 50, 1, 1, 0.5, 0.5, 0.25])) == 3

    def test_first_split_counts_if_all_others_are_alike(self):
        assert ward.number_of_groups(np.array([100, 3, 2, 2, 1, 1, 1, 1, 1])) == 2

    @pytest.mark.parametrize("gains", [[1.0], [2.0, 1.0], [0.0] * 7])
    def test_few_clients_or_equal_ones_are_one_group(self, gains):
        assert ward.number_of_groups(np.array(gains)) == 1


@pytest.mark.parametrize("sizes", [(5, 5, 5), (8, 7), (2, 9, 4), (3,) * 6, (2,) * 10])
def test_groups_are_found_without_being_told_how_many(sizes):
    for seed in range(3):
        assert ward.groups_of(federation(sizes, seed), 5, rng()) == ranges(sizes)


def test_clients_without_any_difference_within_groups_are_grouped():
    assert ward.groups_of(centred_cosines(np.kron(np.eye(3), np.ones((4, 4)))), 5, rng()) == ranges((4, 4, 4))


@pytest.mark.parametrize(
    ("restarts", "expected"), [(0, [[0, 1, 2], [3]]), (10, [[0, 1], [2, 3]])], ids=["Ward", "k-means"]
)
def test_k_means_takes_back_a_join_of_the_tree(restarts, expected):
    """At 0, 20, 32 and 52: Ward joins 20 and 32 first, then 0. Squares 5.2; of (0, 20), (32, 52) 4."""
    assert ward.groups_of(on_circle(0, 0.20, 0.32, 0.5201), restarts, rng()) == expected


def test_large_federations_keep_the_clusters_of_the_tree(monkeypatch):
    monkeypatch.setattr(ward, "MOST_CLIENTS", 3)
    assert ward.groups_of(on_circle(0, 0.20, 0.32, 0.5201), 10, rng()) == [[0, 1, 2], [3]]


@pytest.mark.parametrize("num_clients", [0, 1, 2, 3])
def test_fewer_than_four_clients_are_one_group(num_clients):
    expected = [list(range(num_clients))] if num_clients else []
    assert ward.groups_of(np.eye(num_clients), 5, rng()) == expected
