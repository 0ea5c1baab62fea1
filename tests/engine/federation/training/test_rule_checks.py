"""Mistakes in a rule's hooks: each fails with the hook, what it returned and what is expected."""

from operator import setitem
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from fedgrid.algorithms.contract.local_rule import Finished, LocalRule, LocalSteps
from fedgrid.engine.federation.errors import FinalError
from fedgrid.engine.federation.models.flat_vectors import FlatModule
from fedgrid.engine.federation.training.confusion import Counts
from fedgrid.engine.federation.training.local import train_client
from fedgrid.engine.federation.training.settings import LocalTraining

ONE = np.ones(1, np.float32)
LOGITS = r"expected the logits of the batch, shape \(2, 3\)"
SCALAR = "expected a scalar tensor"
"""Two images, three classes; a linear model of two pixels, so that W = 9."""


class Own(LocalRule):
    """Starts with what `make` returns for a local model."""

    outputs: ClassVar[tuple[str, ...]] = ("number",)
    remembers: ClassVar[tuple[str, ...]] = ("note",)
    make: object

    def start(self, local):
        return self.make(local)


class Steps(LocalSteps):
    """Returns from the hooks named what is given: a value, or what a function makes of the true one."""

    def __init__(self, trains=None, **returns):
        self.trains, self.returns = trains, returns

    def replace(self, hook, value):
        own = self.returns.get(hook, value)
        return own(value) if callable(own) else own

    def step(self, local, images, labels):
        return self.replace("step", super().step(local, images, labels))

    def loss(self, local, logits, labels):
        return self.replace("loss", super().loss(local, logits, labels))

    def penalty(self, logits, labels, images):
        return self.replace("penalty", None)

    def test(self, local, images):
        return self.replace("test", super().test(local, images))

    def finish(self, local, num_steps):
        return self.replace("finish", Finished({"number": ONE}, {"note": ONE}))


def train(make):
    """Take one step, and test the model on the same images."""
    images = torch.tensor([[[[255, 0]]], [[[0, 255]]]], dtype=torch.uint8)

    def test(compute_logits):
        return Counts(compute_logits(images.float() / 255).detach().numpy(), 0.0)

    return train_client(
        FlatModule(nn.Sequential(nn.Flatten(), nn.Linear(2, 3))),
        np.zeros(9, np.float32),
        images,
        torch.tensor([0, 1]),
        LocalTraining(local_epochs=1, batch_size=2, optimizer="sgd", learning_rate=1.0),
        np.random.default_rng(0),
        rule=Own(make=make),
        num_classes=3,
        test=test,
    )


FAULTS = {
    "loss: nothing": ({"loss": lambda _: None}, rf"Steps.loss returned a NoneType; {SCALAR}"),
    "loss: a vector": ({"loss": torch.ones(2)}, rf"Steps.loss returned .*shape \(2,\); {SCALAR}"),
    "loss: without a graph": ({"loss": torch.Tensor.detach}, rf"Steps.loss returned .*; {SCALAR}"),
    "penalty: a number": ({"penalty": 0.1}, rf"Steps.penalty returned a float; {SCALAR}"),
    "penalty: a vector": ({"penalty": torch.ones(2)}, rf"Steps.penalty returned .*; {SCALAR}"),
    "step: nothing": ({"step": lambda _: None}, rf"Steps.step returned a NoneType; {LOGITS}"),
    "step: fewer": ({"step": lambda x: x[:1]}, rf"Steps.step returned .*shape \(1, 3\); {LOGITS}"),
    "step: narrower": ({"step": lambda x: x[:, :2]}, rf"Steps.step returned .*shape \(2, 2\); {LOGITS}"),
    "step: an array": ({"step": torch.Tensor.numpy}, rf"Steps.step returned float32, .*; {LOGITS}"),
    "step: integers": ({"step": torch.Tensor.long}, rf"Steps.step returned torch.int64, .*; {LOGITS}"),
    "step: a scalar": ({"step": torch.Tensor.mean}, rf"Steps.step returned .*shape \(\); {LOGITS}"),
    "test: nothing": ({"test": lambda _: None}, rf"Steps.test returned a NoneType; {LOGITS}"),
    "test: fewer": ({"test": lambda x: x[:1]}, rf"Steps.test returned .*shape \(1, 3\); {LOGITS}"),
    "trains: floats": (
        {"trains": torch.ones(9)},
        r"Steps.trains returned torch.float32, .* bool, shape \(9,",
    ),
    "trains: shorter": ({"trains": torch.ones(3) > 0}, r"Steps.trains .* shape \(3,\); .* bool, shape \(9,"),
    "trains: an array": ({"trains": np.ones(9) > 0}, r"Steps.trains .* tensor of bool, shape \(9,"),
    "finish: nothing": ({"finish": lambda _: None}, "Steps.finish returned a NoneType; expected a Finished"),
    "finish: a dict": ({"finish": {"number": ONE}}, "Steps.finish returned a dict; expected a Finished"),
    "finish: a list": ({"finish": Finished([ONE])}, "a list as outputs; expected a dict"),
    "finish: no memory": (
        {"finish": Finished({"number": ONE}, None)},
        "a NoneType as memory; expected a dict",
    ),
    "finish: an undeclared output": (
        {"finish": Finished({"number": ONE, "other": ONE})},
        "'other' in its outputs; expected names in Own.outputs, which are number",
    ),
    "finish: a missing output": ({"finish": Finished()}, "outputs without number; .* in Own.outputs"),
    "finish: an undeclared memory": (
        {"finish": Finished({"number": ONE}, {"optimizer": ONE})},
        "'optimizer' in its memory; expected names in Own.remembers, which are note",
    ),
    **{
        f"finish: {value!r}": (
            {"finish": Finished({"number": value})},
            "as number; expected a NumPy array of real numbers",
        )
        for value in (1.0, np.float32(1), torch.ones(2), None, np.array(["a"]), np.array([1j]))
    },
}


@pytest.mark.parametrize(("faults", "expected"), FAULTS.values(), ids=FAULTS)
def test_what_a_hook_may_not_return_is_named(faults, expected):
    with pytest.raises(FinalError, match=expected) as caught:
        train(lambda local: Steps(**faults))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("returned", [None, LocalSteps], ids=["nothing", "a class"])
def test_start_returns_hooks(returned):
    with pytest.raises(FinalError, match="Own.start returned a .*; expected a LocalSteps"):
        train(lambda local: returned)


def test_memory_may_be_left_out():
    assert train(lambda local: Steps(finish=Finished({"number": ONE}))).memory == {}


@pytest.mark.parametrize(
    "name",
    ["weights", "start", "payload", "memory", "learning_rate", "num_steps", "positions", "features", "other"],
)
def test_no_hook_assigns_to_the_model_in_training(name):
    """It would train nothing, as `local.weights = ...`."""
    with pytest.raises(AttributeError, match=rf"local\.{name} cannot be assigned to; \w+"):
        train(lambda local: setattr(local, name, local.weights - 1))


def test_no_hook_moves_the_weights_to_other_memory():
    with pytest.raises(ValueError, match=r"Own set local.weights.data; write local.weights.copy_"):
        train(lambda local: setattr(local.weights, "data", local.weights - 1) or Steps())


@pytest.mark.parametrize("name", ["payload", "memory"])
def test_no_hook_adds_an_array_to_what_it_is_given(name):
    with pytest.raises(TypeError, match="item assignment"):
        train(lambda local: setitem(getattr(local, name), "note", ONE))
