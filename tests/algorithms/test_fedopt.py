"""FedOpt: the mean update of a cluster, and a server optimizer on top of it."""

import numpy as np
import pytest
from pydantic import ValidationError

from fedgrid.algorithms.contract.base import split
from fedgrid.algorithms.contract.orders import Order
from fedgrid.algorithms.fedopt import FedOpt, FedOptSettings
from tests.helpers.small_cases import clients, model_of, orders_of, play, start, step


def fedopt(**settings):
    return FedOpt(FedOptSettings(**settings))


def test_all_clients_start_in_one_cluster_with_the_common_model():
    state = start(fedopt(), 3, (1.0, 2.0))
    assert state.labels_K.tolist() == [0, 0, 0]
    assert state.labels_K.dtype == np.int64
    assert [model.tolist() for model in state.models] == [[1, 2]]


def test_every_sampled_client_is_sent_its_cluster_model():
    algorithm = fedopt()
    state = split(start(algorithm, 4), 0, [[0, 2], [1, 3]])
    expected = [Order(client, (client % 2,)) for client in range(4)]
    assert list(orders_of(algorithm, state, range(4)).values()) == expected
    assert list(orders_of(algorithm, state, [1, 2]).values()) == expected[1:3]


def test_the_new_model_is_the_old_one_plus_the_unweighted_mean():
    """(1, 1) + ((2, 0) + (4, 6)) / 2 = (4, 4)."""
    algorithm = fedopt()
    state, diagnostics = step(algorithm, start(algorithm, 2, (1, 1)), 0, clients((2, 0), (4, 6)))
    assert state.models[0].tolist() == [4, 4]
    assert state.models[0].dtype == np.float32
    assert not diagnostics.clustered


def test_the_server_learning_rate_scales_the_mean():
    """(1, 1) + 0.5 (3, 3) = (2.5, 2.5)."""
    algorithm = fedopt(server_learning_rate=0.5)
    state, _ = step(algorithm, start(algorithm, 2, (1, 1)), 0, clients((2, 0), (4, 6)))
    assert state.models[0].tolist() == [2.5, 2.5]


def test_clusters_are_averaged_apart():
    algorithm = fedopt()
    state = split(start(algorithm, 3, (1, 1)), 0, [[0, 2], [1]])
    state, _ = step(algorithm, state, 0, clients((2, 0), (8, 8), (4, 6)))
    assert [model.tolist() for model in state.models] == [[4, 4], [9, 9]]
    assert state.labels_K.tolist() == [0, 1, 0]


@pytest.mark.parametrize("server_optimizer", ["none", "momentum", "adam"])
def test_a_cluster_without_usable_updates_keeps_its_model(server_optimizer):
    algorithm = fedopt(server_optimizer=server_optimizer)
    state = split(start(algorithm, 3, (1, 1)), 0, [[0, 1], [2]])
    before, _ = step(algorithm, state, 0, clients((2, 0), (4, 6), (1, 5)))
    after, _ = step(algorithm, before, 1, clients((2, 0)))
    assert after.models[1].tobytes() == before.models[1].tobytes()
    assert after.models[0].tobytes() != before.models[0].tobytes()
    assert after.labels_K.tolist() == [0, 0, 1]


def test_a_missing_client_is_left_out_of_the_mean():
    algorithm = fedopt()
    state, _ = step(algorithm, start(algorithm, 3), 0, {0: (2, 0), 2: (4, 6)})
    assert state.models[0].tolist() == [3, 3]


def test_server_momentum_over_two_rounds():
    """m1 = (2, 4), x1 = 2 m1 = (4, 8); m2 = 0.5 m1 + (0, 2) = (1, 4), x2 = x1 + 2 m2 = (6, 16)."""
    algorithm = fedopt(server_optimizer="momentum", server_momentum=0.5, server_learning_rate=2.0)
    first, second = play(algorithm, [clients((2, 4)), clients((0, 2))], 1)
    assert first[0].models[0].tolist() == [4, 8]
    assert second[0].models[0].tolist() == [6, 16]


def test_server_adam_over_two_rounds():
    """Reddi et al., Algorithm 2 (FedAdam), without bias correction; D1 = (2, -4), D2 = (0, -4).

    m1 = 0.1 D1 = (0.2, -0.4),          v1 = 0.01 D1^2 = (0.04, 0.16),      x1 = m1 / (sqrt(v1) + 0.001)
    m2 = 0.9 m1 + 0.1 D2 = (0.18, -0.76), v2 = 0.99 v1 + 0.01 D2^2 = (0.0396, 0.3184)
    Starting v at tau^2 = 1e-6 (as the paper allows) instead of 0 moves these by about 1e-5.
    """
    algorithm = fedopt(server_optimizer="adam")
    first, second = play(algorithm, [clients((1, -4), (3, -4)), clients((0, -5), (0, -3))], 2)
    x1 = np.array([0.2 / 0.201, -0.4 / 0.401])
    x2 = x1 + [0.18 / (np.sqrt(0.0396) + 0.001), -0.76 / (np.sqrt(0.3184) + 0.001)]
    assert first[0].models[0] == pytest.approx(x1, rel=1e-4)
    assert second[0].models[0] == pytest.approx(x2, rel=1e-4)


def test_server_adam_uses_its_settings():
    """b1 = 0.5, b2 = 0.75, epsilon = 1, rate 3, D = 4: m = 2, v = 4, x = 3 * 2 / (2 + 1) = 2.

    With v started at epsilon^2 = 1: v = 0.75 + 4 = 4.75, x = 6 / (2.1794 + 1) = 1.887.
    """
    algorithm = fedopt(
        server_optimizer="adam",
        server_momentum=0.5,
        server_beta2=0.75,
        server_epsilon=1.0,
        server_learning_rate=3.0,
    )
    ((state, _),) = play(algorithm, [clients((4, 4))], 1)
    x = float(state.models[0][0])
    assert x == pytest.approx(2.0) or x == pytest.approx(6 / (np.sqrt(4.75) + 1))


def test_each_cluster_has_an_optimizer_of_its_own():
    """Cluster 0 sees 2 twice: m = 2, then 1 + 2 = 3; cluster 1 sees -4, then 0: m = -4, then -2."""
    algorithm = fedopt(server_optimizer="momentum", server_momentum=0.5)
    state = split(start(algorithm, 2), 0, [[0], [1]])
    state, _ = step(algorithm, state, 0, clients((2, 2), (-4, -4)))
    state, _ = step(algorithm, state, 1, clients((2, 2), (0, 0)))
    assert [model.tolist() for model in state.models] == [[5, 5], [-6, -6]]


@pytest.mark.parametrize("server_optimizer", ["none", "momentum", "adam"])
def test_buffers_take_the_plain_mean_at_rate_one(server_optimizer):
    """The last entry is a counter: 1 + 4 = 5, then 5 + 2 = 7, whatever optimizer and rate."""
    algorithm = fedopt(server_optimizer=server_optimizer, server_learning_rate=0.5)
    state = start(algorithm, 2, (0, 0, 1))
    state, _ = step(algorithm, state, 0, clients((2, 0, 3), (2, 0, 5)), num_buffers=1)
    assert state.models[0][2] == 5
    state, _ = step(algorithm, state, 1, clients((2, 0, 2), (2, 0, 2)), num_buffers=1)
    assert state.models[0][2] == 7
    if server_optimizer == "none":
        assert state.models[0].tolist() == [2, 0, 7]


def test_updates_of_zero_move_nothing():
    algorithm = fedopt()
    state, _ = step(algorithm, start(algorithm, 2, (1, 2)), 0, clients((0, 0), (0, 0)))
    assert model_of(state, 0) == [1, 2]


@pytest.mark.parametrize(
    "settings",
    [
        {"server_optimizer": "sgd"},
        {"server_learning_rate": float("nan")},
        {"server_learning_rate": -1.0},
        {"server_momentum": 1.5},
        {"learning_rate": 1.0},
    ],
)
def test_impossible_settings_are_refused_by_name(settings):
    (name,) = settings
    with pytest.raises(ValidationError, match=name):
        FedOptSettings(**settings)
