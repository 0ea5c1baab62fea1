"""The contract between server and clients, on toy algorithms and real workers.

Choices, orders, payloads, outputs, messages, served models and traffic, in this process and with Ray.
"""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from fedgrid.algorithms.contract.local_rule import LocalRule, LocalSteps
from fedgrid.algorithms.contract.orders import Order
from fedgrid.algorithms.fedopt import FedOpt, FedOptSettings
from fedgrid.engine.clients.messages import ClientData, Setup, TrainTask
from fedgrid.engine.clients.participation import Participation
from fedgrid.engine.clients.pool import InProcessPool
from fedgrid.engine.clients.worker import ClientWorker
from fedgrid.engine.data.images import ImageSet
from fedgrid.engine.errors import RunError
from fedgrid.engine.federation import Federation
from fedgrid.engine.models.flat_vectors import layout_of
from fedgrid.engine.models.initialisation import blank, initial_vector
from fedgrid.engine.training.settings import LocalTraining

CLIENTS, CLASSES, SEED, SHAPE = 4, 3, 11, (1, 8, 8)
LAYOUT = layout_of(blank("digitnet", SHAPE, CLASSES))
MODEL_BYTES = 4 * LAYOUT.size


def image_set(seed, num_images, label=None):
    """Return random images, of one class if `label` is given."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (num_images, *SHAPE)).astype(np.uint8)
    labels = rng.integers(0, CLASSES, num_images) if label is None else np.full(num_images, label)
    return ImageSet(images, labels)


def setup(**changes):
    """Four clients of nine images each; the server has ten to test on."""
    clients = tuple(
        ClientData(client, image_set(client, 9), image_set(100 + client, 4)) for client in range(4)
    )
    parts = {0: slice(0, 3), 1: slice(3, 6), 2: slice(6, 8), 3: slice(8, 10)}
    local = LocalTraining(local_epochs=1, batch_size=4, optimizer="sgd", learning_rate=0.1)
    return replace(Setup("digitnet", CLASSES, local, SEED, clients, image_set(1000, 10), parts), **changes)


def fresh(number):
    vector = initial_vector("digitnet", SHAPE, CLASSES, SEED, number)
    vector.setflags(write=False)
    return vector


def federation(algorithm, rounds=3, participation=None):
    return Federation(
        algorithm=algorithm,
        layout=LAYOUT,
        seed=SEED,
        rounds=rounds,
        evaluate_every=1,
        truth_K=np.zeros(CLIENTS, np.int64),
        participation=participation or Participation(CLIENTS, SEED),
        train_images_K=[9] * CLIENTS,
        test_images_K=[4] * CLIENTS,
    )


def play(run, pool, rounds):
    """Return (progress, record) after each round."""
    progress, history = run.begin(fresh), []
    for _ in range(rounds):
        progress, record = run.next_round(progress, pool)
        history.append((progress, record))
    return history


def in_process(**changes):
    pool = InProcessPool()
    pool.prepare(setup(**changes))
    return pool


def column(record, name):
    return [row[name] for row in record.clients]


class Toy(FedOpt):
    """FedOpt with default settings."""

    def __init__(self):
        super().__init__(FedOptSettings())


class Look(LocalRule):
    """Notes the pixel values of each batch of images of one value."""

    batches: ClassVar[list[list[int]]] = []

    def start(self, local):
        return _Look()


class _Look(LocalSteps):
    def step(self, local, images, labels):
        Look.batches.append((images.mean(dim=(1, 2, 3)) * 255).round().int().tolist())
        return super().step(local, images, labels)


class TestChooseOn:
    """A client chooses between a model for class 0 and one for class 1."""

    @staticmethod
    def constant(label):
        """Return a model that predicts a class whatever the image: all weights 0, one bias of 9."""
        vector = np.zeros(LAYOUT.size, np.float32)
        bias = list(LAYOUT.slices())[-1][1]
        assert bias.stop - bias.start == CLASSES
        vector[bias][label] = 9
        return vector

    def chosen(self, choose_on, train, candidates=(0, 1), round_index=0, reference=None):
        data = ClientData(0, train, image_set(100, 4))
        worker = ClientWorker(setup(clients=(data,), reference_set=reference))
        order = Order(0, candidates, choose_on=choose_on)
        models = [self.constant(0), self.constant(1)]
        (reply,) = worker.train([TrainTask(order, round_index, evaluate=False)], models, {})
        return reply.report.chosen

    @pytest.mark.parametrize("label", [0, 1])
    @pytest.mark.parametrize("candidates", [(0, 1), (1, 0)])
    def test_train_takes_the_clients_training_images(self, label, candidates):
        train, reference = image_set(1, 9, label), image_set(2, 9, 1 - label)
        assert self.chosen("train", train, candidates, reference=reference) == label

    @pytest.mark.parametrize("label", [0, 1])
    def test_reference_takes_the_servers_reference_images(self, label):
        train, reference = image_set(1, 9, 1 - label), image_set(2, 9, label)
        assert self.chosen("reference", train, reference=reference) == label

    def test_batch_takes_the_images_that_are_trained_on_first(self):
        """Nine images in batches of four: those of the first batch are of one class, the others of another."""
        for round_index in (0, 1):
            Look.batches.clear()
            numbered = np.broadcast_to(np.arange(9, dtype=np.uint8)[:, None, None, None], (9, *SHAPE)).copy()
            train = ImageSet(numbered, np.zeros(9, np.int64))
            worker = ClientWorker(setup(clients=(ClientData(0, train, train),)))
            task = TrainTask(Order(0, (0,), rule=Look()), round_index, evaluate=False)
            worker.train([task], [fresh(0)], {})
            first = Look.batches[0]
            for label in (0, 1):
                labels = np.array([label if image in first else 1 - label for image in range(9)])
                mixed = ImageSet(numbered, labels)
                assert self.chosen("batch", mixed, round_index=round_index) == label
                assert self.chosen("train", mixed, round_index=round_index) == 1 - label, "five of nine"

    def test_reference_without_such_images_is_refused_by_key(self):
        with pytest.raises(RunError, match=r"^client 0, round 1: .*split\.reference_images"):
            self.chosen("reference", image_set(1, 9, 0))

    def test_a_single_candidate_needs_no_reference_images(self):
        assert self.chosen("reference", image_set(1, 9, 0), candidates=(1,)) == 1


class TestOrders:
    class Picky(Toy):
        """Gives orders to the clients that `pick` returns for a round's presence."""

        def __init__(self, pick):
            super().__init__()
            self.pick, self.seen = pick, []

        def orders(self, state, round_index, present, rng):
            self.seen.append((present, rng.integers(2**63)))
            return [Order(client, (0,)) for client in self.pick(present, round_index)]

    def test_a_subset_trains_and_nobody_else_is_asked(self):
        algorithm = self.Picky(lambda present, _: (3, 1))
        [(_, record)] = play(federation(algorithm), in_process(), 1)
        assert column(record, "part") == ["not asked", "trained", "not asked", "trained"]
        assert record.round["bytes_down"] == record.round["bytes_up"] == 2 * MODEL_BYTES
        assert record.timing["reached_clients"] == 2

    def test_all_that_have_joined_may_train_whoever_was_sampled(self):
        algorithm = self.Picky(lambda present, _: present.joined)
        told = Participation(CLIENTS, SEED, participation=0.5, joins={3: 2})
        history = play(federation(algorithm, participation=told), in_process(), 2)
        assert [len(present.sampled) for present, _ in algorithm.seen] == [2, 2]
        assert {present.participation for present, _ in algorithm.seen} == {0.5}
        assert column(history[0][1], "part") == ["trained"] * 3 + ["not joined"]
        assert column(history[1][1], "part") == ["trained"] * 4

    def test_no_orders_at_all_change_nothing_and_warn(self):
        algorithm = self.Picky(lambda present, round_index: present.joined if round_index else ())
        history = play(federation(algorithm), in_process(), 2)
        (first, record), (second, _) = history
        assert first.state.models[0].tolist() == fresh(0).tolist()
        assert column(record, "part") == ["not asked"] * 4
        assert [value.tobytes() for value in sent].count(shift.tobytes()) == 2, "once a round"
        for (progress, record), (other, again) in zip(expected, found, strict=True):
            assert other.state.models[0].tobytes() == progress.state.models[0].tobytes()
            assert {name: array.tobytes() for name, array in other.state.arrays.items()} == {
                name: array.tobytes() for name, array in progress.state.arrays.items()
            }
            assert {
                client: {name: array.tobytes() for name, array in memory.items()}
                for client, memory in other.memories.items()
            } == {
                client: {name: array.tobytes() for name, array in memory.items()}
                for client, memory in progress.memories.items()
            }
            assert again.round == record.round
            assert repr(again.clients) == repr(record.clients)


class TestWeightsOfMeans:
    def test_reports_of_images_and_steps_reach_the_algorithm(self):
        """Nine images in batches of four are three steps."""
        seen = []

        class Watch(Toy):
            def step(self, state, round_index, updates, rng):
                seen.append((updates.images, updates.steps))
                return super().step(state, round_index, updates, rng)

        play(federation(Watch()), in_process(), 1)
        assert seen == [(dict.fromkeys(range(4), 9), dict.fromkeys(range(4), 3))]
