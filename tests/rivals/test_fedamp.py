"""FedAMP: Huang et al. 2021, by hand, and what it is equal to."""

from math import exp

import numpy as np
import pytest

from fedgrid.algorithms.contract.orders import Presence
from fedgrid.algorithms.registry import create_algorithm
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.rivals.fedamp import MixtureRule
from tests.helpers.scalar_client import ScalarClient
from tests.helpers.small_cases import build_layout, build_orders, start, step
from tests.helpers.small_runs import config, play, rows

ALPHA, SIGMA = 0.5, 2.0
SETTINGS = {"alpha": ALPHA, "sigma": SIGMA, "pull": 1.0}


def mixtures(algorithm, state, sampled):
    orders = build_orders(algorithm, state, sampled)
    return {client: order.payload["mixture"].tolist() for client, order in orders.items()}


def test_two_steps_of_one_weight_towards_the_mixture():
    """With lambda / alpha 2, eta 0.1, u 1: w = 0.1 (4 + 2), then 0.6 + 0.1 (3.4 + 2 * 0.4)."""
    client = ScalarClient(0.0, 0.1, payload={"mixture": np.array([1.0])})
    assert client.train(MixtureRule(strength=2.0), 2)[0] == pytest.approx(1.02)


def test_mixtures_are_of_the_models_of_all_that_have_trained():
    """Clients 0, 1 and 2 send 0, 1 and 3 in round 1; then client 3 is new, and client 2 is away.

    a = alpha / sigma exp(-d / sigma), d = 1 between 0 and 1, 9 between 0 and 2, 4 between 1 and 2.
    """
    algorithm = create_algorithm("fedamp", SETTINGS)
    state = start(algorithm, 4, (0.0, 7.0), num_buffers=1)
    assert mixtures(algorithm, state, range(4)) == dict.fromkeys(range(4), [0.0, 7.0])
    state, _ = step(algorithm, state, 0, {0: (0, 1), 1: (1, 1), 2: (3, 1)}, num_buffers=1, absent=[3])
    assert [model.tolist() for model in state.models] == [[0, 8], [1, 8], [3, 8], [0, 7]]
    near, far, other = (ALPHA / SIGMA * exp(-distance / SIGMA) for distance in (1, 9, 4))
    layout = build_layout(1, 1)
    orders = algorithm.orders(state, 1, Presence((0, 1, 2, 3), (0, 1, 3)), layout, np.random.default_rng(0))
    found = {order.client: order.payload["mixture"].tolist() for order in orders}
    assert found[0] == pytest.approx([near * 1 + far * 3])
    assert found[1] == pytest.approx([1 - near * 1 + other * 2])
    assert found[3] == pytest.approx([near * 1 + far * 3])
    assert {order.candidates for order in orders} == {(0,), (1,), (3,)}
    assert {algorithm.traffic(order, layout).down for order in orders} == {4}
    assert {order.rule.strength for order in orders} == {2.0}
    state, _ = step(algorithm, state, 1, {3: (5, 0)}, num_buffers=1, absent=[0, 1, 2])
    assert [model[0] for model in state.models] == [0, 1, 3, 5]


def test_without_a_pull_clients_train_alone(tmp_path):
    """As `solo`, to the bit; and clients that are held out train once, as there."""
    found = []
    for algorithm in ({"name": "fedamp", "pull": 0}, "solo"):
        run = config(algorithm, held_out=0.2, training={"rounds": 2})
        models = checkpoint.load_state(play(run, tmp_path), 2).state.models
        served = [row["personalised_loss"] for row in rows(run, tmp_path, "clients")]
        found.append(([model.tobytes() for model in models], served))
    assert found[0] == found[1]
    assert None not in found[0][1][run.clients :]
