"""Keys of the round cache: everything that a number can depend on, and nothing else."""

import sys
from copy import copy
from dataclasses import fields, replace

import numpy as np
import pytest
from pydantic import BaseModel

from fedgrid.algorithms.contract.local_rule import PLAIN, LocalRule
from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.federation.clients.messages import ClientData, Moved, Setup, TrainTask
from fedgrid.engine.federation.data.images import ChannelStatistics, ImageSet
from fedgrid.engine.federation.data.partition import Partition
from fedgrid.engine.federation.errors import PLUGIN_MODULE
from fedgrid.engine.federation.training.settings import Schedule, Training
from fedgrid.engine.federation.uplink.steps import Clip, Noise, Quantise, TopK
from fedgrid.engine.runtime.plugins.plugin import PluginSource
from fedgrid.engine.runtime.round_cache import key
from fedgrid.engine.runtime.round_cache.key import ArrayDigests, compute_digest, digest_setup, digest_task


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
        "training": training().local,
        "seed": 0,
        "clients": tuple(ClientData(client, image_set(client), image_set(10 + client)) for client in (0, 1)),
        "server_set": image_set(20),
        "server_parts": {0: slice(0, 2), 1: slice(2, 4)},
    }
    return Setup(**{**values, **changes})


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


class TestImages:
    def test_digest_does_not_depend_on_memory_layout(self):
        held = image_set(1)
        images = np.zeros((8, *held.images.shape[1:]), np.uint8)
        images[::2] = held.images
        assert compute_digest(ImageSet(images[::2], np.asfortranarray(held.labels))) == compute_digest(held)

    @pytest.mark.parametrize("change", [other_pixel, other_label, other_order, fewer, on_their_side])
    def test_digest_changes_with_every_image_and_label(self, change):
        assert compute_digest(change(image_set(1))) != compute_digest(image_set(1))


CPU = {"device": "cpu"}
EXPECTED = digest_setup(setup(), CPU)


class TestSetup:
    def test_equal_setups_have_equal_digests(self):
        assert digest_setup(setup(), CPU) == EXPECTED

    def test_digest_changes_with_the_device(self):
        assert digest_setup(setup(), {**CPU, "gpu": "H100"}) != EXPECTED

    def test_digest_changes_with_code_and_library_versions(self, monkeypatch):
        monkeypatch.setattr(key, "_list_numerics", lambda: ("another version",))
        assert digest_setup(setup(), CPU) != EXPECTED


def task(**changes):
    values = {
        "client": 3,
        "candidates": (1,),
        "choose_on": "train",
        "choose_by": "loss",
        "infer": False,
        "losses": False,
        "rule": PLAIN,
        "payload": {},
    }
    order = {name: changes.pop(name, value) for name, value in values.items()}
    return TrainTask(Order(**order), **{"round_index": 2, "evaluate": True, **changes})


def of(task, models=("a", "b"), memory=None):
    payload = {name: compute_digest(array) for name, array in task.order.payload.items()}
    return digest_task(task, models, payload, memory)


class Rule(LocalRule):
    strength: float = 1.0


EXAMPLES = (
    task(),
    task().order,
    setup(
        plugins=(PluginSource("mine.py", "0" * 64, b""),),
        reference_set=image_set(22),
        uplink=(Clip(clip=1.0),),
        normalised_by=ChannelStatistics((0.1,), (0.3,)),
    ),
    ClientData(0, image_set(30), image_set(31), moved=Moved(1, 0, image_set(30), image_set(31))),
    ChannelStatistics((0.1,), (0.3,)),
    replace(image_set(20), assigned=Partition((0,), (np.arange(4),)), groups=np.zeros(4, np.int64)),
    training(schedule=Schedule(kind="cosine", rounds=9)).local,
    Clip(clip=1.0),
    Noise(noise=0.5),
    TopK(topk=0.1),
    Quantise(quantise=4),
    Rule(personal=((0, 2),)),
)
"""One of every type that is part of a key, with a value in fields that may have none."""


def field_names(kind):
    return list(kind.model_fields) if issubclass(kind, BaseModel) else [field.name for field in fields(kind)]


def changed(example, name):
    """Return a copy with a value that no field has."""
    other = copy(example)
    object.__setattr__(other, name, "another value")
    return other


class TestEveryFieldCounts:
    """Of fields that are added later, too."""

    @pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
    def test_another_value_gives_another_digest(self, example):
        assert compute_digest(copy(example)) == compute_digest(example)
        others = [compute_digest(changed(example, name)) for name in field_names(type(example))]
        assert len({compute_digest(example), *others}) == 1 + len(others)

    @pytest.mark.parametrize("name", sorted({*field_names(TrainTask)} - {"order"}))
    def test_every_field_of_a_task_changes_its_digest(self, name):
        assert of(changed(task(), name)) != of(task())

    @pytest.mark.parametrize("name", sorted({*field_names(Order)} - {"candidates", "payload"}))
    def test_every_field_of_an_order_changes_the_digest_of_its_task(self, name):
        assert of(replace(task(), order=changed(task().order, name))) != of(task())


class TestTask:
    def test_a_model_counts_and_not_its_position(self):
        assert of(task(candidates=(1,)), ["a", "b"]) == of(task(candidates=(0,)), ["b"])
        assert of(task(), ["a", "c"]) != of(task(), ["a", "b"])

    def test_order_of_candidates_counts_as_it_decides_ties(self):
        assert of(task(candidates=(0, 1))) != of(task(candidates=(1, 0)))

    def test_memory_counts_by_name_and_entries(self):
        kept = {"optimizer": np.ones(2, np.float32)}
        other = {"optimizer": np.zeros(2, np.float32)}
        elsewhere = {"variate": np.ones(2, np.float32)}
        assert len({of(task(), memory=memory) for memory in (None, kept, other, elsewhere)}) == 4

    def test_payload_counts_by_its_entries(self):
        first, same, other = (task(payload={"c": np.full(2, value)}) for value in (1.0, 1.0, 2.0))
        assert of(first) == of(same) != of(other)

    def test_unknown_type_is_refused(self):
        with pytest.raises(TypeError, match="no digest of a object"):
            compute_digest({"x": object()})


class TestCode:
    def test_plugin_of_a_rule_is_part_of_the_key(self):
        """By the digest in the name of its module: its source is not read again."""
        digests = []
        for plugin in ("0123456789abcdef", "fedcba9876543210"):
            name = f"{PLUGIN_MODULE}{plugin}"
            sys.modules[name] = type(sys)(name)
            digests.append(compute_digest(type("Mine", (LocalRule,), {"__module__": name})()))
        assert digests[0] != digests[1]


class TestModels:
    def test_models_with_the_same_bits_have_the_same_digest(self):
        first = np.array([0.0, 1.5, np.nan], np.float32)
        assert ArrayDigests().digest_arrays([first, first.copy()]) == [compute_digest(first)] * 2

    def test_models_that_differ_in_one_bit_have_different_digests(self):
        first = np.array([0.0, 1.5], np.float32)
        others = [np.array(entries, np.float32) for entries in ([-0.0, 1.5], [0.0, 1.5000001], [1.5, 0.0])]
        assert compute_digest(first) not in ArrayDigests().digest_arrays(others)

    def test_digest_of_an_array_in_use_is_computed_once(self, monkeypatch):
        """The models that a round ends with are those that the next one begins with."""
        looked_at = []
        monkeypatch.setattr(key, "compute_digest", lambda model: looked_at.append(model) or "digest")
        first, second = np.zeros(2, np.float32), np.ones(2, np.float32)
        digests = ArrayDigests()
        digests.digest_arrays([first])
        digests.digest_arrays([second, first])
        digests.digest_arrays([second])
        assert [model.tolist() for model in looked_at] == [[0, 0], [1, 1]]

    def test_digest_of_a_deleted_array_is_never_reused(self):
        """Whose place in memory a new one may have."""
        digests = ArrayDigests()
        for value in range(50):
            model = np.full(1000, value, np.float32)
            assert digests.digest_arrays([model]) == [compute_digest(np.full(1000, value, np.float32))]
            del model
