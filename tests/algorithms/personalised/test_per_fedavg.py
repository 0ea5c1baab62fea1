"""Per-FedAvg: Fallah et al. 2020, on softmax regression, whose derivatives have a closed form."""

import numpy as np
import pytest
import torch
from torch import nn

from fedgrid.algorithms.contract.orders import Adaptation, Presence
from fedgrid.algorithms.personalised.per_fedavg import AdaptRule, MetaRule
from fedgrid.algorithms.registry import create_algorithm
from fedgrid.engine.federation.models.flat_vectors import FlatModule
from fedgrid.engine.federation.training import local
from fedgrid.engine.federation.training.settings import LocalTraining
from tests.helpers.quadratic import build_quadratic_layout
from tests.helpers.small_cases import rng
from tests.helpers.small_runs import CountingPool, config, play, rows

PIXELS, CLASSES, BATCH, ALPHA, BETA = 4, 3, 5, 0.8, 0.5
SIZE = CLASSES * PIXELS + CLASSES


def data(num_images):
    drawn = np.random.default_rng(3)
    images = drawn.integers(0, 256, (num_images, 1, 2, 2)).astype(np.uint8)
    return images, drawn.integers(0, CLASSES, num_images)


def start():
    return np.random.default_rng(4).normal(0, 1, SIZE).astype(np.float32)


def batches(num_images, epochs):
    """Return the batches in the order of training: inputs with a last column of ones, one-hot classes."""
    images, labels = data(num_images)
    inputs = np.column_stack([images.reshape(num_images, -1) / 255, np.ones(num_images)])
    drawn, found = np.random.default_rng(1), []
    for _ in range(epochs):
        order = drawn.permutation(num_images)
        found += [order[begin : begin + BATCH] for begin in range(0, num_images, BATCH)]
    return [(inputs[part], np.eye(CLASSES)[labels[part]]) for part in found]


def rows_of(w):
    """Return weights and bias as one matrix, shape (CLASSES, PIXELS + 1)."""
    return np.column_stack([w[: CLASSES * PIXELS].reshape(CLASSES, PIXELS), w[CLASSES * PIXELS :]])


def vector(matrix):
    return np.concatenate([matrix[:, :-1].ravel(), matrix[:, -1]])


def probabilities(w, inputs):
    powers = np.exp(inputs @ rows_of(w).T)
    return powers / powers.sum(axis=1, keepdims=True)


def gradient(w, batch):
    inputs, targets = batch
    return vector((probabilities(w, inputs) - targets).T @ inputs / len(inputs))


def curvature(w, batch, direction):
    """Return the Hessian times a direction: the derivative of softmax, p (z - p . z), along it."""
    inputs, _ = batch
    p, z = probabilities(w, inputs), inputs @ rows_of(direction).T
    return vector((p * (z - (p * z).sum(axis=1, keepdims=True))).T @ inputs / len(inputs))


def reference(groups, variant, alpha=ALPHA, momentum=0.0):
    """Return w after a meta-step for each group of batches."""
    w, velocity = start().astype(float), 0.0
    for first, second, *third in groups:
        direction = gradient(w - alpha * gradient(w, first), second)
        if variant == "hessian-free":
            direction = direction - alpha * curvature(w, third[0], direction)
        velocity = momentum * velocity + direction
        w = w - BETA * velocity
    return w


def train(num_images, epochs=1, variant="first-order", alpha=ALPHA, rule=None, max_steps=None, **training):
    """Return the result of our training."""
    images, labels = data(num_images)
    values = {"optimizer": "sgd", "learning_rate": BETA, "local_epochs": epochs, **training}
    return local.train_client(
        FlatModule(nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, CLASSES))),
        start(),
        torch.from_numpy(images),
        torch.from_numpy(labels),
        LocalTraining(batch_size=BATCH, **values),
        np.random.default_rng(1),
        rule=rule or MetaRule(alpha=alpha, variant=variant, delta=1e-2),
        max_steps=max_steps,
    )


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(("variant", "size"), [("first-order", 2), ("hessian-free", 3)])
def test_each_group_of_batches_is_a_meta_step_of_the_paper(variant, size, momentum):
    given = batches(30, 1)
    expected = reference([given[i : i + size] for i in range(0, 6, size)], variant, momentum=momentum)
    assert train(30, 1, variant, momentum=momentum).model == pytest.approx(expected, abs=2e-4)


def test_groups_go_on_over_the_epochs_and_what_is_left_over_does_nothing():
    """Three batches an epoch and first order: 3 steps of two epochs, 1 of one epoch."""
    given = batches(15, 2)
    expected = reference([given[0:2], given[2:4], given[4:6]], "first-order")
    assert train(15, epochs=2).model == pytest.approx(expected, abs=1e-5)
    assert train(15, epochs=1).model == pytest.approx(reference([given[0:2]], "first-order"), abs=1e-5)


@pytest.mark.parametrize(
    ("variant", "num_images", "group"),
    [("first-order", 4, (0, 0)), ("hessian-free", 4, (0, 0, 0)), ("hessian-free", 9, (0, 1, 0))],
)
def test_client_with_too_few_batches_for_one_step_takes_it_with_some_of_them_again(
    variant, num_images, group
):
    given = batches(num_images, 1)
    expected = reference([[given[i] for i in group]], variant)
    assert train(num_images, 1, variant).model == pytest.approx(expected, abs=2e-4)
    assert np.abs(expected - start()).max() > 0.01


@pytest.mark.parametrize(
    "training", [{}, {"optimizer": "adam"}, {"momentum": 0.9, "weight_decay": 0.1}], ids=str
)
def test_adaptation_takes_plain_steps_of_alpha_whatever_the_optimizer(training):
    w = start().astype(float)
    for batch in batches(15, 2)[:4]:
        w = w - ALPHA * gradient(w, batch)
    adapted = train(15, rule=AdaptRule(alpha=ALPHA), max_steps=4, **training)
    assert adapted.model == pytest.approx(w, abs=1e-5)


def served(**settings):
    algorithm = create_algorithm("per-fedavg", settings)
    state = algorithm.init(build_quadratic_layout(2), 3, lambda number: np.zeros(2, np.float32), rng())
    orders = algorithm.orders(state, 0, Presence((0, 1, 2), (0, 2)), build_quadratic_layout(2), rng())
    return orders, algorithm.served(state, build_quadratic_layout(2))


def test_orders_carry_the_meta_rule_and_clients_adapt_before_their_test():
    orders, found = served(alpha=0.1, variant="hessian-free", adapt_steps=3)
    assert [order.client for order in orders] == [0, 2]
    assert orders[0].rule == MetaRule(alpha=0.1, variant="hessian-free", delta=1e-3)
    assert found.adaptation == Adaptation(AdaptRule(alpha=0.1), 3)


def run(adapt_steps, **given):
    settings = {"name": "per-fedavg", "alpha": 0.1, "adapt_steps": adapt_steps}
    return config(settings, training={"rounds": 2, "batch_size": 8, "local_epochs": 2}, **given)


def test_adaptation_makes_models_the_clients_own_and_trains_nothing(tmp_path):
    """Clients share no class. Training is the same, so the second run takes it from the cache."""
    plain, adapted = run(0), run(50)
    play(plain, tmp_path)
    pool = CountingPool()
    play(adapted, tmp_path, pool)
    assert pool.trained == []
    own, server = (
        [np.mean([row[name] for row in rows(each, tmp_path, "clients")[-6:]]) for each in (plain, adapted)]
        for name in ("personalised_accuracy", "generalised_accuracy")
    )
    assert server[0] == server[1]
    assert own[1] > own[0] + 0.2
