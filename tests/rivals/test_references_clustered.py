"""References of clustered methods: steps by hand, and settings in which a method is a simpler one."""

import numpy as np
import pytest
import torch

from fedgrid.rivals.references import fedem, fedsoft, fesem, flexcfl, pacfl, steps
from tests.rivals.test_references_steps import (
    LOCAL,
    SIZES,
    Problem,
    assert_close,
    average,
    predict,
    solve,
    train,
    train_fedavg,
)


def test_fedem_responsibilities_by_hand():
    """pi = (1/2, 1/2), losses (0.2, 1.0) and (0.7, 0.1): e^-0.2 / (e^-0.2 + e^-1) = 0.690, and so on."""
    q_NK = fedem.compute_responsibilities(torch.tensor([[0.2, 1.0], [0.7, 0.1]]), torch.tensor([0.5, 0.5]))
    torch.testing.assert_close(q_NK, torch.tensor([[0.690, 0.310], [0.354, 0.646]]), atol=5e-4, rtol=0)
    torch.testing.assert_close(q_NK.mean(dim=0), torch.tensor([0.522, 0.478]), atol=5e-4, rtol=0)


def test_fedem_equal_starts_stay_equal():
    problem = Problem(fedem.SETTINGS)
    problem.starts = [problem.starts[0]] * 3
    first, *others = fedem.run(problem)[0]
    torch.testing.assert_close(others, [first, first], rtol=0, atol=0)


def test_fesem_nearest_centre_takes_the_first_of_equals():
    points, centres = (
        torch.tensor([[0.9, 5.0], [1.0, 5.0], [1.1, 5.0]]),
        torch.tensor([[0.0, 0.0], [2.0, 0.0]]),
    )
    assert fesem.find_nearest(points, centres).tolist() == [0, 0, 1]


def test_fesem_moves_clients_to_the_nearest_model_sent_out_and_keeps_an_empty_cluster(monkeypatch):
    """0, 1 | 10, 11 have means 0.5 and 10.5; then all are nearer to 0.5, and their mean is 3.85."""
    rounds = [(0.0, 1.0, 10.0, 11.0), (0.0, 5.0, 5.0, 5.4)]
    monkeypatch.setattr(steps, "train_clients", lambda _, w, t: [torch.full_like(w[0], x) for x in rounds[t]])
    models, _ = solve(fesem)
    assert sorted(float(model["head.bias"][0]) for model in models) == pytest.approx([3.85, 10.5])


def test_fedsoft_importance_by_hand():
    """Least losses under models 0, 0, 0, 1 of three: shares 3/4, 1/4 and 0, the last raised to 0.1."""
    losses_NK = torch.tensor([[1.0, 2.0, 3.0], [1.0, 1.0, 2.0], [0.0, 1.0, 2.0], [2.0, 1.0, 3.0]])
    assert fedsoft.compute_importance(losses_NK, 0.1).tolist() == pytest.approx([0.75, 0.25, 0.1])


def test_fedsoft_pull_by_hand():
    """w = 2, gradient 1, centres 0 and 4 with u = 3/4 and 1/4: 1 + 0.5 (1.5 - 0.5) = 1.5."""
    gradient, w, centres = torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([[0.0], [4.0]])
    pulled = fedsoft.add_pulls(gradient, w, centres, torch.tensor([0.75, 0.25]), pull=0.5)
    assert pulled == pytest.approx(1.5)


def test_fedsoft_without_pull_one_centre_is_the_mean_of_clients_that_train_alone():
    assert_close(solve(fedsoft, pull=0.0, num_clusters=1)[0], [average(LOCAL, SIZES)])


def test_pacfl_basis_of_one_image_is_the_image_of_length_1():
    basis = pacfl.compute_basis(np.array([[[3, 4]], [[0, 9]]], np.uint8), np.array([5, 2]), 3)
    np.testing.assert_allclose(np.abs(basis), [[0.0, 0.6], [1.0, 0.8]], atol=1e-12)


def test_pacfl_angle_is_the_least_and_ignores_signs():
    one, other = np.array([[1.0], [0.0]]), np.array([[0.0, -np.sqrt(3) / 2], [1.0, 0.5]])
    assert pacfl.compute_angle(one, other) == pytest.approx(30)
    assert pacfl.compute_angle(one, -one) == 0


def test_pacfl_linkage_weighs_clients_alike():
    """Client 3 joins {0, 1, 2} at the mean of 9, 9 and 3, which is 7; by rows it is (9 + 3) / 2 = 6."""
    angles = np.array([[0, 1, 2, 9], [1, 0, 2, 9], [2, 2, 0, 3], [9, 9, 3, 0]], float)
    assert len(pacfl.find_clusters(angles, 6.5, "average").unique()) == 2
    assert len(pacfl.find_clusters(angles, 7.0, "average").unique()) == 1
    assert len(pacfl.find_clusters(angles, 0.5, "average").unique()) == 4


def test_flexcfl_directions_of_orthogonal_deltas_are_their_axes():
    """The longest delta is along the first vector; lengths do not matter; half way is cos 45 degrees."""
    deltas = torch.tensor([[9.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -2.0, 0.0]])
    e_NK = flexcfl.compute_directions(deltas, 2)
    torch.testing.assert_close(e_NK.abs(), torch.tensor([[1.0, 0], [0, 1], [0, 1]], dtype=torch.float64))
    assert float(e_NK[1, 1] * e_NK[2, 1]) == pytest.approx(-1)


def test_flexcfl_groups_step_by_hand():
    """g = (3, 4), (1, 0), eta_g = 0.1: (3.1, 4) / 1.1 and (1.06, 0.08) / 1.02."""
    stepped = flexcfl.step_groups(torch.tensor([[3.0, 4.0], [1.0, 0.0]]), 0.1)
    torch.testing.assert_close(stepped, torch.tensor([[3.1 / 1.1, 4 / 1.1], [1.06 / 1.02, 0.08 / 1.02]]))


def test_flexcfl_one_group_is_fedavg_from_the_mean_of_the_pretrained_models():
    problem = Problem({"num_clusters": 1, "pretrain_steps": 99, "group_rate": 0.1})
    models, served = flexcfl.run(problem)
    pretrained = average([train(problem, i, 0, problem.starts[0]) for i in range(4)], (1, 1, 1, 1))
    expected, _ = train_fedavg(problem, first_round=1, state=pretrained)
    assert_close(models, [expected])
    assert_close(served, predict(problem, [expected] * 4))
