"""FedProx: Li et al. 2020, Algorithm 2."""

import numpy as np
import pytest
import torch

from fedgrid.algorithms.averaging.fedprox import FedProx, FedProxSettings, ProximalRule
from fedgrid.algorithms.contract.local_rule import PLAIN
from fedgrid.algorithms.contract.orders import Presence
from fedgrid.algorithms.registry import create_algorithm
from tests.helpers.quadratic import QuadraticModel, build_quadratic_layout, train_quadratic
from tests.helpers.small_cases import frozen, rng

EVERYBODY = Presence((0, 1), (0, 1))


def orders(mu, start=(0.0, 0.0)):
    algorithm = create_algorithm("fedprox", {"mu": mu})
    state = algorithm.init(build_quadratic_layout(2), 2, lambda number: frozen(start), rng())
    return algorithm.orders(state, 0, EVERYBODY, build_quadratic_layout(2), rng())


def test_gradient_is_pulled_towards_the_model_that_training_started_from():
    """mu (w - w_t) with mu = 0.5, w = (3, 1), w_t = (1, 1): (1, 0) more than the gradient (2, 2)."""
    local = QuadraticModel(torch.tensor([1.0, 1.0]), 0.1)
    hooks = ProximalRule(mu=0.5).start(local)
    gradient = torch.tensor([2.0, 2.0])
    hooks.correct(torch.tensor([3.0, 1.0]), gradient)
    assert gradient.tolist() == [3.0, 2.0]


def test_converged_client_rests_between_its_own_optimum_and_the_common_model():
    """The minimum of 1/2 a (w - b)^2 + mu/2 w^2 is a b / (a + mu): 2 x 6 / (2 + 1) = 4."""
    [order, _] = orders(mu=1.0)
    curvature, target = np.diag([2.0, 2.0]), np.array([6.0, -3.0])
    reply, memory = train_quadratic(order, np.zeros(2), curvature, target, rate=0.1, steps=500, memory={})
    assert reply["update"] == pytest.approx([4.0, -2.0])
    assert memory == {}
    assert set(reply) == {"update"}


def test_without_pull_the_order_is_plain_averagings():
    """So that its rounds are FedAvg's in the round cache too."""
    assert [order.rule for order in orders(mu=0.0)] == [PLAIN, PLAIN]


def test_runs_that_share_their_first_rounds_start_with_the_one_that_deviates_first():
    keys = [FedProx(FedProxSettings(mu=mu)).start_order_key() for mu in (0.1, 0.0)]
    assert keys == [(1.0,), (np.inf,)]
