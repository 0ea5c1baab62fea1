"""FedNova: Wang et al. 2020, and the normalisation under other algorithms."""

import numpy as np
import pytest

from fedgrid.algorithms.averaging.fednova import NORMALISER, NormalisedTraining, compute_normaliser
from fedgrid.algorithms.contract.orders import Presence
from fedgrid.algorithms.registry import create_algorithm
from fedgrid.algorithms.updates.source import InMemorySource
from fedgrid.algorithms.updates.updates import Updates
from fedgrid.engine.federation.uplink.privacy import CentralNoise
from tests.helpers.quadratic import (
    CURVATURES,
    RATE,
    STEPS,
    TARGETS,
    QuadraticSource,
    build_quadratic_layout,
    train_quadratic,
)
from tests.helpers.small_cases import build_layout, frozen, rng
from tests.helpers.small_runs import config, content, play, rows

IMAGES = {0: 10, 1: 30, 2: 20}


@pytest.mark.parametrize("tau", [1, 2, 7, 40])
@pytest.mark.parametrize("momentum", [0.5, 0.9])
def test_steps_with_momentum_count_as_in_the_papers_formula(tau, momentum):
    expected = (tau - momentum * (1 - momentum**tau) / (1 - momentum)) / (1 - momentum)
    assert compute_normaliser(tau, 0.01, momentum, 0.0) == pytest.approx(expected)
    assert compute_normaliser(tau, 0.01, 0.0, 0.0) == tau


@pytest.mark.parametrize("tau", [1, 2, 7, 40])
@pytest.mark.parametrize("mu", [0.01, 1.0])
def test_steps_with_fedproxs_pull_count_as_in_the_papers_formula(tau, mu):
    expected = (1 - (1 - 0.1 * mu) ** tau) / (0.1 * mu)
    assert compute_normaliser(tau, 0.1, 0.0, mu) == pytest.approx(expected)


def test_pull_and_momentum_together_count_the_weights_of_an_updates_gradients():
    """The path is linear in the gradients: where each is -1 it is eta times the sum of their weights."""
    eta, rho, mu, moved, velocity = 0.1, 0.5, 2.0, 0.0, 0.0
    for _ in range(6):
        velocity = rho * velocity + (-1 + mu * moved)
        moved -= eta * velocity
    assert compute_normaliser(6, eta, rho, mu) == pytest.approx(moved / eta)


def reference(rounds, weights, mu=0.0):
    """Return the model after each round, by the paper's formulas for plain SGD."""
    x, p = np.zeros(2), np.array([weights[i] for i in range(3)]) / sum(weights.values())
    for _ in range(rounds):
        directions, counts = [], []
        for i in range(3):
            y = x.copy()
            for _ in range(STEPS[i]):
                y -= RATE * (CURVATURES[i] @ (y - TARGETS[i]) + mu * (y - x))
            a = (1 - (1 - RATE * mu) ** STEPS[i]) / (RATE * mu) if mu else STEPS[i]
            directions, counts = [*directions, (x - y) / a], [*counts, a]
        x = x - (p @ np.array(counts)) * (p @ np.array(directions))
        yield x


def ours(name, settings, rounds, weights=None, steps=STEPS):
    algorithm = create_algorithm(name, settings)
    state = algorithm.init(build_quadratic_layout(2), 3, lambda number: np.zeros(2, np.float64), rng())
    for round_index in range(rounds):
        replies = {}
        for order in algorithm.orders(
            state, round_index, Presence((0, 1, 2), (0, 1, 2)), build_quadratic_layout(2), rng()
        ):
            i = order.client
            replies[i], memory = train_quadratic(
                order, state.models[0], CURVATURES[i], TARGETS[i], RATE, steps[i], {}
            )
            assert memory == {}
        updates = Updates(
            QuadraticSource(replies), build_quadratic_layout(2), clients=replies, weights=weights
        )
        state, _ = algorithm.step(state, round_index, updates, rng())
        yield state.models[0]


@pytest.mark.parametrize("mu", [0.0, 0.5])
@pytest.mark.parametrize("weights", [None, IMAGES])
def test_models_are_those_of_the_paper(weights, mu):
    found = ours("fednova", {"mu": mu}, 5, weights)
    for model, expected in zip(found, reference(5, weights or dict.fromkeys(range(3), 1), mu), strict=True):
        assert model == pytest.approx(expected, abs=1e-6)


def replies(normalisers, vectors, num_buffers=0, **options):
    arrays = {client: frozen(vector) for client, vector in enumerate(vectors)}
    outputs = {NORMALISER: {client: frozen([count]) for client, count in enumerate(normalisers)}}
    size = len(vectors[0])
    return Updates(
        InMemorySource(arrays, outputs),
        build_layout(size - num_buffers, num_buffers),
        clients=arrays,
        **options,
    )


def test_buffers_take_the_plain_mean():
    """Updates 2 and 12 in 1 and 3 steps: 2 x (2 + 4) / 2 = 6. The buffers' mean is (1 + 5) / 2."""
    updates = replies([1, 3], [(2, 1), (12, 5)], num_buffers=1)
    [mean] = NormalisedTraining().means(updates, [[0, 1]])
    assert mean.tolist() == [6, 3]


def test_clusters_are_normalised_apart():
    """Clients 0 and 1 took equal steps: their plain mean. Clients 2 and 3: 2 x (2 + 4) / 2."""
    updates = replies([5, 5, 1, 3], [(1, 1), (4, 4), (2, 2), (12, 12)])
    means = NormalisedTraining().means(updates, [[0, 1], [2, 3]])
    assert [mean.tolist() for mean in means] == [[2.5, 2.5], [6, 6]]


def test_under_the_servers_noise_one_mean_is_taken():
    """Of the weights 1 and 1 / 3: client 0 moves it by the clip, one deviation, client 1 by a third."""
    noise = CentralNoise(1.0, 1.0, seed=0, round_index=0)
    NormalisedTraining().means(replies([1, 3], [(2, 2), (12, 12)], noise=noise), [[0, 1]])
    assert noise.compute_distances() == {0: 1.0, 1: pytest.approx(1 / 3)}


def equal_steps(algorithm, **given):
    return config(
        algorithm, split="nonoverlapping-balanced", training={"rounds": 2, "local_epochs": 2}, **given
    )


@pytest.mark.parametrize(
    "settings",
    [{"name": "fednova"}, {"name": "fedavg", "local": {"name": "fednova"}}],
    ids=lambda s: s["name"],
)
@pytest.mark.parametrize("weights", ["none", "images"])
def test_with_equal_steps_a_run_has_the_bytes_of_fedavg_but_for_a_number_that_each_client_sends(
    settings, weights, tmp_path
):
    plain, ours = (equal_steps(each, weights=weights) for each in ({"name": "fedavg"}, settings))
    states = [play(run, tmp_path / run.run_id) / "state-000002.safetensors" for run in (plain, ours)]
    assert content(states[0]) == content(states[1])
    up = [[row["bytes_up"] for row in rows(run, tmp_path / run.run_id, "rounds")] for run in (plain, ours)]
    assert up[1] == [number + 4 * 6 for number in up[0]]


def test_client_that_took_no_step_counts_with_an_update_of_zero():
    """p = 1/2 each, tau_eff = (0 + 4) / 2 = 2, the mean direction (0 + 8 / 4) / 2 = 1."""
    [mean] = NormalisedTraining().means(replies([0, 4], [(0, 0), (8, 8)]), [[0, 1]])
    assert mean.tolist() == [2, 2]
