"""FedOpt: the mean update of a cluster, and a server optimizer on top of it."""

from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from fedgrid.algorithms.averaging.fedopt import (
    MOMENTS,
    FedOpt,
    FedOptSettings,
    OwnAdaptationSettings,
    OwnRuleSettings,
)
from fedgrid.algorithms.contract.local_rule import LocalRule
from fedgrid.algorithms.contract.orders import Adaptation
from fedgrid.algorithms.contract.split import split
from fedgrid.algorithms.registry import ALGORITHMS, create_algorithm, drop_derived_defaults
from tests.helpers.small_cases import build_layout, build_orders, clients, play, start, step


def fedopt(**settings):
    return FedOpt(FedOptSettings(**settings))


def test_the_new_model_is_the_old_one_plus_the_unweighted_mean():
    """(1, 1) + ((2, 0) + (4, 6)) / 2 = (4, 4)."""
    algorithm = fedopt()
    state, diagnostics = step(algorithm, start(algorithm, 2, (1, 1)), 0, clients((2, 0), (4, 6)))
    assert state.models[0].tolist() == [4, 4]
    assert state.models[0].dtype == np.float32
    assert not diagnostics.clustered


@pytest.mark.parametrize("server_optimizer", MOMENTS)
def test_a_cluster_without_usable_updates_keeps_its_model(server_optimizer):
    algorithm = fedopt(server_optimizer=server_optimizer)
    state = split(start(algorithm, 3, (1, 1)), 0, [[0, 1], [2]])
    before, _ = step(algorithm, state, 0, clients((2, 0), (4, 6), (1, 5)))
    after, _ = step(algorithm, before, 1, clients((2, 0)))
    assert after.models[1].tobytes() == before.models[1].tobytes()
    assert after.models[0].tobytes() != before.models[0].tobytes()
    assert after.labels_K.tolist() == [0, 0, 1]


def test_server_momentum_over_two_rounds():
    """m1 = (2, 4), x1 = 2 m1 = (4, 8); m2 = 0.5 m1 + (0, 2) = (1, 4), x2 = x1 + 2 m2 = (6, 16)."""
    algorithm = fedopt(server_optimizer="momentum", server_momentum=0.5, server_learning_rate=2.0)
    first, second = play(algorithm, [clients((2, 4)), clients((0, 2))], 1)
    assert first[0].models[0].tolist() == [4, 8]
    assert second[0].models[0].tolist() == [6, 16]


ADAPTIVE = {"server_learning_rate": 2.0, "server_momentum": 0.5, "server_beta2": 0.75, "server_epsilon": 0.5}
"""eta = 2, beta_1 = 0.5, beta_2 = 0.75, tau = 0.5, so v_0 = tau^2 = 0.25."""


@pytest.mark.parametrize(
    ("server_optimizer", "second_moments"),
    [
        ("adagrad", [(4.25, 16.25), (4.25, 17.25)]),
        ("yogi", [(1.25, 4.25), (1.25, 4.0)]),
        ("adam", [(1.1875, 4.1875), (0.890625, 3.390625)]),
    ],
)
def test_adaptive_server_optimizer_over_two_rounds(server_optimizer, second_moments):
    """Reddi et al., Algorithm 2, by hand; D_1 = (2, -4), D_2 = (0, -1), both are means of two updates.

    m_1 = 0.5 D_1 = (1, -2), m_2 = 0.5 m_1 + 0.5 D_2 = (0.5, -1.5); x_t = x_t-1 + 2 m_t / (sqrt(v_t) + 0.5).
    FedAdagrad: v_t = v_t-1 + D_t^2: 0.25 + (4, 16), then + (0, 1).
    FedYogi: v_t = v_t-1 - 0.25 D_t^2 sign(v_t-1 - D_t^2): 0.25 + 0.25 (4, 16), then - 0.25 (0, 1).
    FedAdam:    v_t = 0.75 v_t-1 + 0.25 D_t^2: (0.1875 + 1, 0.1875 + 4), then (0.890625, 3.140625 + 0.25).
    """
    algorithm = fedopt(server_optimizer=server_optimizer, **ADAPTIVE)
    rounds = [clients((1, -4), (3, -4)), clients((0, -2), (0, 0))]
    expected, first_moments = np.zeros(2), [np.array([1, -2]), np.array([0.5, -1.5])]
    for (state, _), first, second in zip(
        play(algorithm, rounds, 2), first_moments, second_moments, strict=True
    ):
        expected = expected + 2 * first / (np.sqrt(second) + 0.5)
        assert state.arrays["cluster_second"][0].tolist() == pytest.approx(second)
        assert state.models[0].tolist() == pytest.approx(expected, rel=1e-6)


def test_tau_is_a_thousandth():
    """FedAdam's first round with D = 1: v = 0.99 tau^2 + 0.01, x = 0.01 * 0.1 / (sqrt(v) + tau)."""
    ((state, _),) = play(fedopt(server_optimizer="adam"), [clients((1, 1))], 1)
    assert float(state.models[0][0]) == pytest.approx(0.001 / (np.sqrt(0.01 + 0.99e-6) + 0.001), rel=1e-5)


@pytest.mark.parametrize(
    ("server_optimizer", "rate"),
    [("none", 1.0), ("momentum", 1.0), ("adagrad", 0.1), ("adam", 0.01), ("yogi", 0.01)],
)
def test_learning_rate_follows_the_optimizer(server_optimizer, rate):
    assert fedopt(server_optimizer=server_optimizer).settings.server_learning_rate == rate
    assert (
        fedopt(server_optimizer=server_optimizer, server_learning_rate=3).settings.server_learning_rate == 3
    )


def test_learning_rate_follows_an_optimizer_that_is_changed_later():
    """As a run, or a trial of a search, changes the settings of a complete algorithm."""
    assert create_algorithm("scaffold", {"server_optimizer": "yogi"}).settings.server_learning_rate == 0.01
    assert drop_derived_defaults(fedopt().settings) == drop_derived_defaults(
        fedopt(server_learning_rate=1.0).settings
    )
    assert "server_learning_rate" not in drop_derived_defaults(fedopt(server_optimizer="adam").settings)
    assert drop_derived_defaults(fedopt(server_learning_rate=0.5).settings)["server_learning_rate"] == 0.5


def test_each_cluster_has_an_optimizer_of_its_own():
    """Cluster 0 sees 2 twice: m = 2, then 1 + 2 = 3; cluster 1 sees -4, then 0: m = -4, then -2."""
    algorithm = fedopt(server_optimizer="momentum", server_momentum=0.5)
    state = split(start(algorithm, 2), 0, [[0], [1]])
    state, _ = step(algorithm, state, 0, clients((2, 2), (-4, -4)))
    state, _ = step(algorithm, state, 1, clients((2, 2), (0, 0)))
    assert [model.tolist() for model in state.models] == [[5, 5], [-6, -6]]


@pytest.mark.parametrize("server_optimizer", MOMENTS)
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


FEDOPT = [name for name, entry in ALGORITHMS.items() if isinstance(entry.settings, FedOptSettings)]


@pytest.mark.parametrize("name", FEDOPT)
def test_model_that_is_served_is_fine_tuned_if_the_settings_say_so(name):
    """Those with an adaptation of their own refuse it; LG-FedAvg begins with the client's own layers."""
    if isinstance(ALGORITHMS[name].settings, OwnAdaptationSettings):
        with pytest.raises(ValidationError, match="fine_tune = 5"):
            create_algorithm(name, {"fine_tune": 5})
        return
    tuned, plain = create_algorithm(name, {"fine_tune": 5}), create_algorithm(name, {"fine_tune": 0})
    served = tuned.served(start(tuned, 3), build_layout(2)).adaptation
    before = plain.served(start(plain, 3), build_layout(2)).adaptation
    assert served == (Adaptation(steps=5) if before is None else replace(before, steps=5))
    assert before is None or (name, before.steps) == ("lg-fedavg", 0)


def test_own_rule_is_in_all_orders_and_with_own_adaptation_before_tests():
    class Headed(FedOpt):
        def rule(self, layout):
            return LocalRule(personal=((layout.size - 1, layout.size),))

    rule = LocalRule(personal=((1, 2),))
    for settings, adaptation in ((OwnRuleSettings(), None), (OwnAdaptationSettings(), Adaptation(rule))):
        algorithm = Headed(settings)
        state = start(algorithm, 3, (1, 1))
        assert [order.rule for order in build_orders(algorithm, state, (0, 2)).values()] == [rule] * 2
        assert algorithm.served(state, build_layout(2)).adaptation == adaptation


def test_the_server_learning_rate_scales_the_mean():
    """(1, 1) + 0.5 (3, 3) = (2.5, 2.5)."""
    algorithm = fedopt(server_learning_rate=0.5)
    state, _ = step(algorithm, start(algorithm, 2, (1, 1)), 0, clients((2, 0), (4, 6)))
    assert state.models[0].tolist() == [2.5, 2.5]
