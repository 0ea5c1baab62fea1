"""Clusters before round 1, newcomers, and who is asked."""

import numpy as np
import pytest

from fedgrid.algorithms.clustered.before_training.before_training import CENTROIDS, MEMBERS
from fedgrid.algorithms.clustered.before_training.class_means import VECTOR
from fedgrid.algorithms.contract.orders import Presence
from fedgrid.algorithms.registry import create_algorithm
from tests.helpers.small_cases import build_layout, clients, partition, rng, sets, start, step

LAYOUT = build_layout(2)
POINTS = {0: 0.0, 1: 10.0, 2: 1.0, 3: 11.0, 4: 0.5}


def embeddings(**settings):
    return create_algorithm("embeddings", {"encoder": "pixels", "quantise": False, **settings})


def messages(points):
    return {client: {VECTOR: np.array([point], np.float32)} for client, point in points.items()}


def met(algorithm, points=POINTS, num_clients=5):
    return algorithm.meet(start(algorithm, num_clients), messages(points), LAYOUT, rng())


def test_groups_are_formed_before_round_1_and_reported_in_it():
    algorithm = embeddings()
    state = met(algorithm)
    assert partition(state) == sets({0, 2, 4}, {1, 3})
    assert len(state.models) == 2
    after, diagnostics = step(algorithm, state, 0, clients(*[[1.0, 0.0]] * 5))
    assert diagnostics.clustered
    assert partition(after) == partition(state)
    _, later = step(algorithm, after, 1, clients(*[[1.0, 0.0]] * 5))
    assert not later.clustered


def test_told_number_of_clusters_is_formed():
    """0, 0.5 and 1 merge below height 1, 10 and 11 there."""
    assert partition(met(embeddings(num_clusters=3))) == sets({0, 2, 4}, {1}, {3})
    assert len(met(embeddings(num_clusters=1)).models) == 1


@pytest.mark.parametrize(("update", "centroid", "members"), [(True, 11.0, 3), (False, 10.5, 2)])
def test_newcomer_joins_the_nearest_centroid(update, centroid, members):
    """Clients 0 to 3 and 5 are there; 4 comes later, at 12: its centroid becomes (10 + 11 + 12) / 3."""
    algorithm = embeddings(update_centroids=update)
    first = {client: POINTS[client] for client in range(4)} | {5: 0.5}
    state = met(algorithm, first, 6)
    state = algorithm.meet(state, messages({4: 12.0}), LAYOUT, rng())
    assert partition(state) == sets({0, 2, 5}, {1, 3, 4})
    cluster = int(state.labels_K[4])
    assert state.arrays[CENTROIDS][cluster].tolist() == [centroid]
    assert state.arrays[MEMBERS][cluster] == members
    after, diagnostics = step(algorithm, state, 3, clients(*[[1.0, 0.0]] * 6))
    assert diagnostics.placed == {4: "distance 1.50 to the nearest centroid"}
    _, later = step(algorithm, after, 4, clients(*[[1.0, 0.0]] * 6))
    assert later.placed == {}


def test_clients_that_are_met_again_go_to_the_nearest_centroid_and_centroids_are_means_again():
    """Client 2 goes from 1 to 9. Centroids 0.5 and 10.5 become (0 + 0.5) / 2 and (10 + 9 + 11) / 3."""
    algorithm = embeddings(recluster_every=4)
    state = algorithm.meet_again(met(algorithm), messages(POINTS | {2: 9.0}), LAYOUT, rng())
    assert partition(state) == sets({0, 4}, {1, 2, 3})
    assert state.arrays[CENTROIDS][:, 0].tolist() == [0.25, 10.0]
    assert state.arrays[MEMBERS].tolist() == [2, 3]
    _, diagnostics = step(algorithm, state, 4, clients(*[[1.0, 0.0]] * 5))
    assert diagnostics.clustered
    assert diagnostics.placed == {2: "distance 1.50 to the nearest centroid"}


def test_clients_are_met_again_every_so_many_rounds_and_never_by_default():
    assert [at for at in range(13) if embeddings(recluster_every=4).meets_again(at)] == [4, 8, 12]
    assert not any(embeddings().meets_again(at) for at in range(13))


def test_client_that_is_not_met_yet_counts_to_the_largest_cluster():
    state = met(embeddings(), {client: POINTS[client] for client in range(4)} | {4: 0.2}, 6)
    assert state.labels_K[5] == state.labels_K[0]


def test_share_of_each_cluster_is_asked():
    algorithm = embeddings(sample="cluster")
    state, everybody = met(algorithm), tuple(range(5))
    orders = algorithm.orders(state, 1, Presence(everybody, (0, 2), 0.5), build_layout(2), rng())
    asked = [order.client for order in orders]
    assert sum(client in (0, 2, 4) for client in asked) == 2
    assert sum(client in (1, 3) for client in asked) == 1
    one_there = algorithm.orders(state, 1, Presence((0, 1), (0,), 0.1), build_layout(2), rng())
    assert [order.client for order in one_there] == [0, 1]


def test_fixed_threshold_cuts_there():
    assert partition(met(embeddings(threshold=0.9))) == sets({0, 2, 4}, {1}, {3})


def test_k_means_of_ladd_with_k_given_and_by_the_silhouette():
    points = messages({0: 0.0, 1: 10.0, 2: 0.1, 3: 10.1, 4: 20.0, 5: 20.1})
    for settings in ({"num_clusters": 3}, {}):
        algorithm = create_algorithm("ladd", settings)
        state = algorithm.meet(start(algorithm, 6), points, LAYOUT, rng())
        assert partition(state) == sets({0, 2}, {1, 3}, {4, 5})


def test_styles_that_are_all_alike_are_one_cluster():
    algorithm = create_algorithm("ladd", {})
    state = algorithm.meet(start(algorithm, 4), messages(dict.fromkeys(range(4), 1.0)), LAYOUT, rng())
    assert partition(state) == sets({0, 1, 2, 3})


def test_as_published_differs_by_the_release():
    settings = create_algorithm("embeddings-as-published", {}).settings
    assert settings.threshold == "bayesian-reversed"
    assert settings.encoder.batch_statistics
    assert (settings.shared, settings.least_clusters, settings.least_members) == (2, 3, 10)
