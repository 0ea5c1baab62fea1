"""Stacked training against the training of one client after the other, which other tests work out by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.models import flat_vectors
from fedgrid.engine.federation.models.flat_vectors import FlatModule, initialise_layers
from fedgrid.engine.federation.models.normalisation import MixedPrecision
from fedgrid.engine.federation.training.local import train_client
from fedgrid.engine.federation.training.settings import LocalTraining
from fedgrid.engine.federation.training.stacked import Member, Stack, train_together
from tests.helpers.small_runs import config, count_trained, find_differing, play

SHAPE, CLASSES = (2, 6, 6), 3
SIZES = {0: 9, 1: 4, 3: 1, 4: 14}
"""Images by slot; slot 2 is empty. Batches of 4: 3, 1, 1 and 4 of them, with 1, 4, 1 and 2 in the last."""
SLOTS = 5


def settings(**changes):
    values = {"local_epochs": 2, "batch_size": 4, "optimizer": "sgd", "learning_rate": 0.1}
    return LocalTraining(**{**values, **changes})


def network(kind="plain"):
    norms = {
        "batch": nn.BatchNorm2d(4),
        "bare": nn.BatchNorm2d(4, affine=False, track_running_stats=False),
        "group": nn.GroupNorm(2, 4),
    }
    # No bias before BatchNorm: its gradient is rounding noise, which Adam would blow up.
    module = nn.Sequential(
        nn.Conv2d(2, 4, 3, bias=kind not in ("batch", "bare")),
        *([norms[kind]] if kind in norms else []),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16, CLASSES),
    )
    initialise_layers(module, torch.Generator().manual_seed(5))
    return module


def member(slot, num_images, memory=None):
    rng = np.random.default_rng(slot)
    pixels = torch.from_numpy(rng.integers(0, 256, (num_images, *SHAPE)).astype(np.uint8))
    labels = torch.from_numpy(rng.integers(0, CLASSES, num_images))
    start = flat_vectors.read_vector(network()) * (1 + slot / 10)
    return Member(start, pixels, labels, np.random.default_rng(100 + slot), memory or {})


def members(kind="plain", memories=None, sizes=SIZES):
    found = {slot: member(slot, size, (memories or {}).get(slot)) for slot, size in sizes.items()}
    start = flat_vectors.read_vector(network(kind))
    return {slot: replace(each, start=start * np.float32(1 + slot / 10)) for slot, each in found.items()}


def one_by_one(module, those, training):
    flat = FlatModule(module)
    return {
        slot: train_client(flat, each.start, each.images, each.labels, training, each.rng, each.memory)
        for slot, each in those.items()
    }


def check(together, alone, tolerance=2e-5):
    assert together.keys() == alone.keys()
    for slot, expected in alone.items():
        found = together[slot]
        np.testing.assert_allclose(found.model, expected.model, rtol=0, atol=tolerance)
        np.testing.assert_allclose(found.losses, expected.losses, atol=tolerance)
        assert (found.accuracies, found.steps) == (
            pytest.approx(expected.accuracies, nan_ok=True),
            expected.steps,
        )
        assert found.memory.keys() == expected.memory.keys()
        for name, array in expected.memory.items():
            np.testing.assert_allclose(found.memory[name], array, rtol=1e-4, atol=tolerance)


@pytest.mark.parametrize("kind", ["group", "batch", "bare"])
@pytest.mark.parametrize(
    "changes",
    [
        {"momentum": 0.9, "weight_decay": 0.05, "keep_optimizer_state": True},
        {"optimizer": "adam", "learning_rate": 0.01, "weight_decay": 0.05, "keep_optimizer_state": True},
        {"augment": ("crop", "flip"), "clip_gradient": 0.3},
    ],
    ids=["momentum", "adam", "augmented and clipped"],
)
def test_clients_of_unequal_size_train_as_one_by_one(kind, changes):
    training = settings(**changes)
    together = train_together(Stack(network(kind), SLOTS), members(kind), training)
    check(together, one_by_one(network(kind), members(kind), training))


@pytest.mark.parametrize("optimizer", [{"optimizer": "adam", "learning_rate": 0.01}, {"momentum": 0.9}])
def test_kept_optimizer_states_go_on_also_of_clients_with_different_steps(optimizer):
    training, first = settings(keep_optimizer_state=True, **optimizer), dict(list(SIZES.items())[:2])
    memories = {
        slot: result.memory for slot, result in one_by_one(network(), members(sizes=first), training).items()
    }
    together = train_together(Stack(network(), SLOTS), members(memories=memories), training)
    check(together, one_by_one(network(), members(memories=memories), training))


def test_numbers_to_predict_train_as_one_by_one():
    def predicting():
        module = network()
        module[-1] = nn.Linear(16, 1)
        initialise_layers(module, torch.Generator().manual_seed(5))
        return module

    def those():
        start = flat_vectors.read_vector(predicting())
        return {
            slot: replace(each, start=start, labels=each.labels.float()) for slot, each in members().items()
        }

    together = train_together(Stack(predicting(), SLOTS), those(), settings())
    check(together, one_by_one(predicting(), those(), settings()))


def test_bfloat16_trains_as_one_by_one_to_its_precision():
    def wrapped():
        return MixedPrecision(network("batch"), "cpu")

    together = train_together(Stack(wrapped(), SLOTS), members("batch"), settings())
    check(together, one_by_one(wrapped(), members("batch"), settings()), tolerance=0.03)


@pytest.mark.parametrize("kind", ["plain", "batch"])
def test_bits_of_a_client_do_not_depend_on_the_others(kind):
    stack, training = Stack(network(kind), SLOTS), settings(momentum=0.9, weight_decay=0.01)
    together = train_together(stack, members(kind), training)
    for slot in SIZES:
        alone = train_together(stack, {slot: members(kind)[slot]}, training)[slot]
        assert alone.model.tobytes() == together[slot].model.tobytes()
        assert alone.losses == pytest.approx(together[slot].losses, nan_ok=True)


def test_batches_of_one_image_are_refused_for_batch_norm():
    with pytest.raises(ConfigError, match="batch_size=1"):
        train_together(Stack(network("batch"), 1), members("batch", sizes={0: 4}), settings(batch_size=1))


def test_stacked_runs_share_rounds_and_those_of_half_the_clients_too(tmp_path):
    """Plain averaging leaves its rounds in the cache, one client after the other."""
    options = {"training": {"stacked": 4}, "participation": 0.5}
    play(config("fedavg", **options), tmp_path)
    run = config("ocfl-kmeans", **options)
    play(run, tmp_path)
    assert count_trained(run, tmp_path)[0] == 0
    assert find_differing(run, tmp_path) == []
