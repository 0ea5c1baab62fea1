"""FedEM beside a loop by hand, its q and pi on numbers, and clients that come and go."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import draw_initial_vector, read_vector
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.prepare import prepare_setup
from fedgrid.rivals.fedem import MixtureRule
from tests.helpers.small_runs import NOWHERE, config, play, rows
from tests.helpers.torch_by_hand import WHOLE, build_network, descend, read_tensors

NORMED = """
from torch import nn
from fedgrid import ModelEntry

def build(channels, height, width, num_classes):
    size = channels * height * width
    return nn.Sequential(
        nn.Flatten(), nn.Linear(size, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, num_classes)
    )

MODELS = [ModelEntry("normed", "BatchNorm and dropout", "ours", build=build)]
"""
"""Plugin with a model whose last entry is BatchNorm's count of batches."""


def test_parts_and_mixture_of_two_images():
    """Losses (0.2, 1.0) and (0.7, 0.1): q = (0.690, 0.310), (0.354, 0.646), pi = (0.522, 0.478)."""
    local = SimpleNamespace(
        payload={"models": np.array([[1.0]], np.float32)},
        memory={},
        is_adapting=False,
        weights=torch.zeros(1),
        tensor=torch.from_numpy,
        snapshot=lambda: torch.zeros(1),
        losses=lambda models: torch.tensor([[0.2, 1.0], [0.7, 0.1]]),
    )
    steps = MixtureRule().start(local)
    np.testing.assert_allclose(steps._parts_NM, [[0.690, 0.310], [0.354, 0.646]], atol=5e-4)
    np.testing.assert_allclose(steps._mixture_M, [0.522, 0.478], atol=5e-4)


@torch.no_grad()
def compute_losses(models, images, labels):
    return torch.stack(
        [cross_entropy(build_network(one)(images), labels, reduction="none") for one in models], 1
    )


def compute_parts(mixture, losses):
    weighted = mixture * torch.exp(-losses)
    return weighted / weighted.sum(1, keepdim=True)


def test_two_rounds_are_algorithm_1_of_the_paper(tmp_path):
    """Half of the clients train in a round; the others are tested by their old pi, or by one for the test."""
    run = config({"name": "fedem", "num_models": 2}, participation=0.5, training={"rounds": 2, **WHOLE})
    folder = play(run, tmp_path)
    setup, _ = prepare_setup(run, NOWHERE)
    inputs = image_inputs(1, 8, 8)
    models = [draw_initial_vector(run.model, inputs, 10, run.root_seed, number) for number in range(2)]
    even, mixtures = torch.full((2,), 0.5), {}
    for number in (1, 2):
        of_round = [row for row in rows(run, tmp_path, "clients") if row["round"] == number]
        changes = []
        for row in (row for row in of_round if row["part"] == "trained"):
            images, labels = read_tensors(setup.clients[row["client"]].train)
            parts = compute_parts(mixtures.get(row["client"], even), compute_losses(models, images, labels))
            mixtures[row["client"]] = parts.mean(0)
            assert row["cluster"] == parts.mean(0).argmax()
            after = []
            for model, weights in zip(models, parts.T, strict=True):
                network = build_network(model)
                losses = cross_entropy(network(images), labels, reduction="none")
                descend((weights * losses).mean(), list(network.parameters()))
                after.append(read_vector(network))
            changes.append(np.stack(after) - np.stack(models))
        models = list(np.stack(models) + np.mean(changes, axis=0))
        for row in of_round:
            data = setup.clients[row["client"]]
            mixture = mixtures.get(row["client"])
            if mixture is None:
                mixture = compute_parts(even, compute_losses(models, *read_tensors(data.train))).mean(0)
            chances = torch.exp(-compute_losses(models, *read_tensors(data.test))) @ mixture
            assert row["personalised_loss"] == pytest.approx(-chances.log().mean().item(), rel=1e-4)
    stored = checkpoint.load_state(folder, 2)
    np.testing.assert_allclose(np.stack(stored.state.models), np.stack(models), atol=1e-6)
    for row in rows(run, tmp_path, "rounds"):
        assert row["bytes_down"] == 3 * 2 * models[0].nbytes
        assert row["bytes_up"] == 3 * (2 * models[0].nbytes + 2 * 4)


def test_one_model_is_fedavg(tmp_path):
    last = {}
    for algorithm in ("fedavg", {"name": "fedem", "num_models": 1}):
        folder = play(config(algorithm, training={"rounds": 2, "momentum": 0.9}), tmp_path)
        last[str(algorithm)] = checkpoint.load_state(folder, 2).state.models[0]
    expected, got = last.values()
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_newcomers_and_held_out_clients_have_a_mixture(tmp_path):
    run = config("fedem", held_out=0.2, joins={1: 3})
    play(run, tmp_path)
    last = [row for row in rows(run, tmp_path, "clients") if row["round"] == run.training.rounds]
    assert len(last) == run.clients
    assert all(row["personalised_loss"] > 0 for row in last)


def test_each_model_has_its_own_buffers(tmp_path):
    """A batch counts once in each model, and the losses before it in none."""
    (tmp_path / "normed.py").write_text(NORMED)
    active.use_plugins([tmp_path / "normed.py"])
    try:
        run = config("fedem", model="normed", training={"rounds": 2, **WHOLE})
        models = checkpoint.load_state(play(run, tmp_path), 2).state.models
    finally:
        active.use_plugins()
    assert [model[-1] for model in models] == [2, 2, 2]
    assert len({model[-17:-1].tobytes() for model in models}) == 3
