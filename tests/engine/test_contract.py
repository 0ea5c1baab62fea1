"""The contract between server and clients, on toy algorithms and real workers.

Choices, orders, payloads, outputs, messages, served models and traffic, in this process and with Ray.
"""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import ray
import torch

from fedgrid.algorithms.averaging.fedopt import FedOpt, FedOptSettings
from fedgrid.algorithms.contract.local_rule import Finished, LocalRule, LocalSteps
from fedgrid.algorithms.contract.orders import (
    PREDICTIONS,
    Adaptation,
    Message,
    Order,
    Served,
    Traffic,
)
from fedgrid.algorithms.registry import create_algorithm
from fedgrid.engine.federation.clients.messages import ClientData, EvaluateTask, TrainTask
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import build_blank, draw_initial_vector, read_layout
from fedgrid.engine.federation.round.federation import Federation
from fedgrid.engine.federation.round.next_round import next_round
from fedgrid.engine.federation.round.participation import Participation
from fedgrid.engine.federation.training import evaluation
from fedgrid.engine.federation.training.settings import Evaluation
from fedgrid.engine.federation.uplink.steps import Clip
from fedgrid.engine.runtime.clients import ray_pool
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from tests.engine.federation.clients import test_worker as worker_tests
from tests.engine.federation.clients.test_worker import CLASSES, SEED, SHAPE, image_set
from tests.helpers.client_actors import start_client_actors
from tests.helpers.small_cases import has_same_bits

CLIENTS = len(worker_tests.CLIENTS)
LAYOUT = read_layout(build_blank("digitnet", image_inputs(*SHAPE), CLASSES))
MODEL_BYTES = 4 * LAYOUT.size


def images_of_class(seed, num_images, label):
    return replace(image_set(seed, num_images), labels=np.full(num_images, label))


def setup(**changes):
    """Four clients of nine images each, which train for an epoch; the server has ten to test on."""
    return worker_tests.setup(**{"training": worker_tests.training(local_epochs=1), **changes})


def fresh(number):
    vector = draw_initial_vector("digitnet", image_inputs(*SHAPE), CLASSES, SEED, number)
    vector.setflags(write=False)
    return vector


def federation(algorithm, rounds=3, participation=None):
    return Federation(
        algorithm=algorithm,
        layout=LAYOUT,
        seed=SEED,
        rounds=rounds,
        evaluation=Evaluation(local_server=True),
        truth_K=np.zeros(CLIENTS, np.int64),
        participation=participation or Participation(CLIENTS, SEED),
        train_images_K=[9] * CLIENTS,
        test_images_K=[4] * CLIENTS,
    )


def play(run, pool, rounds):
    """Return (progress, record) after each round."""
    progress, history = run.create_first_state(fresh), []
    for _ in range(rounds):
        progress, record = next_round(run, progress, pool)
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

    def chosen(self, order, train, test=None, models=None, round_index=0, reference=None):
        """Return the candidate of an order that a client with these images takes."""
        data = ClientData(0, train, test or image_set(100, 4))
        worker = ClientWorker(setup(clients=(data,), reference_set=reference))
        models = models or [self.constant(0), self.constant(1)]
        (reply,) = worker.train([TrainTask(order, round_index, evaluate=False)], models, {})
        return reply.report.chosen

    @pytest.mark.parametrize("label", [0, 1])
    @pytest.mark.parametrize("choose_on", ["train", "reference", "test"])
    def test_images_that_are_named_choose(self, choose_on, label):
        """They are of one class, all others of the other one."""
        sets = {
            name: images_of_class(seed, 9, label if name == choose_on else 1 - label)
            for seed, name in enumerate(("train", "reference", "test"))
        }
        for candidates in ((0, 1), (1, 0)):
            assert self.chosen(Order(0, candidates, choose_on=choose_on), **sets) == label

    def test_batch_takes_the_images_that_are_trained_on_first(self):
        """Nine images in batches of four: those of the first batch are of one class, the rest of another."""
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
                on_batch, on_train = (
                    self.chosen(Order(0, (0, 1), choose_on=each), mixed, round_index=round_index)
                    for each in ("batch", "train")
                )
                assert on_batch == label
                assert on_train == 1 - label, "five of nine"

    def test_reference_without_such_images_is_refused_by_key_if_there_is_a_choice(self):
        train = image_set(1, 9)
        with pytest.raises(RunError, match=r"^client 0, round 1: .*split\.reference_images"):
            self.chosen(Order(0, (0, 1), choose_on="reference"), train)
        assert self.chosen(Order(0, (1,), choose_on="reference"), train) == 1

    def test_accuracy_may_prefer_another_model_than_loss_and_ties_go_to_the_first(self):
        """Two images of class 0 and one of class 1: a model for 0 is right twice, but sure of being so.

        Its loss is 9 for the third image, a model that knows nothing has log 3 for each and is right twice
        too: all its outputs are equal, and the first class is taken.
        """
        train = replace(image_set(1, 3), labels=np.array([0, 0, 1]))
        models = [np.zeros(LAYOUT.size, np.float32), self.constant(0), self.constant(1)]
        for by, candidates, expected in (
            ("accuracy", (2, 1), 1),
            ("accuracy", (2, 0, 1), 0),
            ("accuracy", (1, 0), 1),
            ("loss", (1, 0), 0),
        ):
            assert self.chosen(Order(0, candidates, choose_by=by), train, models=models) == expected


class TestInference:
    """The server's predictions with the models that it receives."""

    REFERENCE = image_set(5, 130)

    def replies(self, uplink=()):
        """Return a client's reply with inference and without."""
        worker = ClientWorker(setup(reference_set=self.REFERENCE, uplink=uplink))
        task = TrainTask(Order(0, (0,), infer=True), 0, evaluate=False)
        return worker.train([task], [fresh(0)], {})[0], worker.train(
            [replace(task, order=Order(0, (0,)))], [fresh(0)], {}
        )[0]

    def test_they_are_class_probabilities_of_each_reference_image(self):
        inferred, plain = self.replies()
        predictions = inferred.outputs[PREDICTIONS]
        assert predictions.shape == (130, CLASSES)
        assert predictions.dtype == np.float32
        np.testing.assert_allclose(predictions.sum(axis=1), 1, rtol=1e-5)
        assert inferred.update.tobytes() == plain.update.tobytes(), "training is as without"
        assert plain.outputs == {}

    def test_they_are_of_what_was_sent_and_not_of_what_was_trained(self):
        """An update clipped to nothing: the model that the server has is the one it sent."""
        clipped, _ = self.replies(uplink=(Clip(clip=1e-12),))
        worker = ClientWorker(setup(reference_set=self.REFERENCE))
        worker._flat.write_vector(fresh(0))
        expected = evaluation.predict_probabilities(
            worker._flat.module, evaluation.convert_to_inputs(torch.from_numpy(self.REFERENCE.images))
        )
        np.testing.assert_allclose(clipped.outputs[PREDICTIONS], expected, rtol=1e-4)

    def test_they_are_not_sent(self):
        inferred, plain = self.replies()
        assert inferred.report.bytes_up == plain.report.bytes_up == MODEL_BYTES


class TestServedChoice:
    """Clients that choose the model that they are tested with, out of one for class 0 and one for class 1."""

    def records(self, choosing, **how):
        class Choosy(Toy):
            def served(self, state, layout):
                models = TestChooseOn.constant(0), TestChooseOn.constant(1)
                return Served(models, np.zeros(CLIENTS, np.int64), choosing=frozenset(choosing), **how)

        clients = tuple(
            ClientData(
                client,
                images_of_class(client, 9, client % 2),
                images_of_class(100 + client, 4, 1 - client % 2),
            )
            for client in range(CLIENTS)
        )
        [(_, record)] = play(federation(Choosy()), in_process(clients=clients), 1)
        return record

    def test_it_is_the_one_with_the_least_loss_on_the_training_images(self):
        """All test images are of the other class, so that nobody who chooses is right."""
        record = self.records(choosing=(1, 2, 3))
        assert column(record, "personalised_accuracy") == [0, 0, 0, 0]
        server = column(record, "generalised_loss")
        assert server[0] == server[2] != server[1] == server[3], "of the chosen model"

    def test_on_test_images_the_choice_has_seen_what_it_is_scored_on(self):
        record = self.records(choosing=range(CLIENTS), choose_on="test")
        assert column(record, "personalised_accuracy") == [1, 1, 1, 1]

    def test_without_a_choice_the_model_is_the_one_that_the_server_says(self):
        record = self.records(choosing=())
        assert column(record, "personalised_accuracy") == [0, 1, 0, 1]


class TestOrders:
    class Picky(Toy):
        """Gives orders to the clients that `pick` returns for a round's presence."""

        def __init__(self, pick):
            super().__init__()
            vars(self).update(pick=pick, seen=[])

        def orders(self, state, round_index, present, layout, rng):
            self.seen.append(present)
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
        assert [len(present.sampled) for present in algorithm.seen] == [2, 2]
        assert {present.participation for present in algorithm.seen} == {0.5}
        assert column(history[0][1], "part") == ["trained"] * 3 + ["not joined"]
        assert column(history[1][1], "part") == ["trained"] * 4

    def test_no_orders_at_all_change_nothing_and_warn(self):
        algorithm = self.Picky(lambda present, round_index: present.joined if round_index else ())
        history = play(federation(algorithm), in_process(), 2)
        (first, record), (second, _) = history
        assert first.state.models[0].tolist() == fresh(0).tolist()
        assert column(record, "part") == ["not asked"] * 4
        assert len(record.warnings) == 1
        assert record.round["bytes_down"] == record.round["bytes_up"] == 0
        assert second.state.models[0].tolist() != fresh(0).tolist()

    @pytest.mark.parametrize(
        "pick", [lambda present, _: (1, 1), lambda present, _: (3,)], ids=["twice", "not joined"]
    )
    def test_two_orders_for_a_client_or_one_before_it_has_joined_is_an_error(self, pick):
        told = Participation(CLIENTS, SEED, joins={3: 2})
        with pytest.raises(RunError, match=r"^round 1: Picky.orders returned . orders for client [13]"):
            play(federation(self.Picky(pick), participation=told), in_process(), 1)


class ShiftRule(LocalRule):
    """Adds the array `shift`, shape (W,), to the weights at the start, and remembers how often it did."""

    outputs: ClassVar[tuple[str, ...]] = ("seen", "visits")
    remembers: ClassVar[tuple[str, ...]] = ("visits",)

    def start(self, local):
        local.weights.add_(local.tensor(local.payload["shift"]))
        return _Shifted(local)


class _Shifted(LocalSteps):
    def __init__(self, local):
        self._visits = local.memory.get("visits", np.zeros(1, np.float32)) + 1

    def finish(self, local, num_steps):
        return Finished(
            {"seen": local.payload["shift"][:3] * 2, "visits": self._visits}, {"visits": self._visits}
        )


class TestServed:
    """Models other than the partition's."""

    class Personal(Toy):
        """One cluster, but clients 2 and 3 are served a model of zeros."""

        adaptation: ClassVar[Adaptation | None] = None

        def served(self, state, layout):
            zeros = np.zeros(LAYOUT.size, np.float32)
            return Served((state.models[0], zeros), np.array([0, 0, 1, 1]), self.adaptation)

    def test_tests_are_of_the_served_model_and_scores_of_the_partition(self):
        """A model of zeros has a loss of log 3 an image."""
        (_, plain), (_, record) = (
            play(federation(each), in_process(), 1)[0] for each in (Toy(), self.Personal())
        )
        assert column(record, "cluster") == [0] * 4
        assert record.round["clusters"] == 1
        for name in ("personalised_loss", "generalised_loss"):
            assert column(record, name)[:2] == column(plain, name)[:2]
            assert column(record, name)[2:] == pytest.approx([np.log(3)] * 2, rel=1e-6)

    def test_adapted_models_are_tested_on_the_own_set_and_unadapted_ones_on_the_servers(self):
        class Adapting(self.Personal):
            adaptation = Adaptation(steps=2)

        pool = in_process()
        [(progress, record)] = play(federation(Adapting()), pool, 1)
        [(_, plain)] = play(federation(self.Personal()), in_process(), 1)
        assert column(record, "generalised_loss") == column(plain, "generalised_loss")
        assert all(np.not_equal(column(record, "personalised_loss"), column(plain, "personalised_loss")))
        models = (progress.state.models[0], np.zeros(LAYOUT.size, np.float32))
        task = EvaluateTask(2, 1, Adaptation(steps=2), 0)
        (report,) = pool.evaluate([task], models, {})
        assert report.own.loss_sum / 4 == column(record, "personalised_loss")[2]

    def test_without_steps_the_rules_start_alone_is_applied(self):
        """A shift of zero weights by the model gives the model, tested on the same images."""
        [(progress, _)] = play(federation(Toy()), in_process(), 1)
        model = progress.state.models[0]
        assert LAYOUT.size == LAYOUT.num_parameters
        adaptation = Adaptation(ShiftRule(), 0, {"shift": model})
        tasks = [EvaluateTask(1, 0, adaptation, 0), EvaluateTask(2, 1, None, 0)]
        zeros = np.zeros_like(model)
        shifted, _ = in_process().evaluate(tasks, [zeros, model], {})
        (plain,) = in_process().evaluate([EvaluateTask(1, 0)], [model], {})
        assert shifted.own.loss_sum == plain.own.loss_sum
        assert shifted.server[0].loss_sum == pytest.approx(3 * np.log(3), rel=1e-6), "not adapted"

    def test_an_adapting_rule_sees_the_clients_memory_after_the_round(self):
        seen = []

        class Remember(LocalRule):
            remembers: ClassVar[tuple[str, ...]] = ("mark",)

            def start(self, local):
                return _Remember(seen, local)

        class _Remember(LocalSteps):
            def __init__(self, seen, local):
                self._value = local.memory.get("mark", np.zeros(1, np.float32))
                seen.append(float(self._value[0]))

            def finish(self, local, num_steps):
                return Finished({}, {"mark": self._value + 1})

        class Marked(Toy):
            def orders(self, state, round_index, present, layout, rng):
                return [Order(client, (0,), rule=Remember()) for client in present.joined]

            def served(self, state, layout):
                return Served(state.models, np.zeros(CLIENTS, np.int64), Adaptation(Remember(), 0))

        play(federation(Marked()), in_process(), 2)
        assert seen == [0] * 4 + [1] * 4 + [1] * 4 + [2] * 4, "trained with, then tested with, by round"


class ClassCounts(Message):
    """How many images of each class a client has; and a random number."""

    def describe(self, images, labels, num_classes, rng):
        counts = np.bincount(labels.cpu().numpy(), minlength=num_classes)
        return {"counts_L": counts.astype(np.int64), "draw": np.array([rng.random()], np.float32)}


class Meeting(Toy):
    """Keeps the messages in its state, and notes who was met when."""

    def __init__(self):
        super().__init__()
        vars(self).update(met=[])

    def message(self):
        return ClassCounts()

    def meet(self, state, messages, layout, rng):
        self.met.append(sorted(messages))
        assert layout == LAYOUT
        return state.keep(**{f"counts_{client}": said["counts_L"] for client, said in messages.items()})


class TestMessages:
    """Client 1 joins in round 2, client 3 in round 3."""

    TOLD = Participation(CLIENTS, SEED, joins={1: 2, 3: 3})
    MESSAGE_BYTES = 3 * 8 + 4

    def test_each_client_is_met_once_before_its_first_round(self):
        algorithm = Meeting()
        history = play(federation(algorithm, participation=self.TOLD), in_process(), 3)
        assert algorithm.met == [[0, 2], [1], [3]]
        for client, data in enumerate(setup().clients):
            expected = np.bincount(data.train.labels, minlength=CLASSES).tolist()
            assert history[-1][0].state.arrays[f"counts_{client}"].tolist() == expected
        assert "counts_3" not in history[1][0].state.arrays

    def test_their_bytes_are_part_of_the_traffic(self):
        history = play(federation(Meeting(), participation=self.TOLD), in_process(), 3)
        up = [record.round["bytes_up"] for _, record in history]
        trained = [column(record, "part").count("trained") for _, record in history]
        assert trained == [2, 3, 4]
        assert up == [
            count * MODEL_BYTES + met * self.MESSAGE_BYTES
            for count, met in zip(trained, (2, 1, 1), strict=True)
        ]

    def test_after_a_resume_only_newcomers_are_met(self):
        history = play(federation(Meeting(), participation=self.TOLD), in_process(), 3)
        again = Meeting()
        progress, record = next_round(federation(again, participation=self.TOLD), history[1][0], in_process())
        assert again.met == [[3]]
        assert progress.state.models[0].tobytes() == history[2][0].state.models[0].tobytes()
        assert record.round == history[2][1].round

    def test_a_failing_message_names_the_client(self):
        class Failing(Message):
            def describe(self, images, labels, num_classes, rng):
                raise ZeroDivisionError("no images")

        with pytest.raises(RunError, match="^client 2, .*ZeroDivisionError: no images"):
            in_process().describe([2], Failing())


class TestTraffic:
    def test_an_algorithm_may_declare_its_own(self):
        """Half a model down for each order, one byte up from client 1, what was measured from the others."""

        class Cheap(Toy):
            def traffic(self, order, layout):
                return Traffic(down=2 * layout.size, up=1 if order.client == 1 else None)

        [(_, record)] = play(federation(Cheap()), in_process(), 1)
        assert record.round["bytes_down"] == 4 * MODEL_BYTES // 2
        assert record.round["bytes_up"] == 3 * MODEL_BYTES + 1

    def test_by_default_payload_goes_down_and_outputs_come_up(self):
        """A payload of W float32, outputs of three and of one."""
        [(_, record)] = play(federation(Shifting()), in_process(), 1)
        assert record.round["bytes_down"] == 4 * (MODEL_BYTES + 4 * LAYOUT.num_parameters)
        assert record.round["bytes_up"] == 4 * (MODEL_BYTES + 12 + 4)


class Shifting(Toy):
    """Sends one shift to all clients and keeps what comes back with the updates."""

    def init(self, layout, num_clients, fresh, rng):
        state = super().init(layout, num_clients, fresh, rng)
        return state.keep(shift=rng.normal(0, 0.01, layout.num_parameters).astype(np.float32))

    def orders(self, state, round_index, present, layout, rng):
        payload = {"shift": state.arrays["shift"]}
        return [Order(client, (0,), rule=ShiftRule(), payload=payload) for client in present.joined]

    def step(self, state, round_index, updates, rng):
        state, diagnostics = super().step(state, round_index, updates, rng)
        [seen] = updates.means([updates.clients], output="seen")
        return state.keep(seen=seen, visits=np.stack(updates.outputs("visits"))), diagnostics


class TestPayloadAndOutputs:
    def test_arrays_reach_the_clients_and_outputs_the_server(self):
        [(first, _), (second, _)] = play(federation(Shifting()), in_process(), 2)
        arrays = second.state.arrays
        assert arrays["seen"] == pytest.approx(2 * arrays["shift"][:3])
        assert first.state.arrays["visits"].tolist() == [[1]] * 4
        assert arrays["visits"].tolist() == [[2]] * 4, "counted in the clients' memories"
        assert {name for memory in second.memories.values() for name in memory} == {"visits"}

    @pytest.mark.ray
    def test_with_client_actors_the_bits_are_the_same_and_a_shared_array_is_sent_once(
        self, ray_session, monkeypatch
    ):
        """Two actors of two clients; the algorithm also asks for messages and adapts the models it serves."""

        class Everything(Shifting, Meeting):
            def orders(self, state, round_index, present, layout, rng):
                given = super().orders(state, round_index, present, layout, rng)
                return [replace(order, infer=True) for order in given]

            def step(self, state, round_index, updates, rng):
                state, diagnostics = super().step(state, round_index, updates, rng)
                return state.keep(predictions=np.stack(updates.outputs(PREDICTIONS))), diagnostics

            def served(self, state, layout):
                adaptation = Adaptation(ShiftRule(), 1, {"shift": state.arrays["shift"]})
                models = *state.models, fresh(1)
                return Served(models, np.zeros(CLIENTS, np.int64), adaptation, frozenset({1, 3}))

        reference = image_set(5, 7)
        expected = play(federation(Everything()), in_process(reference_set=reference), 2)
        with start_client_actors(2) as pool:
            pool.prepare(setup(reference_set=reference))
            sent, put = [], ray.put
            monkeypatch.setattr(ray_pool.ray, "put", lambda value: sent.append(value) or put(value))
            found = play(federation(Everything()), pool, 2)
        shift = expected[0][0].state.arrays["shift"]
        assert [value.tobytes() for value in sent].count(shift.tobytes()) == 2, "once a round"
        for (progress, record), (other, again) in zip(expected, found, strict=True):
            assert has_same_bits(other.state, progress.state)
            assert repr(other.memories) == repr(progress.memories)
            assert again.round == record.round
            assert repr(again.clients) == repr(record.clients)


def test_solo_trains_each_client_as_if_there_were_no_other():
    """To the bit: a loop over the rounds of one worker that holds one client, without a federation."""
    [*_, (progress, _)] = play(federation(create_algorithm("solo")), in_process(), 3)
    for data in setup().clients:
        worker, model = ClientWorker(setup(clients=(data,))), fresh(0)
        for round_index in range(3):
            task = TrainTask(Order(data.client, (0,)), round_index, evaluate=False)
            [reply] = worker.train([task], [model], {})
            model = model + reply.update
        assert progress.state.models[data.client].tobytes() == model.tobytes()
