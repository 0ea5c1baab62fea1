"""Crops and flips of training images: `training.augment`."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedgrid.algorithms.averaging.fedprox import ProximalRule
from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.federation import inputs
from fedgrid.engine.federation.clients.messages import ClientData, EvaluateTask, Setup, TrainTask
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.models.flat_vectors import FlatModule, draw_initial_vector
from fedgrid.engine.federation.training.batches import PAD, Moves, draw_moves, gather_images
from fedgrid.engine.federation.training.local import train_client
from fedgrid.engine.federation.training.settings import LocalTraining

BOTH = ("crop", "flip")
CPU = torch.device("cpu")


def pixels(num_images=7, height=6, width=9, channels=3):
    """Random images, channels last."""
    rng = np.random.default_rng(5)
    return torch.from_numpy(rng.integers(0, 256, (num_images, height, width, channels)).astype(np.uint8))


def seeded(seed=0):
    return np.random.default_rng(seed)


def gathered(images, order, kinds, rng):
    return gather_images(images, order, draw_moves(len(order), kinds, rng, CPU))


def training(**changes):
    values = {"local_epochs": 2, "batch_size": 4, "optimizer": "sgd", "learning_rate": 0.1}
    return LocalTraining(**{**values, **changes})


class TestMoved:
    @pytest.mark.parametrize(
        ("offset", "flip", "shown"),
        [
            (0, 0, [0, 1, 2, 3, 4, 5]),
            (2, 0, [2, 3, 4, 5, 4, 3]),
            (-2, 0, [2, 1, 0, 1, 2, 3]),
            (4, 0, [4, 5, 4, 3, 2, 1]),
            (0, 1, [5, 4, 3, 2, 1, 0]),
            (2, 1, [3, 4, 5, 4, 3, 2]),
        ],
    )
    def test_row_of_six_pixels_by_hand(self, offset, flip, shown):
        """Columns beyond either end are those of the reflection, without the last pixel twice."""
        row = torch.arange(6, dtype=torch.uint8).view(1, 1, 6, 1).expand(1, 5, 6, 1).contiguous()
        result = gather_images(
            row, torch.tensor([0]), Moves(torch.tensor([[0, offset]]), torch.tensor([flip]))
        )
        assert result[0, :, :, 0].tolist() == [shown] * 5

    def test_every_crop_is_that_of_torchs_reflection_padding(self):
        images = pixels(81)
        offsets = torch.cartesian_prod(*[torch.arange(-PAD, PAD + 1)] * 2)
        flips = torch.arange(81) % 2
        result = gather_images(images, torch.arange(81), Moves(offsets, flips))
        padded = functional.pad(images.permute(0, 3, 1, 2).float(), (PAD,) * 4, mode="reflect")
        for place, (row, column) in enumerate((offsets + PAD).tolist()):
            expected = padded[place, :, row : row + 6, column : column + 9]
            expected = expected.flip(2) if flips[place] else expected
            assert torch.equal(result[place].permute(2, 0, 1).float(), expected)


class TestGather:
    def test_no_augmentation_draws_nothing(self):
        rng = seeded()
        assert torch.equal(gathered(pixels(), torch.tensor([2, 1]), (), rng), pixels()[[2, 1]])
        assert rng.random() == seeded().random()

    def test_flip_alone_shows_each_image_or_its_mirror_about_equally_often(self):
        images = pixels(400, 5, 5, 1)
        result = gathered(images, torch.arange(400), ("flip",), seeded())
        mirrored = [torch.equal(shown, image.flip(1)) for shown, image in zip(result, images, strict=True)]
        same = [torch.equal(shown, image) for shown, image in zip(result, images, strict=True)]
        assert all(np.logical_xor(same, mirrored))
        assert 150 < sum(mirrored) < 250


class Watcher(nn.Module):
    """A linear model that writes down its inputs."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5 * 6, 3)
        self.seen = []

    def forward(self, images):
        self.seen.append((images * 255).round().byte())
        return self.linear(images.flatten(1))


def watched(seed=0, rule=None, **changes):
    """Train on six 5x6 images; return what the model saw, and the trained state."""
    module = Watcher()
    images = pixels(6, 5, 6, 1).permute(0, 3, 1, 2)
    start = np.full(93, 0.01, np.float32)
    extra = {} if rule is None else {"rule": rule}
    flat = FlatModule(module)
    result = train_client(
        flat, start, images, torch.arange(6) % 3, training(**changes), seeded(seed), **extra
    )
    return torch.cat(module.seen), result.model


class TestTraining:
    def test_same_generator_repeats_the_bits_and_another_does_not(self):
        (seen, model), (again, same) = watched(augment=BOTH), watched(augment=BOTH)
        assert torch.equal(seen, again)
        assert model.tobytes() == same.tobytes()
        assert watched(seed=1, augment=BOTH)[1].tobytes() != model.tobytes()

    def test_local_rule_of_an_algorithm_does_not_change_what_is_seen(self):
        assert torch.equal(watched(augment=BOTH)[0], watched(augment=BOTH, rule=ProximalRule(mu=0.5))[0])


def worker(shape=(1, 8, 8), clients=(0,), **changes):
    """Return a worker whose clients all hold the same four images, in one batch."""
    images = np.random.default_rng(1).integers(0, 256, (4, *shape)).astype(np.uint8)
    held = ImageSet(images, np.arange(4) % 2)
    all_clients = tuple(ClientData(client, held, held) for client in clients)
    parts = dict.fromkeys(clients, slice(4))
    return ClientWorker(Setup("digitnet", 2, training(**changes), 0, all_clients, held, parts))


def update(worker, client, round_index):
    start = draw_initial_vector("digitnet", inputs.image_inputs(1, 8, 8), 2, seed=0)
    [reply] = worker.train([TrainTask(Order(client, (0,)), round_index, evaluate=False)], [start], {})
    return reply.update


class TestClients:
    def test_each_client_and_round_draws_its_own(self):
        plain, moving = (worker(clients=(0, 1), augment=kinds) for kinds in ((), BOTH))
        at = [(0, 0), (1, 0), (0, 1)]
        first, *others = (update(plain, *place) for place in at)
        assert all(other == pytest.approx(first, abs=1e-6) for other in others)
        first, *others = (update(moving, *place) for place in at)
        assert all(np.abs(other - first).max() > 1e-3 for other in others)

    def test_test_images_stay_as_they_are(self):
        model = draw_initial_vector("digitnet", inputs.image_inputs(1, 8, 8), 2, seed=0)
        [plain], [moving] = (
            worker(augment=kinds).evaluate([EvaluateTask(0, 0)], [model]) for kinds in ((), BOTH)
        )
        assert plain.own.loss_sum == moving.own.loss_sum
        assert plain.server[0].loss_sum == moving.server[0].loss_sum


class TestSettings:
    def test_images_smaller_than_the_reflection_are_refused(self):
        with pytest.raises(ConfigError, match=r"training.augment: crop .* 4x9; take \[flip\], or .* 5x5"):
            worker((1, 4, 9), augment=BOTH)
        training(augment=("flip",)).check_size((1, 4, 9))
        training(augment=BOTH).check_size((1, 5, 5))
