"""What tells one federation's rounds from another's: whatever a number can depend on, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from fedgrid.engine.clients.messages import ClientData
from fedgrid.engine.clients.pool import Setup
from fedgrid.engine.data.images import ImageSet
from fedgrid.engine.round_cache import key
from fedgrid.engine.round_cache.key import Digests, of_array, of_setup
from fedgrid.engine.training.settings import Training


def image_set(seed, num_images=4):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (num_images, 1, 3, 2)).astype(np.uint8)
    return ImageSet(images, rng.integers(0, 3, num_images))


def training(**changes):
    values = {"rounds": 5, "batch_size": 4, "optimizer": "sgd", "learning_rate": 0.1, "momentum": 0.5}
    return Training(**{**values, **changes})


def setup(**changes):
    """Two clients; made anew each time."""
    values = {
        "model": "digitnet",
        "num_classes": 3,
        "training": training(),
        "seed": 0,
        "clients": tuple(ClientData(client, image_set(client), image_set(10 + client)) for client in (0, 1)),
        "server_set": image_set(20),
        "server_parts": {0: slice(0, 2), 1: slice(2, 4)},
    }
    return Setup(**{**values, **changes})


def with_sets(change, which):
    """Return the setup with one of its image sets changed."""
    base = setup()
    if which == "server_set":
        return replace(base, server_set=change(base.server_set))
    first, second = base.clients
    return replace(base, clients=(first, replace(second, **{which: change(getattr(second, which))})))


def other_pixel(held):
    images = held.images.copy()
    images[-1, 0, 2, 1] ^= 1
    return ImageSet(images, held.labels)


def other_label(held):
    labels = held.labels.copy()
    labels[-1] += 1
    return ImageSet(held.images, labels)


def other_order(held):
    return held.take(np.array([1, 0, 2, 3]))


def fewer(held):
    return held.take(slice(0, 3))


def on_their_side(held):
    """The same bytes in another shape."""
    return ImageSet(held.images.reshape(4, 1, 2, 3), held.labels)


EXPECTED = of_setup(setup(), "cpu")


class TestSetup:
    def test_is_told_by_its_content(self):
        assert of_setup(setup(), "cpu") == EXPECTED

    def test_however_the_images_lie_in_memory(self):
        def spread(held):
            images = np.zeros((8, *held.images.shape[1:]), np.uint8)
            images[::2] = held.images
            return ImageSet(images[::2], np.asfortranarray(held.labels))

        for which in ("train", "test", "server_set"):
            assert of_setup(with_sets(spread, which), "cpu") == EXPECTED

    def test_and_that_they_cannot_be_written_to(self):
        """As those from the object store."""

        def frozen(held):
            images = held.images.copy()
            images.setflags(write=False)
            return ImageSet(images, held.labels)

        assert of_setup(with_sets(frozen, "train"), "cpu") == EXPECTED

    @pytest.mark.parametrize("which", ["train", "test", "server_set"])
    @pytest.mark.parametrize("change", [other_pixel, other_label, other_order, fewer, on_their_side])
    def test_changes_with_every_image_and_label(self, which, change):
        assert of_setup(with_sets(change, which), "cpu") != EXPECTED

    def test_changes_with_who_holds_which_images(self):
        first, second = setup().clients
        swapped = (replace(first, train=second.train), replace(second, train=first.train))
        assert of_setup(setup(clients=swapped), "cpu") != EXPECTED
        mixed_up = (replace(first, train=first.test, test=first.train), second)
        assert of_setup(setup(clients=mixed_up), "cpu") != EXPECTED

    @pytest.mark.parametrize(
        "change",
        [
            {"model": "tinyvgg"},
            {"num_classes": 4},
            {"seed": 1},
            {"server_parts": {0: slice(0, 1), 1: slice(1, 4)}},
            {"clients": setup().clients[:1]},
        ],
        ids=lambda change: next(iter(change)),
    )
    def test_changes_with(self, change):
        assert of_setup(setup(**change), "cpu") != EXPECTED

    CHANGES = {
        "local_epochs": 4,
        "batch_size": 5,
        "optimizer": "adam",
        "learning_rate": 0.1 + 1e-16,
        "momentum": 0.6,
        "weight_decay": 1e-9,
        "keep_optimizer_state": True,
    }

    def test_every_setting_of_training_is_among_these(self):
        assert {*self.CHANGES, "rounds"} == set(Training.model_fields)

    @pytest.mark.parametrize("name", CHANGES)
    def test_changes_with_every_setting_of_training(self, name):
        changes = {name: self.CHANGES[name]} | ({"momentum": 0.0} if name == "optimizer" else {})
        assert of_setup(setup(training=training(**changes)), "cpu") != EXPECTED

    def test_but_not_with_the_number_of_rounds(self):
        assert of_setup(setup(training=training(rounds=50)), "cpu") == EXPECTED

    def test_changes_with_the_device(self):
        assert of_setup(setup(), "cuda") != EXPECTED

    def test_changes_with_the_code_and_the_versions_of_what_computes(self, monkeypatch):
        monkeypatch.setattr(key, "_numerics", lambda: ("another version",))
        assert of_setup(setup(), "cpu") != EXPECTED


class TestModels:
    def test_have_the_same_digest_if_all_bits_are_the_same(self):
        first = np.array([0.0, 1.5, np.nan], np.float32)
        assert Digests().of([first, first.copy()]) == [of_array(first)] * 2

    def test_have_another_with_one_bit_changed(self):
        first = np.array([0.0, 1.5], np.float32)
        others = [np.array(entries, np.float32) for entries in ([-0.0, 1.5], [0.0, 1.5000001], [1.5, 0.0])]
        assert of_array(first) not in Digests().of(others)

    def test_are_looked_at_once_while_in_use(self, monkeypatch):
        """The models that a round ends with are those that the next one begins with."""
        looked_at = []
        monkeypatch.setattr(key, "of_array", lambda model: looked_at.append(model) or "digest")
        first, second = np.zeros(2, np.float32), np.ones(2, np.float32)
        digests = Digests()
        digests.of([first])
        digests.of([second, first])
        digests.of([second])
        assert [model.tolist() for model in looked_at] == [[0, 0], [1, 1]]

    def test_are_never_taken_for_one_that_is_gone(self):
        """Whose place in memory a new one may have."""
        digests = Digests()
        for value in range(50):
            model = np.full(1000, value, np.float32)
            assert digests.of([model]) == [of_array(np.full(1000, value, np.float32))]
            del model
