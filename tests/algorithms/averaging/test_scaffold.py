"""SCAFFOLD: Karimireddy et al. 2020, Algorithm 1 with option II."""

import numpy as np
import pytest

from fedgrid.algorithms.contract.orders import Presence
from fedgrid.algorithms.contract.split import split
from fedgrid.algorithms.registry import create_algorithm
from fedgrid.algorithms.updates.updates import Updates
from tests.helpers.quadratic import (
    CURVATURES,
    RATE,
    STEPS,
    TARGETS,
    QuadraticSource,
    build_quadratic_layout,
    train_quadratic,
)
from tests.helpers.small_cases import frozen, rng

SAMPLED = [(0, 1, 2), (0, 2), (1,), (1, 2), (0, 1, 2), (0, 1)]
"""Clients of each round; each takes a number of steps of its own."""


def reference(server_rate=1.0):
    """Return model and server variate after each round, by the paper's formulas."""
    x, c, own = np.zeros(2), np.zeros(2), np.zeros((3, 2))
    for sampled in SAMPLED:
        models, changes = [], []
        for i in sampled:
            y = x.copy()
            for _ in range(STEPS[i]):
                y -= RATE * (CURVATURES[i] @ (y - TARGETS[i]) - own[i] + c)
            new = own[i] - c + (x - y) / (STEPS[i] * RATE)
            models, changes, own[i] = [*models, y - x], [*changes, new - own[i]], new
        x, c = x + server_rate * np.mean(models, axis=0), c + len(sampled) / 3 * np.mean(changes, axis=0)
        yield x, c


def start(algorithm):
    return algorithm.init(build_quadratic_layout(2), 3, lambda number: np.zeros(2, np.float64), rng())


def after_round(algorithm, state, sampled, memories, weights=None):
    """Return the state after a round of `sampled`, and write the clients' `memories`."""
    replies = {}
    for order in algorithm.orders(state, 0, Presence((0, 1, 2), sampled), build_quadratic_layout(2), rng()):
        i, model = order.client, state.models[order.candidates[0]]
        replies[i], memories[i] = train_quadratic(
            order, model, CURVATURES[i], TARGETS[i], RATE, STEPS[i], memories.get(i, {})
        )
    absent = set(range(3)) - set(sampled)
    updates = Updates(
        QuadraticSource(replies), build_quadratic_layout(2), clients=replies, absent=absent, weights=weights
    )
    return algorithm.step(state, 0, updates, rng())[0]


def ours(rounds=SAMPLED, weights=None, memories=None, **settings):
    """Return the same from the algorithm and its local rule; `memories` are the clients'."""
    algorithm = create_algorithm("scaffold", settings)
    state, memories = start(algorithm), {} if memories is None else memories
    for sampled in rounds:
        state = after_round(algorithm, state, sampled, memories, weights)
        yield state.models[0], state.arrays["variate"]


@pytest.mark.parametrize("server_rate", [1.0, 0.5])
def test_models_and_variates_are_those_of_the_paper(server_rate):
    rounds = zip(ours(server_learning_rate=server_rate), reference(server_rate), strict=True)
    for (model, variate), (expected_model, expected_variate) in rounds:
        assert model == pytest.approx(expected_model, abs=1e-6)
        assert variate == pytest.approx(expected_variate, abs=1e-6)


def test_the_servers_variate_is_the_weighted_mean_of_the_clients():
    """The invariant of Algorithm 1, c = sum p_i c_i, if all take part."""
    for weights, shares in (({0: 1, 1: 3, 2: 4}, (1, 3, 4)), (None, (1, 1, 1))):
        own = {}
        for _, variate in ours([(0, 1, 2)] * 4, weights, own):
            variates = [own[client]["variate"] for client in range(3)]
            assert variate == pytest.approx(np.average(variates, axis=0, weights=shares), rel=1e-5)


def test_orders_carry_the_servers_variate_once_for_all():
    algorithm = create_algorithm("scaffold")
    state = algorithm.init(build_quadratic_layout(2), 3, lambda number: frozen([0, 0]), rng())
    orders = algorithm.orders(state, 0, Presence((0, 1, 2), (0, 2)), build_quadratic_layout(2), rng())
    assert [order.client for order in orders] == [0, 2]
    assert len({id(order.payload["variate"]) for order in orders}) == 1


UNDER_BNC = {"local": {"name": "scaffold"}}


@pytest.mark.parametrize("weights", [None, {0: 1, 1: 3, 2: 4}])
def test_as_a_method_under_plain_averaging_it_is_the_algorithm(weights):
    """While weights are equal, or all take part: the method weighs each client's own variate."""
    rounds = SAMPLED if weights is None else [(0, 1, 2)] * 4
    algorithm, memories = create_algorithm("fedavg", UNDER_BNC), {}
    state = start(algorithm)
    for sampled, (model, variate) in zip(rounds, ours(rounds, weights), strict=True):
        state = after_round(algorithm, state, sampled, memories, weights)
        assert state.models[0] == pytest.approx(model, abs=1e-6)
        [order, *_] = algorithm.orders(state, 0, Presence((0, 1, 2), (0,)), build_quadratic_layout(2), rng())
        assert order.payload["variate"] == pytest.approx(variate, abs=1e-6)


def optimum(clients):
    """Return the least of the sum of these clients' quadratics."""
    matrix = sum(CURVATURES[i] for i in clients)
    return np.linalg.solve(matrix, sum(CURVATURES[i] @ TARGETS[i] for i in clients))


def test_after_a_split_each_cluster_reaches_its_own_optimum():
    """With the parent's variate all three would be pulled towards the parent's optimum for good."""
    algorithm, memories = create_algorithm("fedavg", UNDER_BNC), {}
    state = start(algorithm)
    for _ in range(20):
        state = after_round(algorithm, state, (0, 1, 2), memories)
    state = split(state, 0, [[0, 1], [2]])
    before = {i: memory["variate"] for i, memory in memories.items()}
    orders = algorithm.orders(state, 0, Presence((0, 1, 2), (0, 1, 2)), build_quadratic_layout(2), rng())
    assert sum(orders[i].payload["variate"] - before[i] for i in (0, 1)) == pytest.approx(0, abs=1e-6)
    for number in range(200):
        sampled = ((0, 1, 2), (0, 2), (1,))[number % 3]
        state = after_round(algorithm, state, sampled, memories)
    for members in ((0, 1), (2,)):
        assert state.models[state.labels_K[members[0]]] == pytest.approx(optimum(members), abs=1e-3)
