"""Similarities, communities and their silhouette."""

import random

import igraph
import numpy as np
import pytest

from fedgrid.algorithms.clustering.graph import (
    compute_similarities,
    compute_symmetric_distances,
    compute_trusted_distances,
    find_communities,
    find_layers,
)
from fedgrid.algorithms.clustering.measures import compute_silhouette
from fedgrid.algorithms.updates.source import Layout
from tests.helpers.small_cases import frozen, rng


def layout_of(num_parameters, **tensors):
    """Return the layout of these flat tensors; `fc_bias` is the tensor `fc.bias`."""
    names = tuple(name.replace("_", ".") for name in tensors)
    return Layout(names, tuple((size,) for size in tensors.values()), num_parameters)


TWO_LAYERS = layout_of(4, conv_weight=2, fc_weight=2)
A, B = frozen([3, 4, 0, 2]), frozen([6, 8, 0, 4])


def test_two_layers_by_hand():
    """Layers of norms 5 and 2 against 10 and 4; they differ by 5 and 2.

    T(a, b) = (1 + 5/5) (1 + 2/2) - 1 = 3; T(b, a) = (1 + 5/10) (1 + 2/4) - 1 = 1.25.
    """
    np.testing.assert_allclose(compute_trusted_distances([A, B], TWO_LAYERS), [[0, 3], [1.25, 0]], rtol=1e-6)


def test_the_symmetric_distance_is_the_geometric_mean_of_both_bounds():
    """sqrt(4 * 2.25) - 1 = 2."""
    distances_KK = compute_symmetric_distances([A, B], TWO_LAYERS)
    np.testing.assert_allclose(distances_KK, [[0, 2], [2, 0]], rtol=1e-6)


def test_a_layer_is_the_parameters_of_a_module_and_buffers_are_none():
    layout = layout_of(
        14, conv_weight=6, conv_bias=2, bn_weight=2, bn_bias=2, fc_weight=2, bn_mean=2, bn_counter=1
    )
    assert list(find_layers(layout)) == [slice(0, 8), slice(8, 12), slice(12, 14)]


def test_a_bias_that_is_nearly_zero_does_not_explode():
    """Kernels of norm 10 that differ by 1.04, biases of norms 1e-6 and 0.1.

    The kernel alone has T = 0.104, and each of the two as a layer 1.104 (1 + 0.1 / 1e-6) - 1 = 1.1e5.
    Fused, sqrt(1.04^2 + 0.1^2) / 10 = 0.1045.
    """
    a, b = frozen([10, 0, 1e-6]), frozen([10, 1.04, 0.1])
    fused_KK = compute_trusted_distances([a, b], layout_of(3, fc_weight=2, fc_bias=1))
    assert fused_KK[0, 1] == pytest.approx(0.10448, rel=1e-4)
    assert fused_KK[1, 0] == pytest.approx(0.10448 / (1 + 0.104**2 + 0.01**2) ** 0.5, rel=1e-3)


def test_a_layer_counts_as_a_tenth_of_the_others_at_least():
    """A module of norm 1e-6 against one of norm 0.1: 0.1 / 0.01 = 10 instead of 1e5, and 1 back.

    With the other layer's 0.104: 1.104 * 11 - 1 and (1 + 1.04 / |b|) * 2 - 1, |b| = sqrt(100 + 1.04^2).
    """
    a, b = frozen([10, 0, 1e-6]), frozen([10, 1.04, 0.1])
    distances_KK = compute_trusted_distances([a, b], layout_of(3, fc_weight=2, scale_weight=1))
    assert distances_KK[0, 1] == pytest.approx(1.104 * 11 - 1, rel=1e-4)
    assert distances_KK[1, 0] == pytest.approx((1 + 1.04 / 10.05394) * 2 - 1, rel=1e-4)


def test_distance_of_zero_layers_by_hand():
    """Zero against zero is no difference; zero against anything is ten times its own size."""
    models = [frozen([1, 0]), frozen([1, 0]), frozen([1, 7])]
    distances_KK = compute_trusted_distances(models, layout_of(2, conv_weight=1, fc_weight=1))
    np.testing.assert_allclose(distances_KK, [[0, 0, 10], [0, 0, 10], [1, 1, 0]])


def test_deep_models_stay_finite():
    """400 layers of ratio 10 would be 11^400: both directions stop where exponentials do."""
    layout = Layout(tuple(f"{index}.weight" for index in range(400)), ((1,),) * 400, 400)
    models = [frozen(np.zeros(400)), frozen(np.ones(400)), frozen(np.full(400, 1.001))]
    distances_KK = compute_trusted_distances(models, layout)
    assert np.isfinite(distances_KK).all()
    assert distances_KK[0, 1] > 1e300
    assert distances_KK[1, 2] == pytest.approx(1.001**400 - 1, rel=1e-3)


def test_distance_of_long_models_agrees_with_float64():
    """Streamed float32 products agree with the formula in float64, for models that are close."""
    random = rng()
    common = random.standard_normal(90_000)
    models = [frozen(common + 1e-3 * random.standard_normal(90_000)) for _ in range(3)]
    layout = layout_of(90_000, conv_weight=70_000, fc_weight=15_000, fc_bias=5_000)
    expected_KK = np.ones((3, 3))
    for where in (slice(70_000), slice(70_000, 90_000)):
        parts = [model[where].astype(np.float64) for model in models]
        expected_KK *= [[1 + np.linalg.norm(a - b) / np.linalg.norm(a) for b in parts] for a in parts]
    np.testing.assert_allclose(compute_trusted_distances(models, layout), expected_KK - 1, rtol=1e-5)


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
    np.testing.assert_allclose(compute_similarities(distances_KK, 3), expected_KK)
    np.testing.assert_allclose(compute_similarities(distances_KK, 1), np.cbrt(expected_KK))


@pytest.mark.parametrize("distance", [0.0, 1.0, 1e300])
def test_equal_distances_are_similarities_of_one(distance):
    apart_KK = 1 - np.eye(4)
    np.testing.assert_array_equal(compute_similarities(distance * apart_KK, 3), apart_KK)


@pytest.mark.parametrize("library", LIBRARIES)
def test_two_cliques_are_two_communities(library):
    assert find_communities(cliques(4, 3, bridge=0.05), library, 1.0, rng()) == [[0, 1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("resolution", [0.2, 1.0])
def test_unconnected_parts_are_never_one_community(library, resolution):
    assert find_communities(cliques(2, 3, 1), library, resolution, rng()) == [[0, 1], [2, 3, 4], [5]]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("resolution", [0.5, 1.0, 5.0])
@pytest.mark.parametrize("num_clients", [1, 2, 6])
def test_identical_clients_are_one_community(library, resolution, num_clients):
    assert find_communities(cliques(num_clients), library, resolution, rng()) == [list(range(num_clients))]


@pytest.mark.parametrize("library", LIBRARIES)
def test_communities_are_numbered_by_their_first_member(library):
    """Clients 0, 2, 4 and 1, 3, 5."""
    order = [0, 3, 1, 4, 2, 5]
    similarities_KK = cliques(3, 3, bridge=0.1)[np.ix_(order, order)]
    for seed in range(10):
        assert find_communities(similarities_KK, library, 1.0, rng(seed)) == [[0, 2, 4], [1, 3, 5]]


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
    counts = [len(find_communities(weights_KK, library, r, rng())) for r in (0.1, 0.3, 1.5, 1.7, 3.9, 4.1)]
    assert counts == [1, 2, 2, 4, 4, 8]


def noisy(seed):
    """Return similarities without a clear answer."""
    similarities_KK = rng(seed).random((20, 20))
    similarities_KK = np.triu(similarities_KK, 1)
    return similarities_KK + similarities_KK.T


@pytest.mark.parametrize("library", LIBRARIES)
def test_communities_depend_on_the_generator_alone(library):
    """The same one finds the same; over many, a graph without a clear answer has several."""
    found = [find_communities(noisy(0), library, 1.0, rng(seed)) for seed in range(20)]
    again = [find_communities(noisy(0), library, 1.0, rng(seed)) for seed in range(20)]
    assert found == again
    assert len({str(groups) for groups in found}) > 1


def test_igraphs_generator_is_left_as_it_was():
    """It is Python's `random`, from which nothing is drawn here."""
    before = random.getstate()
    find_communities(noisy(0), "louvain", 1.0, rng())
    assert random.getstate() == before
    random.seed(1)
    drawn = igraph.Graph.Erdos_Renyi(n=20, m=30).get_edgelist()
    random.seed(1)
    find_communities(noisy(1), "louvain", 1.0, rng())
    assert igraph.Graph.Erdos_Renyi(n=20, m=30).get_edgelist() == drawn
    random.setstate(before)


def test_silhouette_by_hand():
    """Clients at 0, 1 and 5; 0 and 1 together.

    (5 - 1) / 5 = 0.8 and (4 - 1) / 4 = 0.75; alone is 0: the mean is 1.55 / 3.
    """
    places = np.array([0.0, 1.0, 5.0])
    distances_KK = abs(places[:, None] - places)
    assert compute_silhouette(distances_KK, [[0, 1], [2]]) == pytest.approx(1.55 / 3)
