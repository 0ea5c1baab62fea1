"""FedBABU: Oh et al. 2022; the head is fixed in rounds, and trains in the fine-tuning before a test."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedgrid.algorithms.contract.conditions import Conditions
from fedgrid.algorithms.contract.local_rule import PLAIN
from fedgrid.algorithms.registry import create_algorithm
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import (
    FlatModule,
    build_layout,
    draw_initial_vector,
    read_layout,
)
from fedgrid.engine.federation.training.local import train_client
from fedgrid.engine.federation.training.settings import Training
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.rivals.fedbabu import BodyRule
from tests.helpers.small_runs import config, play, rows

SETTINGS = {"rounds": 1, "local_epochs": 1, "batch_size": 8, "optimizer": "sgd", "learning_rate": 0.1}
IMAGES = torch.from_numpy(np.random.default_rng(7).integers(0, 256, (8, 1, 1, 6)).astype(np.uint8))
LABELS = torch.arange(8) % 3
BODY, HEAD = slice(0, 36), slice(36, 51)
"""Entries of 6 x 4 weights, 4 biases and BatchNorm's 8; of 4 x 3 weights and 3 biases."""


def train(rule, **training):
    """Train one client for some epochs of one batch."""
    module = nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3))
    layout = replace(read_layout(module), head="4")
    model = np.random.default_rng(0).uniform(0.1, 0.9, layout.size).astype(np.float32)
    flat = FlatModule(module, "4", layout)
    settings = Training(**{**SETTINGS, **training}).local
    return model, train_client(flat, model, IMAGES, LABELS, settings, np.random.default_rng(1), rule=rule)


def test_one_step_moves_the_body_as_plain_training_does_and_not_the_head():
    start, result = train(BodyRule())
    _, plain = train(PLAIN)
    assert result.model[HEAD].tobytes() == start[HEAD].tobytes()
    assert result.model[BODY].tobytes() == plain.model[BODY].tobytes()
    assert result.model[51:].tobytes() == plain.model[51:].tobytes()


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_neither_decay_nor_momentum_moves_the_head(optimizer):
    start, result = train(BodyRule(), local_epochs=4, weight_decay=0.1, optimizer=optimizer)
    assert result.model[HEAD].tobytes() == start[HEAD].tobytes()


def test_fixed_head_does_not_count_for_the_clipped_norm():
    """Clipped to 0.01, the body's step has the length 0.1 * 0.01."""
    start, result = train(BodyRule(), clip_gradient=0.01)
    assert np.linalg.norm(result.model[BODY] - start[BODY]) == pytest.approx(0.001, rel=1e-3)


@pytest.mark.parametrize("settings", [{}, {"server_optimizer": "adam"}])
def test_head_is_the_same_everywhere_after_rounds_of_noise(settings, tmp_path):
    """Noise on updates moves the bodies alone, since the head does not travel."""
    uplink = [{"clip": 1.0}, {"noise": 1.0}]
    run = config({"name": "fedbabu", **settings}, uplink=uplink, training={"rounds": 2})
    stored = checkpoint.load_state(play(run, tmp_path), 2)
    layout = build_layout("digitnet", image_inputs(1, 8, 8), 10)
    [(start, stop)] = layout.ranges(layout.head_layers)
    head = draw_initial_vector("digitnet", image_inputs(1, 8, 8), 10, run.root_seed)[start:stop]
    assert stored.state.models[0][start:stop].tobytes() == head.tobytes()
    assert all(memory["personal"].tobytes() == head.tobytes() for memory in stored.memories.values())
    assert rows(run, tmp_path, "rounds")[0]["bytes_down"] == 6 * 4 * (layout.size - len(head))


def test_fine_tuning_is_of_both_parts_and_leaves_no_trace(tmp_path):
    """Without steps all are tested with the common model; with steps the same models are trained."""
    models, losses = [], []
    for steps in (0, 5):
        run = config({"name": "fedbabu", "fine_tune": steps}, participation=0.5, training={"rounds": 2})
        models.append(checkpoint.load_state(play(run, tmp_path), 2).state.models[0].tobytes())
        losses.append([row["personalised_loss"] for row in rows(run, tmp_path, "clients")])
    assert models[0] == models[1]
    assert all(np.less(losses[1], losses[0]))


def test_own_buffers_are_refused():
    conditions = Conditions(4, has_reference_images=False, training={"buffers": "local"})
    assert "buffers = local" in create_algorithm("fedbabu").problem(conditions)
