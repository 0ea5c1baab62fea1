"""What a rule gets beside the batches of its training: own batches and optimizers, round and purpose."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from fedgrid.algorithms.contract.local_rule import Finished, LocalRule, LocalSteps
from fedgrid.algorithms.contract.orders import Adaptation, Order
from fedgrid.engine.federation.clients.messages import EvaluateTask, TrainTask
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.errors import RunError
from tests.engine.federation.clients.test_worker import initial, setup, training

SEEN = ("round", "adapts", "part", "left_out")


class Watch(LocalRule):
    """Sends what it sees: round, purpose, and the labels of a random half of the images."""

    outputs: ClassVar[tuple[str, ...]] = SEEN
    remembers: ClassVar[tuple[str, ...]] = ("labels", "never")
    share: float = 0.5
    batch: int | None = None

    def start(self, local):
        return _Watch(self)


class _Watch(LocalSteps):
    def __init__(self, rule):
        self.rule = rule

    def finish(self, local, num_steps):
        batches = local.batches(self.rule.share, self.rule.batch)
        labels = [labels.numpy() for _, labels in batches]
        assert [again.tolist() for _, again in batches] == [each.tolist() for each in labels]
        part = np.concatenate(labels)
        seen = np.array([local.round_index]), np.array([local.is_adapting]), part, np.array([num_steps])
        if local.is_adapting:
            LAST.append(part)
        return Finished(dict(zip(SEEN, seen, strict=True)), {"labels": part})


LAST: list[np.ndarray] = []
"""What the last adaptation saw; nothing of it is sent."""


def train(rule, client=1, round_index=0, memory=None, worker=None, steps=None, **changes):
    """Return the reply of one client."""
    worker = worker or ClientWorker(setup(training=training(**changes)))
    order = Order(client, (0,), rule=rule, steps=steps)
    return worker.train([TrainTask(order, round_index, False)], [initial()], {client: memory or {}})[0]


def test_a_part_is_images_in_a_row_and_the_same_in_the_next_test():
    worker = ClientWorker(setup())
    reply = train(Watch(), round_index=3, worker=worker)
    held = worker._holdings.load_training_set(1, 3).labels.numpy()
    part = reply.outputs["part"]
    assert len(part) == len(held) // 2
    assert any(np.array_equal(part, held[at : at + len(part)]) for at in range(len(held)))
    LAST.clear()
    adaptation = Adaptation(Watch())
    worker.evaluate([EvaluateTask(1, 0, adaptation, 2)], [initial()])
    assert np.array_equal(LAST.pop(), part), "a test after round 3 mixes what round 4 trains from"


def test_a_rule_knows_round_and_purpose_and_may_forget():
    reply = train(Watch(), round_index=2)
    assert [reply.outputs[name].item() for name in ("round", "adapts")] == [2, False]
    assert list(reply.memory) == ["labels"]


@pytest.mark.parametrize(("share", "batch"), [(0.0, None), (1.5, None), (0.5, 0)])
def test_an_impossible_part_is_refused(share, batch):
    with pytest.raises(RunError, match=r"local.batches\(share="):
        train(Watch(share=share, batch=batch))


def test_own_batches_leave_those_of_the_training_as_they_are():
    assert train(Watch()).update.tobytes() == train(LocalRule()).update.tobytes()


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_an_order_says_how_many_steps_its_client_takes(steps):
    reply = train(Watch(), steps=steps)
    assert reply.report.steps == steps
    assert reply.outputs["left_out"].item() == steps
    assert reply.update.any() == (steps > 0)


def test_a_client_that_only_answers_sends_no_byte_of_an_update():
    asked, trained = (train(Watch(), steps=steps) for steps in (0, None))
    assert trained.report.bytes_up - asked.report.bytes_up == initial().nbytes
    assert asked.report.usable


def test_steps_are_not_negative():
    with pytest.raises(ValueError, match="steps = -1"):
        Order(0, (0,), steps=-1)


class Twin(LocalRule):
    """Trains a second model beside the first one, on the same batches, by an optimizer of its own."""

    remembers: ClassVar[tuple[str, ...]] = ("twin",)
    rate: float | None = None

    def start(self, local):
        return _Twin(self, local)


class _Twin(LocalSteps):
    def __init__(self, rule, local):
        known = local.memory.get("twin")
        self.twin = local.weights.clone() if known is None else local.tensor(known)
        self.optimizer = local.optimizer("twin", rule.rate)

    def step(self, local, images, labels):
        own = local.weights.clone()
        local.weights.copy_(self.twin)
        gradient = local.gradient(local.loss(local.logits(images), labels)).clone()
        self.optimizer.descend(self.twin, gradient)
        local.weights.copy_(own)
        return local.step(images, labels, self)

    def finish(self, local, num_steps):
        return Finished(memory={"twin": local.vector(self.twin)})


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "adam", "learning_rate": 0.01},
        {"momentum": 0.9, "weight_decay": 0.01, "clip_gradient": 0.5},
        {"momentum": 0.9, "keep_optimizer_state": True},
    ],
)
def test_a_second_optimizer_takes_the_steps_of_the_first_over_two_rounds(changes):
    memory = {}
    for round_index in range(2):
        reply = train(Twin(), round_index=round_index, memory=memory, **changes)
        memory = reply.memory
        if round_index == 0:
            assert reply.update.tobytes() == (memory["twin"] - initial()).tobytes()
    kept = [name for name in memory if name.startswith("optimizer")]
    assert kept == (["optimizer", "optimizer/twin"] if "keep_optimizer_state" in changes else [])
    if kept:
        assert not np.array_equal(memory["optimizer"], memory["optimizer/twin"]), "the twin has gone on"


def test_a_second_optimizer_may_have_a_rate_of_its_own():
    plain, twice = (train(Twin(rate=rate), batch_size=100, local_epochs=1) for rate in (None, 0.2))
    moved = [reply.memory["twin"] - initial() for reply in (plain, twice)]
    np.testing.assert_allclose(2 * moved[0], moved[1], rtol=1e-5, atol=1e-7)


def test_the_layout_at_the_client_is_the_servers():
    worker = ClientWorker(setup())
    layout = worker._flat.layout
    assert layout.size == len(initial())
    assert layout.head_layers
    assert replace(layout, norm_layers=()) == layout, "this model has no BatchNorm"
