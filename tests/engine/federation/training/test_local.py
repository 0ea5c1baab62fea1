from math import log

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.models import flat_vectors
from fedgrid.engine.federation.models.flat_vectors import FlatModule
from fedgrid.engine.federation.training.local import train_client
from fedgrid.engine.federation.training.settings import Training


def training(**changes):
    settings = {"rounds": 1, "local_epochs": 1, "batch_size": 2, "optimizer": "sgd", "learning_rate": 0.1}
    return Training(**{**settings, **changes}).local


def data(num_images, shape=(2, 4, 4), num_classes=3):
    rng = np.random.default_rng(7)
    images = torch.from_numpy(rng.integers(0, 256, (num_images, *shape)).astype(np.uint8))
    return images, torch.from_numpy(rng.integers(0, num_classes, num_images))


def convolutional(batch_norm=False):
    # No bias before BatchNorm: its gradient is rounding noise, which Adam would blow up.
    norm = [nn.BatchNorm2d(4)] if batch_norm else []
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, bias=not batch_norm), *norm, nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)
    )


def start_of(module):
    """Return weights of about the usual size, and what a fresh BatchNorm has for buffers."""
    layout = flat_vectors.read_layout(module)
    rng = np.random.default_rng(3)
    start = rng.uniform(-0.3, 0.3, layout.size).astype(np.float32)
    for name, where, _ in layout.slices():
        if "running" in name or "num_batches" in name:
            start[where] = 1 if name.endswith("running_var") else 0
    return start


def seeded(seed=0):
    return np.random.default_rng(seed)


class Recorder(nn.Module):
    """A linear model of 1x1x1 images that writes down the pixel values of each batch."""

    def __init__(self, batch_norm=False):
        super().__init__()
        self.linear = nn.Linear(1, 2)
        self.norm = nn.BatchNorm1d(2) if batch_norm else nn.Identity()
        self.batches = []

    def forward(self, images):
        self.batches.append((images.flatten() * 255).round().int().tolist())
        return self.norm(self.linear(images.flatten(1)))


def test_one_step_of_a_linear_model_by_hand():
    """Pixels x = (1, 0), class 0 of 2, all weights 0.

    Both logits are 0, so the loss is log 2 and the tie goes to class 0, rightly. The loss's gradient by
    the logits is softmax - truth = (-1/2, 1/2); by the weights its outer product with x. With learning rate 1
    weights ((0, 0), (0, 0)) become ((1/2, 0), (-1/2, 0)), biases (1/2, -1/2).
    """
    flat = FlatModule(nn.Sequential(nn.Flatten(), nn.Linear(2, 2)))
    images = torch.tensor([[[[255, 0]]]], dtype=torch.uint8)
    result = train_client(
        flat, np.zeros(6, np.float32), images, torch.tensor([0]), training(learning_rate=1.0), seeded()
    )
    assert result.model.tolist() == [0.5, 0, -0.5, 0, 0.5, -0.5]
    assert result.losses == (pytest.approx(log(2)),)
    assert result.accuracies == (1.0,)
    assert result.memory == result.outputs == {}
    assert result.steps == 1


@pytest.mark.parametrize(
    ("settings", "optimizer"),
    [
        ({}, lambda p: torch.optim.SGD(p, 0.1)),
        ({"weight_decay": 0.2}, lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.2)),
        ({"weight_decay": 0.2, "clip_gradient": 0.5}, lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.2)),
        ({"optimizer": "adam", "clip_gradient": 0.5}, lambda p: torch.optim.Adam(p, 0.1)),
        (
            {"momentum": 0.9, "weight_decay": 0.01},
            lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
        ),
        ({"optimizer": "adam"}, lambda p: torch.optim.Adam(p, 0.1)),
        (
            {"optimizer": "adam", "weight_decay": 0.05, "learning_rate": 0.01},
            lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.05),
        ),
    ],
)
def test_training_is_a_plain_loop_with_torchs_optimizer(settings, optimizer):
    images, labels = data(9)
    module = convolutional(batch_norm=True)
    start = start_of(module)
    settings = training(local_epochs=2, batch_size=4, **settings)
    result = train_client(
        FlatModule(convolutional(batch_norm=True)), start, images, labels, settings, seeded()
    )

    flat_vectors.write_vector(module, start)
    plain, rng, losses, hits = optimizer(module.parameters()), seeded(), [], []
    for _ in range(2):
        order = torch.from_numpy(rng.permutation(9))
        for batch in (order[:4], order[4:8]):  # the ninth image alone has no variance
            logits = module(images[batch] / 255)
            loss = functional.cross_entropy(logits, labels[batch])
            plain.zero_grad()
            loss.backward()
            if settings.clip_gradient is not None:
                nn.utils.clip_grad_norm_(module.parameters(), settings.clip_gradient)
            plain.step()
            losses.append(loss.item())
            hits.append((logits.argmax(1) == labels[batch]).float().mean().item())
    assert result.model == pytest.approx(flat_vectors.read_vector(module), abs=1e-5)
    assert result.losses == pytest.approx(np.mean(np.reshape(losses, (2, 2)), axis=1), abs=1e-5)
    assert result.accuracies == pytest.approx(np.mean(np.reshape(hits, (2, 2)), axis=1))


def test_local_steps_go_on_over_the_epochs_orders():
    """Of 5 images in batches of 2, an epoch and two batches of the next one."""
    images, labels = data(5)
    flat, start = FlatModule(convolutional()), start_of(convolutional())
    of_epochs, of_steps = training(local_epochs=2), training(local_steps=5)
    cut = train_client(flat, start, images, labels, of_epochs, seeded(), max_steps=5)
    result = train_client(flat, start, images, labels, of_steps, seeded())
    assert (result.steps, len(result.losses)) == (5, 1)
    assert result.model.tobytes() == cut.model.tobytes()


def test_an_epoch_shows_each_image_once_in_the_generators_order():
    images = torch.arange(5, dtype=torch.uint8).view(5, 1, 1, 1)
    module = Recorder()
    labels = torch.zeros(5, dtype=torch.int64)
    train_client(
        FlatModule(module), np.zeros(4, np.float32), images, labels, training(local_epochs=2), seeded(4)
    )
    rng = seeded(4)
    first, second = rng.permutation(5).tolist(), rng.permutation(5).tolist()
    assert module.batches == [
        first[:2],
        first[2:4],
        first[4:],
        second[:2],
        second[2:4],
        second[4:],
    ]


@pytest.mark.parametrize(("num_images", "sizes"), [(4, [2, 2]), (5, [2, 2]), (1, []), (0, [])])
def test_with_batch_norm_a_last_batch_of_one_is_left_out_and_batches_are_counted(num_images, sizes):
    images, labels = data(num_images, (1, 1, 1), 2)
    module = Recorder(batch_norm=True)
    result = train_client(FlatModule(module), start_of(module), images, labels, training(), seeded())
    assert [len(batch) for batch in module.batches] == sizes
    assert result.model[-1] == len(sizes)


def test_batches_of_one_image_are_refused_with_batch_norm():
    module = convolutional(batch_norm=True)
    with pytest.raises(ConfigError, match="training.batch_size=1 does not work with a model that has Batch"):
        train_client(FlatModule(module), start_of(module), *data(3), training(batch_size=1), seeded())


@pytest.mark.parametrize("settings", [{"momentum": 0.9}, {"optimizer": "adam"}])
def test_a_kept_memory_makes_two_rounds_one_uninterrupted_training(settings):
    flat = FlatModule(convolutional())
    start, (images, labels) = start_of(flat.module), data(7)
    settings = training(keep_optimizer_state=True, **settings)
    whole = train_client(
        flat, start, images, labels, settings.model_copy(update={"local_epochs": 2}), seeded()
    )
    rng = seeded()
    first = train_client(flat, start, images, labels, settings, rng)
    second = train_client(flat, first.model, images, labels, settings, rng, first.memory)
    assert second.model.tobytes() == whole.model.tobytes()
    assert list(second.memory) == list(whole.memory) == ["optimizer"]
    assert second.memory["optimizer"].tobytes() == whole.memory["optimizer"].tobytes()
    assert first.losses + second.losses == whole.losses


@pytest.mark.parametrize(
    ("settings", "entries"),
    [({}, None), ({"momentum": 0.9}, 127), ({"optimizer": "adam"}, 2 * 127 + 1)],
)
def test_a_memory_has_one_entry_for_each_moment_and_the_step_count(settings, entries):
    flat = FlatModule(convolutional())
    kept = train_client(
        flat, start_of(flat.module), *data(5), training(keep_optimizer_state=True, **settings), seeded()
    )
    dropped = train_client(flat, start_of(flat.module), *data(5), training(**settings), seeded())
    assert dropped.memory == {}
    expected = {} if entries is None else {"optimizer": (entries,)}
    assert {name: array.shape for name, array in kept.memory.items()} == expected
    if settings.get("optimizer") == "adam":
        assert kept.memory["optimizer"][-1] == 3
