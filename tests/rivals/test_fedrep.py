"""FedRep and FedPer: Collins et al. 2021, Arivazhagan et al. 2019; each client has a head of its own."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedgrid.algorithms.contract.conditions import Conditions
from fedgrid.algorithms.registry import create_algorithm
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import (
    FlatModule,
    build_layout,
    draw_initial_vector,
    read_layout,
    read_vector,
    write_vector,
)
from fedgrid.engine.federation.training.local import train_client
from fedgrid.engine.federation.training.settings import Training
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.prepare import prepare_setup
from fedgrid.rivals.fedrep import HeadThenBody
from tests.helpers.small_runs import NOWHERE, config, play, rows
from tests.helpers.torch_by_hand import build_network, read_tensors

IMAGES = torch.from_numpy(np.random.default_rng(7).integers(0, 256, (8, 1, 1, 6)).astype(np.uint8))
LABELS = torch.arange(8) % 3
HEAD = slice(28, 43)
"""Entries of the head of `build_module`: after 6 x 4 weights and 4 biases."""


def build_module():
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))


def draw_model():
    return np.random.default_rng(0).uniform(-0.9, 0.9, 43).astype(np.float32)


def train(head_epochs, **training):
    """Train one client for three epochs of one batch."""
    settings = {"rounds": 1, "local_epochs": 3, "batch_size": 8, "optimizer": "sgd", "learning_rate": 0.1}
    module = build_module()
    layout = replace(read_layout(module), head="3")
    return train_client(
        FlatModule(module, "3", layout),
        draw_model(),
        IMAGES,
        LABELS,
        Training(**{**settings, **training}).local,
        np.random.default_rng(1),
        rule=HeadThenBody(head_epochs=head_epochs, personal=((28, 43),)),
    )


@pytest.mark.parametrize("head_epochs", [1, 2])
def test_head_then_body_each_with_its_own_optimizer(head_epochs):
    """Momentum, weight decay and clipping are of the part that trains."""
    module = build_module()
    write_vector(module, draw_model())
    for layer, num_epochs in ((3, head_epochs), (1, 3 - head_epochs)):
        parameters = list(module[layer].parameters())
        velocities = [torch.zeros_like(each) for each in parameters]
        for _ in range(num_epochs):
            gradients = torch.autograd.grad(cross_entropy(module(IMAGES / 255), LABELS), parameters)
            norm = torch.cat([each.flatten() for each in gradients]).norm()
            for parameter, gradient, velocity in zip(parameters, gradients, velocities, strict=True):
                velocity.mul_(0.9).add_(gradient * (0.05 / norm).clamp(max=1) + 0.1 * parameter.data)
                parameter.data -= 0.1 * velocity
    result = train(head_epochs, momentum=0.9, weight_decay=0.1, clip_gradient=0.05)
    np.testing.assert_allclose(result.model, read_vector(module), atol=1e-6)
    assert result.memory["personal"].tobytes() == result.model[HEAD].tobytes()


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_part_that_is_fixed_keeps_its_bits(optimizer):
    result = train(3, optimizer=optimizer, weight_decay=0.1)
    assert result.model[:28].tobytes() == draw_model()[:28].tobytes()
    assert (result.model[HEAD] != draw_model()[HEAD]).all()


def test_fedper_with_nothing_but_a_head_is_local_training(tmp_path):
    """Up to rounding: solo adds an update to a model, a head is remembered as it was trained."""
    given = {"model": "linear", "participation": 0.5, "training": {"rounds": 3}}
    tests = []
    for name in ("fedper", "solo"):
        run = config(name, **given)
        play(run, tmp_path)
        tests.append([row["personalised_loss"] for row in rows(run, tmp_path, "clients")])
    np.testing.assert_allclose(tests[0], tests[1], rtol=1e-5)


@pytest.mark.parametrize("name", ["fedrep", "fedper"])
def test_clients_are_tested_with_their_own_head_on_the_common_body(name, tmp_path):
    """The body is the mean of those that trained; who has not trained has the initial head."""
    run = config(name, participation=0.5, training={"rounds": 2, "local_epochs": 2})
    folder = play(run, tmp_path)
    layout = build_layout("digitnet", image_inputs(1, 8, 8), 10)
    [(start, stop)] = layout.ranges(layout.head_layers)
    initial = draw_initial_vector("digitnet", image_inputs(1, 8, 8), 10, run.root_seed)
    stored = checkpoint.load_state(folder, 2)
    [common] = stored.state.models
    assert common[start:stop].tobytes() == initial[start:stop].tobytes()
    assert (common[:start] != initial[:start]).any()
    setup, _ = prepare_setup(run, NOWHERE)
    clients = [row for row in rows(run, tmp_path, "clients") if row["round"] == 2]
    for row in clients:
        model = common.copy()
        if row["client"] in stored.memories:
            model[start:stop] = stored.memories[row["client"]]["personal"]
        images, labels = read_tensors(setup.clients[row["client"]].test)
        loss = cross_entropy(build_network(model)(images), labels).item()
        assert row["personalised_loss"] == pytest.approx(loss, rel=1e-5)
        assert row["generalised_loss"] is None
    assert rows(run, tmp_path, "rounds")[1]["bytes_up"] == 3 * 4 * (layout.size - (stop - start))


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        ({"local_epochs": 1}, ("local_epochs = 1", "2 or more", "together")),
        ({"local_epochs": 2}, ()),
    ],
)
def test_rounds_without_an_epoch_for_the_body_are_refused(training, expected):
    layout = build_layout("digitnet", image_inputs(1, 8, 8), 10)
    conditions = Conditions(
        4, has_reference_images=False, training=training, describe_model=lambda: ("pixels", (1, 8, 8), layout)
    )
    problem = create_algorithm("fedrep").problem(conditions)
    assert (problem is None) == (not expected)
    assert all(word in problem for word in expected)
    assert create_algorithm("fedper").problem(conditions) is None
