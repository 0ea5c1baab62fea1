"""Local rules: what each hook changes in a client's training, by hand where one step is enough."""

from math import log
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from fedgrid.algorithms.contract.local_rule import PLAIN, Finished, LocalRule, LocalSteps
from fedgrid.engine.federation.models import flat_vectors
from fedgrid.engine.federation.models.flat_vectors import FlatModule
from fedgrid.engine.federation.training.local import train_client
from fedgrid.engine.federation.training.settings import LocalTraining

ONE_PIXEL = torch.tensor([[[[255, 0]]]], dtype=torch.uint8)
"""Pixels x = (1, 0) of class 0. From equal weights both logits of `linear` are equal: the gradient of the
cross-entropy is ((-1/2, 0), (1/2, 0)) by the weights and (-1/2, 1/2) by the biases."""
PLAIN_STEP = [0.5, 0, -0.5, 0, 0.5, -0.5]
"""One step of plain SGD with learning rate 1 from zero."""


def settings(**changes):
    values = {"local_epochs": 1, "batch_size": 2, "optimizer": "sgd", "learning_rate": 1.0}
    return LocalTraining(**{**values, **changes})


def linear():
    return FlatModule(nn.Sequential(nn.Flatten(), nn.Linear(2, 2)))


def one_step(rule, start=(0,) * 6, memory=None, payload=None, flat=None, **changes):
    """Return the result of one step on `ONE_PIXEL` with the linear model."""
    first = flat or linear(), np.array(start, np.float32), ONE_PIXEL, torch.tensor([0])
    inputs = *first, settings(**changes), np.random.default_rng(0)
    return train_client(*inputs, memory or {}, rule=rule, payload=payload or {})


def convolutional():
    """With BatchNorm, and weights whose order in memory is not the layout's."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(2, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


def convolve(rule, num_images=9, memory=None, start=None, reference=None, max_steps=None, **changes):
    """Return (start, result) of training the convolutional model on random images."""
    rng = np.random.default_rng(7)
    images = torch.from_numpy(rng.integers(0, 256, (num_images, 2, 4, 4)).astype(np.uint8))
    labels = torch.from_numpy(rng.integers(0, 3, num_images))
    module = convolutional()
    start = flat_vectors.read_vector(module) if start is None else start
    options = settings(**{"learning_rate": 0.1, "batch_size": 4, **changes})
    result = train_client(
        FlatModule(module),
        start,
        images,
        labels,
        options,
        np.random.default_rng(1),
        memory or {},
        rule=rule,
        reference=reference,
        max_steps=max_steps,
    )
    return start, result


class Hooked(LocalRule):
    """Trains with the hooks that `make` returns for a local model."""

    make: object

    def start(self, local):
        return self.make(local)


class Counting(Hooked):
    """Sends and remembers what `TestFinish.Counter` returns."""

    outputs: ClassVar[tuple[str, ...]] = ("moved", "steps")
    remembers: ClassVar[tuple[str, ...]] = ("visits",)


class TestLoss:
    def test_its_gradient_alone_trains_and_the_standard_loss_is_recorded(self):
        """With smoothing 1/2 the targets are (3/4, 1/4): half of the gradient of cross-entropy."""

        class Smoothed(LocalSteps):
            def loss(self, local, logits, labels):
                assert (logits.shape, labels.tolist(), local.positions.tolist()) == ((1, 2), [0], [0])
                return torch.nn.functional.cross_entropy(logits, labels, label_smoothing=0.5)

        result = one_step(Hooked(make=lambda local: Smoothed()))
        assert result.model.tolist() == [0.25, 0, -0.25, 0, 0.25, -0.25]
        assert result.losses == (pytest.approx(log(2)),)


class TestPenalty:
    def test_its_gradient_is_added_and_its_value_is_no_part_of_the_reported_loss(self):
        """The second logit: gradient (1, 0) by its weights, 1 by its bias."""

        class SecondLogit(LocalSteps):
            def penalty(self, logits, labels, images):
                assert (logits.shape, labels.tolist(), images.flatten().tolist()) == ((1, 2), [0], [1, 0])
                return logits[:, 1].sum()

        result = one_step(Hooked(make=lambda local: SecondLogit()))
        assert result.model.tolist() == [0.5, 0, -1.5, 0, 0.5, -1.5]
        assert result.losses == (pytest.approx(log(2)),)


class TestCorrect:
    def test_changes_the_gradient_in_place(self):
        class AddOne(LocalSteps):
            def correct(self, weights, gradient):
                assert weights.tolist() == [0] * 6
                gradient.add_(1)

        result = one_step(Hooked(make=lambda local: AddOne()))
        assert result.model.tolist() == [number - 1 for number in PLAIN_STEP]

    def test_comes_before_weight_decay(self):
        """Without a gradient the weights of 1 shrink by the decay of 1/2 alone."""

        class NoGradient(LocalSteps):
            def correct(self, weights, gradient):
                gradient.zero_()

        result = one_step(Hooked(make=lambda local: NoGradient()), start=(1,) * 6, weight_decay=0.5)
        assert result.model.tolist() == [0.5] * 6


class TestTrains:
    OPTIMIZERS: ClassVar = [
        {"weight_decay": 0.1},
        {"momentum": 0.9, "weight_decay": 0.1},
        {"optimizer": "adam", "weight_decay": 0.1},
    ]

    @pytest.mark.parametrize("changes", OPTIMIZERS, ids=str)
    def test_parameters_outside_the_mask_keep_their_bits(self, changes):
        """Every third parameter trains; BatchNorm's buffers are no parameters and go on."""
        width = len(FlatModule(convolutional()).weights)
        mask_W = np.arange(width) % 3 == 0

        def masked(local):
            steps = LocalSteps()
            steps.trains = local.tensor(mask_W.astype(np.float32)) > 0
            return steps

        start, result = convolve(Hooked(make=masked), local_epochs=2, **changes)
        moved_W = result.model[:width] != start[:width]
        assert not moved_W[~mask_W].any()
        assert result.model[:width][~mask_W].tobytes() == start[:width][~mask_W].tobytes()
        assert moved_W[mask_W].mean() > 0.9
        assert (result.model[width:] != start[width:]).any()


class TestWholeStep:
    def test_replaces_cross_entropy_and_optimizer(self):
        """Two batches, each of which adds 1; the returned logits are what loss and accuracy are of."""

        class AddOne(LocalSteps):
            def step(self, local, images, labels):
                local.weights.add_(1)
                return torch.nn.functional.one_hot(labels, 3) * 100.0

        start, result = convolve(Hooked(make=lambda local: AddOne()))
        width = len(FlatModule(convolutional()).weights)
        np.testing.assert_allclose(result.model[:width], start[:width] + 2, rtol=1e-6)
        assert result.model[width:].tolist() == start[width:].tolist(), "no batch went through the model"
        assert result.steps == 2
        assert result.losses == (pytest.approx(0, abs=1e-6),)
        assert result.accuracies == (1.0,)


class TestFinish:
    class Counter(LocalSteps):
        """Asks for the start before the first step, as hooks must."""

        def __init__(self, local):
            assert local.start.shape == local.weights.shape
            self.before = local.memory.get("visits", np.zeros(1, np.float32))

        def finish(self, local, num_steps):
            moved = {"moved": local.vector(local.weights - local.start), "steps": np.array([num_steps])}
            return Finished(moved, {"visits": self.before + 1})

    def test_memory_is_handed_in_again_beside_the_optimizers(self):
        kept = {"momentum": 0.9, "keep_optimizer_state": True}
        first = one_step(Counting(make=self.Counter), **kept)
        assert {name: array.tolist() for name, array in first.outputs.items()} == {
            "moved": PLAIN_STEP,
            "steps": [1],
        }
        second = one_step(Counting(make=self.Counter), first.model, first.memory, **kept)
        assert set(second.memory) == {"optimizer", "visits"}
        assert second.memory["visits"].tolist() == [2]
        plain = one_step(PLAIN, first.model, {"optimizer": first.memory["optimizer"]}, **kept)
        assert second.model.tobytes() == plain.model.tobytes()


class TestLocalModel:
    def test_a_rule_may_put_other_weights_in_place_before_the_first_step(self):
        """Personal weights of 1: `start` is what training began from."""
        seen = []

        def personal(local):
            local.weights.copy_(local.tensor(local.payload["personal"]))
            seen.append(local.start.tolist())
            return LocalSteps()

        ones = np.ones(6, np.float32)
        result = one_step(Hooked(make=personal), payload={"personal": ones})
        assert seen == [[1] * 6]
        assert result.model.tolist() == [1 + moved for moved in PLAIN_STEP]

    def test_predictions_are_probabilities_and_change_nothing(self):
        """Inference mode: neither BatchNorm's buffers nor the training that follows differ."""
        reference = torch.from_numpy(np.random.default_rng(2).integers(0, 256, (5, 2, 4, 4)).astype(np.uint8))
        seen = []

        class Predict(LocalSteps):
            def step(self, local, images, labels):
                seen.append((local.reference, local.predict(local.reference)))
                assert local.predict().tobytes() == seen[-1][1].tobytes()
                return super().step(local, images, labels)

        _, result = convolve(Hooked(make=lambda local: Predict()), reference=reference)
        inputs, probabilities = seen[0]
        assert torch.equal(inputs, reference.float() / 255)
        assert (probabilities.dtype, probabilities.shape) == (np.float32, (5, 3))
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
        assert result.model.tobytes() == convolve(PLAIN)[1].model.tobytes()

    def test_features_are_what_went_into_the_head_and_part_of_the_loss(self):
        """The two pixels (1, 0), without a layer before; then their sum after one with weights of 1."""
        seen = []

        class Look(LocalSteps):
            def __init__(self, local):
                self.local = local

            def penalty(self, logits, labels, images):
                seen.append(self.local.features.tolist())
                return self.local.features.sum()

        rule, start = Hooked(make=Look), np.array([1, 1, 0, 0, 0, 0, 0], np.float32)
        one_step(rule, flat=FlatModule(linear().module, "1"))
        layers = nn.Sequential(nn.Flatten(), nn.Linear(2, 1), nn.Linear(1, 2))
        result = one_step(rule, start, flat=FlatModule(layers, "2"))
        assert seen == [[[1, 0]], [[1]]]
        assert result.model[:3].tolist() == [0, 1, -1], "the head's zeros leave the penalty's gradient"
        with pytest.raises(ValueError, match="names no head"):
            one_step(rule)

    def test_snapshots_hold_buffers_and_are_loaded_as_vectors_are(self):
        seen = []

        class Look(LocalSteps):
            def step(self, local, images, labels):
                before = local.snapshot()
                local.logits(images)
                local.weights.add_(1)
                seen.append((local.vector(before), local.vector(local.snapshot())))
                local.load(before if local.epoch_index else local.vector(before))
                assert torch.equal(local.snapshot(), before)
                return super().step(local, images, labels)

        start, result = convolve(Hooked(make=lambda local: Look()), local_epochs=2)
        assert seen[0][0].tobytes() == start.tobytes()
        width = len(FlatModule(convolutional()).weights)
        assert (seen[0][1][:width] == start[:width] + 1).all()
        assert seen[0][1][-1] == start[-1] + 1, "a batch more"
        assert result.model.tobytes() == convolve(PLAIN, local_epochs=2)[1].model.tobytes()
        with pytest.raises(ValueError, match="does not fit a model of"):
            convolve(Hooked(make=lambda local: local.load(local.weights)))

    def test_examples_are_the_clients_and_positions_those_of_the_batch(self):
        seen = []

        class Look(LocalSteps):
            def __init__(self, local):
                with local.inference():
                    parts = [(x, y, local.logits(x)) for x, y in local.examples()]
                self.inputs, self.labels, logits = (torch.cat(part) for part in zip(*parts, strict=True))
                assert not logits.requires_grad

            def step(self, local, images, labels):
                assert torch.equal(self.inputs[local.positions], images)
                assert torch.equal(self.labels[local.positions], labels)
                seen.extend(local.positions.tolist())
                return super().step(local, images, labels)

        result = convolve(Hooked(make=Look), num_images=8, local_epochs=2)[1]
        assert sorted(seen) == sorted([*range(8)] * 2)
        assert result.model.tobytes() == convolve(PLAIN, 8, local_epochs=2)[1].model.tobytes()

    def test_mask_marks_parameters_of_the_ranges_alone(self):
        """The last entry is BatchNorm's counter, which is no parameter."""
        seen = []

        def start(local):
            marked = local.mask([(1, 3), (local.layout.size - 1, local.layout.size)])
            seen.append((marked.dtype, np.flatnonzero(local.vector(marked.float())).tolist()))
            return LocalSteps()

        convolve(Hooked(make=start))
        assert seen == [(torch.bool, [1, 2])]

    def test_losses_are_of_each_example_under_each_state(self):
        """Equal logits: log 2. With biases of (log 3, 0) the class has the probability 3/4."""
        seen = []

        def start(local):
            biased = np.array([0, 0, 0, 0, log(3), 0], np.float32)
            seen.append(local.losses([local.snapshot(), biased]))
            return LocalSteps()

        result = one_step(Hooked(make=start))
        assert seen[0].shape == (1, 2)
        assert seen[0][0].tolist() == pytest.approx([log(2), log(4 / 3)])
        assert result.model.tolist() == PLAIN_STEP

    def test_substituted_state_leaves_no_trace(self):
        """Neither of its draws nor of its pass, which BatchNorm counts."""
        seen = []

        class TrainAnother(LocalSteps):
            def step(self, local, images, labels):
                with local.substitute(local.snapshot() + 1):
                    local.logits(images)
                    seen.append(local.weights.clone())
                    torch.rand(1)
                seen.append(torch.rand(1))
                return super().step(local, images, labels)

        class Draw(LocalSteps):
            def step(self, local, images, labels):
                seen.append(torch.rand(1))
                return super().step(local, images, labels)

        start, result = convolve(Hooked(make=lambda local: TrainAnother()), max_steps=1)
        _, plain = convolve(Hooked(make=lambda local: Draw()), max_steps=1)
        another_W, drawn, expected = seen
        assert result.model.tobytes() == plain.model.tobytes()
        assert drawn == expected
        assert another_W.sum() == pytest.approx(start[: len(another_W)].sum() + len(another_W), rel=1e-5)

    def test_gradient_is_of_the_scalar_alone(self):
        """The second logit's: 1 by its first weight and its bias, twice in a row."""
        seen = []

        class Look(LocalSteps):
            def step(self, local, images, labels):
                for _ in range(2):
                    seen.append(local.gradient(local.logits(images)[:, 1].sum()).tolist())
                return super().step(local, images, labels)

        result = one_step(Hooked(make=lambda local: Look()))
        assert seen == [[0, 0, 1, 0, 0, 1]] * 2
        assert result.model.tolist() == PLAIN_STEP

    @pytest.mark.parametrize(
        ("length", "num_epochs", "epochs"),
        [
            ({"local_epochs": 3}, 3, [0, 0, 1, 1, 2, 2]),
            ({"max_steps": 3, "local_epochs": 1}, 2, [0, 0, 1]),
            ({"max_steps": 0}, 0, []),
            ({"num_images": 1, "max_steps": 3}, 0, []),
        ],
    )
    def test_knows_its_epochs_and_steps(self, length, num_epochs, epochs):
        """Nine images are two batches of four: BatchNorm leaves the last one out."""
        known, seen = [], []

        class Look(LocalSteps):
            def step(self, local, images, labels):
                seen.append(local.epoch_index)
                return super().step(local, images, labels)

        def start(local):
            known.append((local.num_epochs, local.num_steps))
            return Look()

        convolve(Hooked(make=start), **length)
        assert (known, seen) == ([(num_epochs, len(epochs))], epochs)

    def test_without_reference_images_there_is_none(self):
        seen = []
        one_step(Hooked(make=lambda local: seen.append(local.reference) or LocalSteps()))
        assert seen == [None]
        with pytest.raises(ValueError, match=r"split\.reference_images"):
            one_step(Hooked(make=lambda local: local.predict() or LocalSteps()))


class TestPersonalEntries:
    """The first weight and both biases of `linear`: the ranges (0, 1) and (4, 6) of its six entries."""

    RULE = LocalRule(personal=((0, 1), (4, 6)))

    def test_are_remembered_after_training(self):
        result = one_step(self.RULE)
        assert result.model.tolist() == PLAIN_STEP
        assert {name: array.tolist() for name, array in result.memory.items()} == {
            "personal": [0.5, 0.5, -0.5]
        }

    def test_take_the_place_of_the_servers_before_training(self):
        """Equal logits as before, if both biases are 3 and weights for the first pixel 7."""
        start = (0, 0, 7, 0, 0, 0)
        memory = {"personal": np.array([7, 3, 3], np.float32)}
        result = one_step(self.RULE, start, memory)
        assert result.model.tolist() == [7.5, 0, 6.5, 0, 3.5, 2.5]
        assert result.memory["personal"].tolist() == [7.5, 3.5, 2.5]
        assert start == (0, 0, 7, 0, 0, 0)

    def test_of_another_model_are_refused_in_one_line(self):
        with pytest.raises(ValueError, match=r"^4 personal entries .* this model has 3$"):
            one_step(self.RULE, memory={"personal": np.zeros(4, np.float32)})


@pytest.mark.parametrize("size", [4, 7])
def test_array_of_another_layout_is_refused_in_one_line(size):
    """As SCAFFOLD's variate of a smaller or larger model would be."""
    with pytest.raises(ValueError, match=rf"^an array of shape \({size},\) does not fit a model of 6 param"):
        one_step(Hooked(make=lambda local: local.tensor(np.zeros(size, np.float32))))


class TestMaxSteps:
    """Nine images in batches of four: two batches an epoch, the ninth image is left out."""

    def test_it_may_end_within_an_epoch_whatever_the_number_of_epochs(self):
        models = [convolve(PLAIN, max_steps=3, local_epochs=epochs)[1].model.tobytes() for epochs in (1, 5)]
        assert models[0] == models[1]
        assert models[0] not in {convolve(PLAIN, max_steps=steps)[1].model.tobytes() for steps in (2, 4)}


@pytest.mark.parametrize(
    "changes", [{"momentum": 0.9}, {"optimizer": "adam"}, {"weight_decay": 0.01}], ids=str
)
def test_hooks_that_change_nothing_give_the_bits_of_plain_training(changes):
    class Idle(LocalSteps):
        """Overrides every hook by what the base class does."""

        def step(self, local, images, labels):
            return local.step(images, labels, self)

        def loss(self, local, logits, labels):
            return local.loss(logits, labels)

        def penalty(self, logits, labels, images):
            return None

        def correct(self, weights, gradient):
            gradient.add_(torch.zeros_like(gradient))

        def finish(self, local, num_steps):
            return Finished()

    kept = {"keep_optimizer_state": True, "local_epochs": 2, **changes}
    _, plain = convolve(PLAIN, **kept)
    _, hooked = convolve(Hooked(make=lambda local: Idle()), **kept)
    assert hooked.model.tobytes() == plain.model.tobytes()
    assert (hooked.losses, hooked.accuracies) == (plain.losses, plain.accuracies)
    assert {name: array.tobytes() for name, array in hooked.memory.items()} == {
        name: array.tobytes() for name, array in plain.memory.items()
    }
