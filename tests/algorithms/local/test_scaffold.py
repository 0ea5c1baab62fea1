"""SCAFFOLD: Karimireddy et al. 2020, Algorithm 1 with option II."""

import numpy as np
import pytest

from fedgrid.algorithms.contract.orders import Presence
from fedgrid.algorithms.contract.updates import Updates
from fedgrid.algorithms.registry import create
from tests.helpers.quadratic import QuadraticSource, layout, train
from tests.helpers.small_cases import frozen, rng
from tests.helpers.small_runs import Counting, config, play, rows

CURVATURES = [np.diag([1.0, 3.0]), np.diag([4.0, 0.5]), np.array([[2.0, 1.0], [1.0, 2.0]])]
TARGETS = [np.array([1.0, 0.0]), np.array([0.0, 2.0]), np.array([-1.0, 1.0])]
RATE, STEPS = 0.05, (3, 5, 2)
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


def ours(rounds=SAMPLED, weights=None, memories=None, **settings):
    """Return the same from the algorithm and its local rule; `memories` are the clients'."""
    algorithm = create("scaffold", settings)
    state = algorithm.init(layout(2), 3, lambda number: np.zeros(2, np.float64), rng())
    memories = {} if memories is None else memories
    for round_index, sampled in enumerate(rounds):
        replies = {}
        for order in algorithm.orders(state, round_index, Presence((0, 1, 2), sampled), rng()):
            i = order.client
            replies[i], memories[i] = train(
                order, state.models[0], CURVATURES[i], TARGETS[i], RATE, STEPS[i], memories.get(i, {})
            )
        source = QuadraticSource(replies)
        absent = set(range(3)) - set(sampled)
        updates = Updates(source, layout(2), clients=replies, absent=absent, weights=weights)
        state, _ = algorithm.step(state, round_index, updates, rng())
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
    algorithm = create("scaffold")
    state = algorithm.init(layout(2), 3, lambda number: frozen([0, 0]), rng())
    orders = algorithm.orders(state, 0, Presence((0, 1, 2), (0, 2)), rng())
    assert [order.client for order in orders] == [0, 2]
    assert len({id(order.payload["variate"]) for order in orders}) == 1


def small(name, **given):
    return config(name, training={"rounds": 2, "local_epochs": 2}, **given)


def test_first_round_is_plain_averagings_to_the_bit(tmp_path):
    """All variates are zero."""
    norms = []
    for name in ("bnc", "scaffold"):
        play(small(name), tmp_path)
        norms.append([row["update_norm"] for row in rows(small(name), tmp_path, "clients")])
    clients = len(norms[0]) // 2
    assert norms[0][:clients] == norms[1][:clients]
    assert norms[0][clients:] != norms[1][clients:]


def test_variates_double_the_bytes_in_both_directions(tmp_path):
    """digitnet has no buffers, so a variate is as large as a model."""
    traffic = {}
    for name in ("bnc", "scaffold"):
        play(small(name), tmp_path)
        traffic[name] = [
            (row["bytes_down"], row["bytes_up"]) for row in rows(small(name), tmp_path, "rounds")
        ]
    assert traffic["scaffold"] == [(2 * down, 2 * up) for down, up in traffic["bnc"]]


def test_its_rounds_are_never_taken_from_plain_averaging(tmp_path):
    """Not even the first, whose updates are the same: it has no variates."""
    play(small("bnc"), tmp_path)
    pool = Counting()
    play(small("scaffold"), tmp_path, pool)
    assert {number for number, _ in pool.trained} == {1, 2}


def test_interrupted_run_ends_with_the_same_bytes(tmp_path):
    whole = play(small("scaffold"), tmp_path / "whole", store=None)
    play(small("scaffold"), tmp_path / "cut", store=None, until=1)
    again = play(small("scaffold"), tmp_path / "cut", store=None)
    for name in ("state-000002.safetensors", "state-000002.sha256", "clients.parquet"):
        assert (again / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.parametrize("seed", [0, 1])
def test_beats_averaging_where_clients_share_no_class_and_take_many_steps(seed, tmp_path):
    accuracies = {}
    for name in ("bnc", "scaffold"):
        run = config(
            name,
            seed=seed,
            training={"rounds": 12, "local_epochs": 5},
            split={"draws": 100, "server_images": None},
            evaluation={"every": 12},
        )
        play(run, tmp_path)
        last = [row for row in rows(run, tmp_path, "clients") if row["round"] == 12]
        accuracies[name] = last[0]["cluster_server_accuracy"]
    assert accuracies["scaffold"] > accuracies["bnc"] + 0.02, accuracies
