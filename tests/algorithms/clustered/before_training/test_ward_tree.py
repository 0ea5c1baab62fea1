"""Ward's tree and its cuts."""

import warnings

import numpy as np
import pytest
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import calinski_harabasz_score

from fedgrid.algorithms.clustered.before_training import ward_tree
from fedgrid.algorithms.clustered.before_training.ward_tree import CutLimits, WardTree
from tests.helpers.small_cases import group_labels, sets

ANY = CutLimits(2, 1)
FOUR = np.array([[0.0], [1.0], [10.0], [12.0]])
"""Merges: 0 and 1 at height 1, 10 and 12 at 2, the pairs at sqrt(2 * 2 * 2 / 4) * 10.5 = 14.85."""


def planted(num_groups, members, entries, flip, seed=0):
    """Return random bits of each group, each client's flipped, and the groups."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(2, size=(num_groups, entries))
    truth = np.repeat(np.arange(num_groups), members)
    return groups[truth] ^ (rng.random((len(truth), entries)) < flip), truth


def test_heights_and_index_by_hand():
    """Two clusters: within 0.5 + 2, between 4 * 5.25^2 = 110.25, so 110.25 / (2.5 / 2) = 88.2.

    Three: within 0.5, between 112.75 - 0.5, so (112.25 / 2) / 0.5 = 112.25.
    """
    tree = WardTree(FOUR)
    np.testing.assert_allclose(tree.heights, [1, 2, 10.5 * np.sqrt(2)])
    assert tree.compute_index(2) == pytest.approx(88.2)
    assert tree.compute_index(1) == pytest.approx(112.25)
    assert group_labels(tree.find_best_index(ANY).labels_N) == sets({0, 1}, {2}, {3})
    assert group_labels(tree.find_best_index(CutLimits(2, 2)).labels_N) == sets({0, 1}, {2, 3})


def test_index_of_every_cut_is_scikit_learns():
    vectors, _ = planted(4, 10, 60, 0.2)
    tree = WardTree(vectors)
    for step in tree.list_cuts():
        found = tree.cut_below(float(tree.heights[step]))
        assert found.index == pytest.approx(calinski_harabasz_score(vectors, found.labels_N))


def test_clusters_below_a_height_are_scikit_learns():
    vectors, _ = planted(4, 10, 60, 0.2)
    tree = WardTree(vectors)
    for threshold in (3.0, 5.0, 8.0, 100.0):
        model = AgglomerativeClustering(None, linkage="ward", distance_threshold=threshold).fit(vectors)
        assert group_labels(tree.cut_below(threshold).labels_N) == group_labels(model.labels_)


@pytest.mark.parametrize("flip", [0.0, 0.1])
@pytest.mark.parametrize("rule", ["find_best_index", "find_widest_gap"])
def test_four_planted_groups_are_found(rule, flip):
    vectors, truth = planted(4, 25, 200, flip)
    found = getattr(WardTree(vectors), rule)(CutLimits(2, 2))
    assert group_labels(found.labels_N) == group_labels(truth)


@pytest.mark.parametrize(
    ("count", "groups"),
    [
        (1, [{0, 1, 2, 3}]),
        (2, [{0, 1}, {2, 3}]),
        (3, [{0, 1}, {2}, {3}]),
        (4, [{0}, {1}, {2}, {3}]),
        (9, [{0}, {1}, {2}, {3}]),
    ],
)
def test_tree_is_cut_into_a_number_of_clusters(count, groups):
    assert group_labels(WardTree(FOUR).cut_into(count)) == sets(*groups)


def test_equal_vectors_have_fewer_clusters_than_asked_for():
    assert group_labels(WardTree(np.array([[0.0], [0.0], [3.0]])).cut_into(3)) == sets({0, 1}, {2})
    assert WardTree(np.ones((1, 3))).cut_into(2).tolist() == [0]


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_vectors_are_one_cluster(count):
    tree = WardTree(np.arange(count)[:, None])
    for found in (tree.find_best_index(ANY), tree.find_widest_gap(ANY), tree.search_threshold(ANY, 0)):
        assert found.labels_N.tolist() == [0] * count


def test_guards_refuse_small_clusters_unless_there_are_no_others():
    """0 0 1 1 and 50 alone: of two clusters one is {50}."""
    vectors = np.array([[0.0], [0.1], [5.0], [5.1], [50.0]])
    assert group_labels(WardTree(vectors).find_best_index(CutLimits(2, 1)).labels_N) == sets(
        {0, 1}, {2, 3}, {4}
    )
    assert group_labels(WardTree(vectors[:4]).find_best_index(CutLimits(2, 2)).labels_N) == sets(
        {0, 1}, {2, 3}
    )
    assert len(group_labels(WardTree(vectors).find_best_index(CutLimits(2, 3)).labels_N)) == 3


def test_exact_choice_is_never_below_the_optimised_one(monkeypatch):
    monkeypatch.setattr(ward_tree, "RANDOM_POINTS", 10)
    monkeypatch.setattr(ward_tree, "MODEL_POINTS", 1)
    tree = WardTree(planted(4, 10, 60, 0.2)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tree.find_best_index(ANY).index >= tree.search_threshold(ANY, 0).index


def test_reversed_sign_prefers_the_worst_accepted_cut(monkeypatch):
    """Groups at 0, 10, 30 and 60: of three clusters the index is less than of four; two are not accepted."""
    monkeypatch.setattr(ward_tree, "MODEL_POINTS", 0)
    vectors = np.repeat([[0.0], [10.0], [30.0], [60.0]], 5, axis=0) + np.tile([[0.0], [0.1]], (10, 1))
    tree = WardTree(vectors)
    assert len(group_labels(tree.find_best_index(CutLimits(3, 5)).labels_N)) == 4
    found = tree.search_threshold(CutLimits(3, 5), 0, reversed_sign=True)
    assert group_labels(found.labels_N) == sets(range(10), range(10, 15), range(15, 20))
