"""Briggs' FL+HC: one agglomerative clustering in a given round."""

import numpy as np
import pytest

from fedgrid.algorithms.registry import create_algorithm
from tests.helpers.small_cases import clients, partition, play, rng, sets, start, step

LINE = clients((0, 1), (1, 1), (3, 1), (7, 1))
"""Four clients on a line, at 0, 1, 3 and 7; {0, 1} merge first, at height 1."""


def take(vectors, num_clients, name="briggs", **settings):
    """Take the clustering round, the first, from a single cluster."""
    algorithm = create_algorithm(name, {"round": 1, **settings})
    return step(algorithm, start(algorithm, num_clients, np.zeros(len(vectors[0]))), 0, vectors)


def test_briggs_clusters_in_its_round_and_in_no_other():
    """Round 3, counted from 1: index 2. Before, the mean of opposite updates; after, each its own."""
    apart = clients((2, 0), (2, 0), (-2, 0))
    across = clients((0, 3), (0, -3), (0, 3))
    history = play(create_algorithm("briggs", {"round": 3}), [across, across, apart, across], 3)
    assert [diagnostics.clustered for _, diagnostics in history] == [False, False, True, False]
    assert partition(history[1][0]) == sets([0, 1, 2])
    assert [model.tolist() for model in history[1][0].models] == [[0, 2]]
    assert partition(history[2][0]) == partition(history[3][0]) == sets([0, 1], [2])
    assert [model.tolist() for model in history[2][0].models] == [[2, 2], [-2, 2]]
    assert [model.tolist() for model in history[3][0].models] == [[2, 2], [-2, 5]]


def test_the_default_is_round_21():
    algorithm = create_algorithm("briggs", {})
    apart = clients((1, 0), (0, 1))
    for round_index, expected in ((19, sets([0, 1])), (20, sets([0], [1])), (21, sets([0, 1]))):
        assert partition(step(algorithm, start(algorithm, 2), round_index, apart)[0]) == expected


@pytest.mark.parametrize(("threshold", "together"), [(0.4, False), (0.41, True)])
def test_merges_lie_below_the_threshold(threshold, together):
    """(5, 0) and (3, 4) have cosine 15 / 25 = 0.6, distance exactly 0.4."""
    state, diagnostics = take(clients((5, 0), (3, 4)), 2, threshold=threshold)
    assert partition(state) == (sets([0, 1]) if together else sets([0], [1]))
    assert diagnostics.clustered


@pytest.mark.parametrize(
    ("linkage", "height"),
    [("single", 2.0), ("complete", 3.0), ("average", 2.5), ("ward", 5 / 3**0.5)],
)
def test_linkages_by_hand(linkage, height):
    """Clients at 0, 1, 3, 7. When 3 meets {0, 1}: nearest 2, farthest 3, mean 2.5, Ward
    sqrt(2 * 2 * 1 / 3) * |3 - 0.5| = 2.887; all below 4, the distance from 3 to 7.
    """
    settings = {"linkage": linkage, "metric": "euclidean"}
    below, _ = take(LINE, 4, threshold=height - 0.01, **settings)
    above, _ = take(LINE, 4, threshold=height + 0.01, **settings)
    assert partition(below) == sets([0, 1], [2], [3])
    assert partition(above) == sets([0, 1, 2], [3])


@pytest.mark.parametrize(
    ("linkage", "height"), [("single", 4.0), ("complete", 7.0), ("average", 17 / 3), ("ward", 6.9402)]
)
def test_last_merge_below_the_threshold_is_made(linkage, height):
    """7 meets {0, 1, 3}: 4, 7, (7 + 6 + 4) / 3, and Ward sqrt(2 * 3 * 1 / 4) * (7 - 4 / 3) = 6.940."""
    settings = {"linkage": linkage, "metric": "euclidean"}
    assert partition(take(LINE, 4, threshold=height - 0.01, **settings)[0]) == sets([0, 1, 2], [3])
    assert partition(take(LINE, 4, threshold=height + 0.01, **settings)[0]) == sets([0, 1, 2, 3])


@pytest.mark.parametrize(
    ("metric", "height"), [("manhattan", 7.0), ("euclidean", 5.0), ("cosine", 1 - 11 / (5 * 5**0.5))]
)
def test_metrics_by_hand(metric, height):
    """(1, 2) and (4, 6) differ by (3, 4): 7 or 5. (3, 4) and (1, 2): cosine 11 / (5 sqrt(5)) = 0.98387."""
    vectors = clients((3, 4), (1, 2)) if metric == "cosine" else clients((1, 2), (4, 6))
    assert partition(take(vectors, 2, metric=metric, threshold=height * 0.99)[0]) == sets([0], [1])
    assert partition(take(vectors, 2, metric=metric, threshold=height * 1.01)[0]) == sets([0, 1])


def test_a_client_without_a_direction_does_not_change_how_the_others_are_grouped():
    """A zero update has no cosine: it may stay alone or in the parent's cluster, the others part as ever."""
    state, _ = take(clients((1, 0), (2, 0), (0, 0), (0, 1), (0, 3)), 5)
    others = {cluster - {2} for cluster in partition(state)} - {frozenset()}
    assert others == sets([0, 1], [3, 4])


def groups_of_five(similarity=0.0):
    """Return updates of clients 0..14, client k in group k // 5: axes a group, slightly off."""
    random = rng()
    vectors = np.full((15, 6), similarity)
    vectors[np.arange(15), np.arange(15) // 5] += 1.0
    return clients(*(vectors + 0.01 * random.standard_normal(vectors.shape)))


def test_published_similarities_group_unlike_clients():
    """The published code hands cosine similarities over as distances: 0 across groups, 1 inside.

    A merge that brings two clients of one group together has a mean similarity of at least
    1 / 9 > 0.05 while clusters have one client of each group at most, so no cluster ever holds two of
    them: the published partitions (five triples with one client of each group) look just like that.
    """
    state, _ = take(groups_of_five(), 15, name="briggs-as-published")
    clusters = partition(state)
    assert not clusters & sets(range(5), range(5, 10), range(10, 15))
    assert all(len({client // 5 for client in cluster}) == len(cluster) for cluster in clusters)
    assert any(len(cluster) > 1 for cluster in clusters)


def test_published_similarities_above_the_threshold_leave_singletons():
    """As in all the archived ResNet runs, whose similarities are nearly 1."""
    state, _ = take(groups_of_five(similarity=10.0), 15, name="briggs-as-published")
    assert partition(state) == {frozenset([client]) for client in range(15)}


def test_published_similarities_around_zero_merge_everybody():
    """As in most of the archived CNN runs, whose updates are orthogonal by round 21."""
    state, _ = take(clients(*np.eye(6)), 6, name="briggs-as-published")
    assert partition(state) == sets(range(6))
