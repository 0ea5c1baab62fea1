"""Similarities, communities and their silhouette."""

import random

import igraph
import numpy as np
import pytest

from fedgrid.algorithms.clustering.graph import communities, similarities
from fedgrid.algorithms.clustering.measures import silhouette
from tests.helpers.small_cases import frozen, rng

LIBRARIES = ["louvain", "leiden"]


def graph(num_clients, *edges):
    """Return the similarities of a graph of (client, client, weight)."""
    similarities_KK = np.zeros((num_clients, num_clients))
    for one, other, weight in edges:
        similarities_KK[one, other] = similarities_KK[other, one] = weight
    return frozen(similarities_KK, np.float64)


def cliques(*sizes, bridge=0.0):
    """Return complete graphs of weight 1, the others at `bridge`."""
    label_K = np.repeat(np.arange(len(sizes)), sizes)
    similarities_KK = np.where(label_K[:, None] == label_K, 1.0, bridge)
    np.fill_diagonal(similarities_KK, 0.0)
    return frozen(similarities_KK, np.float64)


def test_similarities_by_hand():
    """Distances 1, 2, 3: 1 - (d - 1) / 2 is 1, 1/2, 0, and its cube 1, 1/8, 0."""
    distances_KK = frozen([[0, 1, 2], [1, 0, 3], [2, 3, 0]], np.float64)
    expected_KK = [[0, 1, 0.125], [1, 0, 0], [0.125, 0, 0]]
    np.testing.assert_allclose(similarities(distances_KK, 3), expected_KK)
    np.testing.assert_allclose(similarities(distances_KK, 1), np.cbrt(expected_KK))


@pytest.mark.parametrize("distance", [0.0, 1.0, 1e300])
def test_equal_distances_are_similarities_of_one(distance):
    apart_KK = 1 - np.eye(4)
    np.testing.assert_array_equal(similarities(distance * apart_KK, 3), apart_KK)


def test_distances_that_rounding_tells_apart_are_equal():
    noise_KK = 1e-7 * rng().random((4, 4))
    apart_KK = 1 - np.eye(4)
    np.testing.assert_array_equal(similarities(apart_KK + (noise_KK + noise_KK.T) * apart_KK, 3), apart_KK)


@pytest.mark.parametrize("num_clients", [1, 2])
def test_similarities_of_one_pair_of_clients_and_of_one_client(num_clients):
    apart_KK = 1 - np.eye(num_clients)
    np.testing.assert_array_equal(similarities(5 * apart_KK, 3), apart_KK)


@pytest.mark.parametrize("library", LIBRARIES)
def test_two_cliques_are_two_communities(library):
    assert communities(cliques(4, 3, bridge=0.05), library, 1.0, rng()) == [[0, 1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("resolution", [0.2, 1.0])
def test_unconnected_parts_are_never_one_community(library, resolution):
    assert communities(cliques(2, 3, 1), library, resolution, rng()) == [[0, 1], [2, 3, 4], [5]]


@pytest.mark.parametrize("library", LIBRARIES)
def test_graph_with_a_single_edge(library):
    assert communities(graph(4, (1, 3, 0.5)), library, 1.0, rng()) == [[0], [1, 3], [2]]


@pytest.mark.parametrize("library", LIBRARIES)
def test_graph_without_edges(library):
    assert communities(graph(3), library, 1.0, rng()) == [[0], [1], [2]]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("resolution", [0.5, 1.0, 5.0])
@pytest.mark.parametrize("num_clients", [1, 2, 6])
def test_identical_clients_are_one_community(library, resolution, num_clients):
    assert communities(cliques(num_clients), library, resolution, rng()) == [list(range(num_clients))]


@pytest.mark.parametrize("library", LIBRARIES)
def test_communities_are_numbered_by_their_first_member(library):
    """Clients 0, 2, 4 and 1, 3, 5."""
    order = [0, 3, 1, 4, 2, 5]
    similarities_KK = cliques(3, 3, bridge=0.1)[np.ix_(order, order)]
    for seed in range(10):
        assert communities(similarities_KK, library, 1.0, rng(seed)) == [[0, 2, 4], [1, 3, 5]]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_higher_resolution_gives_more_communities(library):
    """Two groups of two pairs each: weight 1 in a pair, 0.4 in a group, 0.05 across.

    A client's links are 1 + 2 * 0.4 + 4 * 0.05 = 2, all clients' 16. At resolution r it gains to join
    the groups, 16 * 0.05 - r 8 * 8 / 16 = 0.8 - 4 r, below 0.2; the pairs of a group, 4 * 0.4 - r 4 * 4 / 16
    = 1.6 - r, below 1.6; the two of a pair, 1 - r 2 * 2 / 16, below 4.
    """
    pair_K, group_K = np.arange(8) // 2, np.arange(8) // 4
    weights_KK = np.where(group_K[:, None] == group_K, 0.4, 0.05)
    weights_KK[pair_K[:, None] == pair_K] = 1.0
    np.fill_diagonal(weights_KK, 0.0)
    counts = [len(communities(weights_KK, library, r, rng())) for r in (0.1, 0.3, 1.5, 1.7, 3.9, 4.1)]
    assert counts == [1, 2, 2, 4, 4, 8]


def noisy(seed):
    """Return similarities without a clear answer."""
    similarities_KK = rng(seed).random((20, 20))
    similarities_KK = np.triu(similarities_KK, 1)
    return similarities_KK + similarities_KK.T


@pytest.mark.parametrize("library", LIBRARIES)
def test_communities_depend_on_the_generator_alone(library):
    """The same one finds the same; over many, a graph without a clear answer has several."""
    found = [communities(noisy(0), library, 1.0, rng(seed)) for seed in range(20)]
    again = [communities(noisy(0), library, 1.0, rng(seed)) for seed in range(20)]
    assert found == again
    assert len({str(groups) for groups in found}) > 1


def test_igraphs_generator_is_left_as_it_was():
    """It is Python's `random`, from which nothing is drawn here."""
    before = random.getstate()
    communities(noisy(0), "louvain", 1.0, rng())
    assert random.getstate() == before
    random.seed(1)
    drawn = igraph.Graph.Erdos_Renyi(n=20, m=30).get_edgelist()
    random.seed(1)
    communities(noisy(1), "louvain", 1.0, rng())
    assert igraph.Graph.Erdos_Renyi(n=20, m=30).get_edgelist() == drawn
    random.setstate(before)


def test_silhouette_by_hand():
    """Clients at 0, 1 and 5; 0 and 1 together.

    (5 - 1) / 5 = 0.8 and (4 - 1) / 4 = 0.75; alone is 0: the mean is 1.55 / 3.
    """
    places = np.array([0.0, 1.0, 5.0])
    distances_KK = abs(places[:, None] - places)
    assert silhouette(distances_KK, [[0, 1], [2]]) == pytest.approx(1.55 / 3)


@pytest.mark.parametrize("groups", [[[0, 1, 2]], [[0], [1], [2]]])
def test_there_is_no_silhouette_of_one_community_or_of_singletons(groups):
    assert silhouette(1 - np.eye(3), groups) is None
