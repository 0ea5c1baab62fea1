"""Ward's tree, the number of groups that it says, and k-means after it."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from fedgrid.algorithms.clustering import ward
from tests.helpers.small_cases import rng


def squares_of(vectors):
    return cdist(vectors, vectors, "sqeuclidean")


def grouped(sizes, spread=0.3, dimensions=40, seed=0):
    """Return squared distances of groups with a direction each, one that all share, and noise."""
    vectors = np.eye(dimensions)[np.repeat(np.arange(len(sizes)), sizes)] + 2 * np.eye(dimensions)[-1]
    noise = np.random.default_rng(seed).standard_normal(vectors.shape) / np.sqrt(dimensions)
    return squares_of(vectors + spread * noise)


def found_score(squares):
    return ward.score_evidence(squares, ward.find_groups(squares, 5, rng()), rng())


@pytest.mark.parametrize("sizes", [(8, 7), (12, 4, 2, 2), (18, 2), (5,) * 4, (2,) * 10])
def test_groups_are_evident(sizes):
    assert found_score(grouped(sizes)) > 5


@pytest.mark.parametrize("clients", [6, 20, 60])
@pytest.mark.parametrize("dimensions", [3, 20, 500])
def test_noise_is_not(clients, dimensions):
    """A common direction and noise of any number of dimensions, in some of them ten times as much."""
    noise = np.random.default_rng(clients + dimensions).standard_normal((clients, dimensions))
    common = 20 * np.sqrt(dimensions) * np.eye(dimensions)[0]
    assert (found_score(squares_of(common + noise)) or 0.0) < 4
    assert (found_score(squares_of(common + noise * np.geomspace(1, 10, dimensions))) or 0.0) < 4


def test_clusters_at_a_number_are_those_of_the_tree():
    squares = squares_of(np.array([[0.0], [1.0], [5.0], [6.5]]))
    assert ward.cut_into_number(squares, 2) == [[0, 1], [2, 3]]
    assert ward.cut_into_number(squares, 3) == [[0, 1], [2], [3]]
    assert ward.cut_into_number(1 - np.eye(4), 3) == [[0, 1, 2, 3]], "no two are nearer than others"


@pytest.mark.parametrize("arc", [1.0, 2 * np.pi])
def test_clients_that_differ_by_degrees_are_no_groups(arc):
    """Thirty on a part of a circle, or all round it, with a little noise."""
    angles = arc * np.arange(30) / 30
    vectors = np.column_stack([np.cos(angles), np.sin(angles)])
    noise = 0.02 * np.random.default_rng(0).standard_normal((30, 20))
    vectors = np.hstack([vectors, noise])
    assert found_score(squares_of(vectors)) is None


def test_gap_by_hand():
    """Means 0, 6 and 16, squares of 4 about the nearer two, by 4 - 2 degrees of freedom: 6 / sqrt(2)."""
    vectors = np.array([[-1.0], [1], [5], [7], [15], [17]])
    assert ward.compute_gap(vectors, np.array([0, 0, 1, 1, 2, 2])) == pytest.approx(6 / np.sqrt(2))


@pytest.mark.parametrize(
    ("directions", "odd"),
    [((1, 1), []), ((1, 2), [18, 19]), ((1,), [18])],
    ids=["two of a kind", "two that differ", "one"],
)
def test_clients_that_are_like_no_others_are_odd(directions, odd):
    """Eighteen clients, and a few with a direction of their own that are cut off together."""
    vectors = np.vstack([np.zeros((18, 40)), np.eye(40)[list(directions)]])
    noise = 0.3 / np.sqrt(40) * np.random.default_rng(0).standard_normal(vectors.shape)
    cut = [list(range(18)), list(range(18, len(vectors)))]
    assert ward.find_outliers(squares_of(vectors + noise), cut) == odd


def test_clients_in_no_group_join_the_nearest():
    squares = squares_of(np.array([[0.0], [1], [9], [10], [3], [7]]))
    assert ward.join_nearest(squares, [[0, 1], [2, 3]]) == [[0, 1, 4], [2, 3, 5]]


@pytest.mark.parametrize("groups", [[[0, 1, 2, 3]], [[0], [1], [2], [3]]])
def test_one_group_and_clients_alone_have_no_score(groups):
    assert ward.score_evidence(1 - np.eye(4), groups, rng()) is None


def test_tightness_is_what_is_left_within_groups():
    """Squares about the mean: 2 * 1.5^2 + 2 * 0.5^2 = 5; within 0, 1 and 2, 3: 4 * 0.25 = 1."""
    vectors = np.array([[-1.5], [-0.5], [0.5], [1.5]])
    assert ward.compute_tightness(vectors, np.array([0, 0, 1, 1])) == pytest.approx(np.log(5.0))


def test_large_federations_are_looked_at_in_part(monkeypatch):
    """A sample of 12 of 40 clients still shows two groups; the result depends on the generator alone."""
    monkeypatch.setattr(ward, "MOST_COMPARED", 12)
    squares, groups = grouped((20, 20)), [list(range(20)), list(range(20, 40))]
    assert ward.score_evidence(squares, groups, rng()) > 4
    assert ward.score_evidence(squares, groups, rng()) == ward.score_evidence(squares, groups, rng())


def on_circle(*angles):
    """Return the squared distances between unit vectors at these angles."""
    return 2 - 2 * np.cos(np.subtract.outer(angles, angles))


def federation(sizes, seed, spread=0.3, dimensions=12):
    """Return squared distances of groups with a direction each, one that all share, and noise."""
    draw = np.random.default_rng(seed)
    vectors = np.repeat(np.eye(dimensions)[: len(sizes)], sizes, axis=0) + 2 * np.eye(dimensions)[-1]
    vectors = vectors + spread * draw.standard_normal(vectors.shape) / np.sqrt(dimensions)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return cdist(vectors, vectors, "sqeuclidean")


def ranges(sizes):
    stops = np.cumsum(sizes).tolist()
    return [list(range(stop - size, stop)) for size, stop in zip(sizes, stops, strict=True)]


class TestNumberOfGroups:
    def test_is_where_the_next_cluster_is_worth_least_against_the_last(self):
        """Eight clients, at most four groups. Left: 53.25, 3.25, 2.25, 1.25. F(2) = 100 / (53.25 / 6) = 11.3,
        F(3) = 50 / (3.25 / 5) = 76.9, F(4) = 1.8, F(5) = 2.4; ratios 0.15, 43, 0.74."""
        assert ward.estimate_number(np.array([100, 50, 1, 1, 0.5, 0.5, 0.25])) == 3

    @pytest.mark.parametrize("gains", [[1.0], [2.0, 1.0], [0.0] * 7])
    def test_few_clients_or_equal_ones_are_one_group(self, gains):
        assert ward.estimate_number(np.array(gains)) == 1


@pytest.mark.parametrize("sizes", [(5, 5, 5), (8, 7), (2, 9, 4), (18, 2), (20, 6, 4), (3,) * 6, (2,) * 10])
def test_groups_are_found_without_being_told_how_many(sizes):
    for seed in range(3):
        assert ward.find_groups(federation(sizes, seed), 5, rng()) == ranges(sizes)


class TestNumberInTheTree:
    """Four pairs: two near each other, at angles 0 and 0.5, and two far away, at 1.5 and 3."""

    SQUARES = on_circle(0, 0.04, 0.5, 0.54, 1.5, 1.54, 3, 3.04)

    def test_is_that_of_the_largest_silhouette(self, monkeypatch):
        monkeypatch.setattr(ward, "LARGER_NUMBER_SHARE", 2.0)
        assert len(ward.find_groups(self.SQUARES, 0, rng())) == 4

    def test_is_the_larger_one_of_the_largest_fall_if_its_silhouette_is_near(self, monkeypatch):
        monkeypatch.setattr(ward, "estimate_number", lambda gains: 4)
        squares = on_circle(0, 0.25, 0.5, 0.75, 2.0, 2.25, 2.5, 2.75)
        assert ward.find_groups(squares, 0, rng()) == ranges((2, 2, 2, 2))
        monkeypatch.setattr(ward, "LARGER_NUMBER_SHARE", 1.0)
        assert ward.find_groups(squares, 0, rng()) == ranges((4, 4))


@pytest.mark.parametrize(
    ("restarts", "expected"), [(0, [[0, 1, 2], [3]]), (10, [[0, 1], [2, 3]])], ids=["Ward", "k-means"]
)
def test_k_means_takes_back_a_join_of_the_tree(restarts, expected):
    """At 0, 20, 32 and 52: Ward joins 20 and 32 first, then 0. Squares 5.2; of (0, 20), (32, 52) 4."""
    assert ward.find_groups(on_circle(0, 0.20, 0.32, 0.5201), restarts, rng()) == expected


def test_large_federations_keep_the_clusters_of_the_tree(monkeypatch):
    monkeypatch.setattr(ward, "MOST_CLIENTS", 3)
    assert ward.find_groups(on_circle(0, 0.20, 0.32, 0.5201), 10, rng()) == [[0, 1, 2], [3]]


@pytest.mark.parametrize("num_clients", [0, 1, 2, 3])
def test_fewer_than_four_clients_are_one_group(num_clients):
    expected = [list(range(num_clients))] if num_clients else []
    assert ward.find_groups(1 - np.eye(num_clients), 5, rng()) == expected
