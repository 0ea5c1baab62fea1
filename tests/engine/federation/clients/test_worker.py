from dataclasses import replace
from math import sqrt
from zlib import crc32

import numpy as np
import pytest
import torch

from fedgrid.algorithms.averaging.fedprox import ProximalRule
from fedgrid.algorithms.contract.local_rule import LocalRule, LocalSteps
from fedgrid.algorithms.contract.orders import Adaptation, Order
from fedgrid.engine.federation.clients import worker as worker_module
from fedgrid.engine.federation.clients.messages import ClientData, EvaluateTask, Setup, TrainTask
from fedgrid.engine.federation.clients.process import PeakMemory
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import draw_initial_vector
from fedgrid.engine.federation.training import local
from fedgrid.engine.federation.training.settings import Training
from fedgrid.engine.runtime.clients.gpu_errors import is_out_of_memory
from fedgrid.engine.runtime.run.served_models import ServingWorker

SHAPE, CLASSES, SEED = (1, 8, 8), 3, 11


def image_set(seed, num_images):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (num_images, *SHAPE)).astype(np.uint8)
    return ImageSet(images, rng.integers(0, CLASSES, num_images))


CLIENTS = [ClientData(client, image_set(client, 9), image_set(100 + client, 4)) for client in range(4)]
SERVER = image_set(1000, 10)
PARTS = {0: slice(0, 3), 1: slice(3, 6), 2: slice(6, 8), 3: slice(8, 10)}


def training(**changes):
    settings = {"rounds": 1, "local_epochs": 2, "batch_size": 4, "optimizer": "sgd", "learning_rate": 0.1}
    return Training(**{**settings, **changes}).local


def setup(clients=CLIENTS, server_parts=PARTS, **changes):
    base = Setup("digitnet", CLASSES, training(), SEED, tuple(clients), SERVER, server_parts)
    return replace(base, **changes)


def host(clients=CLIENTS, model="digitnet", seed=SEED, **changes):
    return ClientWorker(setup(clients, PARTS, model=model, seed=seed, training=training(**changes)))


def initial(model="digitnet", seed=SEED):
    vector = draw_initial_vector(model, image_inputs(*SHAPE), CLASSES, seed)
    vector.setflags(write=False)
    return vector


def task(client, candidates=(0,), round_index=0, evaluate=False, local_server=False):
    return TrainTask(Order(client, candidates), round_index, evaluate, local_server)


def comparable(result):
    """Return all of a result but the clock reading."""
    report, memory = result.report, result.memory
    counts = [
        None if c is None else (c.confusion.tolist(), c.loss_sum) for c in (report.local, report.local_server)
    ]
    numbers = replace(
        report, seconds=0.0, epoch_seconds=0.0, peak_memory=PeakMemory("", 0.0), local=None, local_server=None
    )
    kept = {name: array.tobytes() for name, array in memory.items()}
    return numbers, counts, result.update.tobytes(), kept


@pytest.mark.parametrize(
    ("model", "precision"), [("digitnet", "float32"), ("tinyvgg", "float32"), ("tinyvgg", "bfloat16")]
)
def test_one_worker_of_four_clients_gives_the_bits_of_four_workers_of_one(model, precision):
    models = [initial(model)]
    tasks = [task(client, evaluate=True) for client in range(4)]
    options = {"momentum": 0.9, "keep_optimizer_state": True, "precision": precision}
    together = host(model=model, **options).train(tasks, models, {})
    apart = [
        host([CLIENTS[client]], model, **options).train([tasks[client]], models, {})[0]
        for client in (3, 1, 0, 2)
    ]
    assert [comparable(result) for result in together] == [comparable(apart[i]) for i in (2, 1, 3, 0)]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_stacked_clients_give_the_same_bits_in_any_worker_and_nearly_those_of_one_by_one(precision):
    """Three slots: clients 0, 1 and 2, then client 3; the second time each is the only one of its worker."""
    models, options = [initial(), initial(seed=12)], {"momentum": 0.9, "keep_optimizer_state": True}
    tasks = [replace(task(client, (client % 2,), evaluate=True), local_server=True) for client in range(4)]
    tasks[1] = replace(tasks[1], untrained=True)
    stacked = host(stacked=3, precision=precision, **options).train(tasks[::-1], models, {})[::-1]
    apart = [
        host([CLIENTS[client]], stacked=3, precision=precision, **options).train([each], models, {})[0]
        for client, each in enumerate(tasks)
    ]
    assert [comparable(reply) for reply in stacked] == [comparable(reply) for reply in apart]
    tolerance = 1e-6 if precision == "float32" else 0.01
    one_by_one = host(precision=precision, **options).train(tasks, models, {})
    for reply, alone in zip(stacked, one_by_one, strict=True):
        np.testing.assert_allclose(reply.update, alone.update, atol=tolerance)
        np.testing.assert_allclose(reply.memory["optimizer"], alone.memory["optimizer"], atol=20 * tolerance)
        assert (reply.report.steps, reply.report.images) == (alone.report.steps, alone.report.images)
        for test in ("local", "local_server"):
            found, expected = getattr(reply.report, test), getattr(alone.report, test)
            assert found.loss_sum == pytest.approx(expected.loss_sum, rel=max(tolerance, 1e-3))


def test_stacked_client_with_a_rule_is_refused():
    order = Order(0, (0,), rule=ProximalRule(mu=0.1))
    with pytest.raises(RunError, match=r"client 0, round 1: training.stacked = 2: .*set training.stacked=1"):
        host(stacked=2).train([TrainTask(order, 0, evaluate=False)], [initial()], {})


@pytest.mark.parametrize("stacked", [1, 2])
def test_error_of_a_client_has_what_torch_raised_among_its_causes(stacked, monkeypatch):
    """By which an actor on a GPU names the setting that gives it more memory."""

    def no_memory(*given, **options):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    worker = host(stacked=stacked)
    monkeypatch.setattr("fedgrid.engine.federation.clients.workspace.train_together", no_memory)
    monkeypatch.setattr(local, "train_client", no_memory)
    with pytest.raises(RunError, match="client 0, round 1: OutOfMemoryError: CUDA out of memory") as caught:
        worker.train([task(0)], [initial()], {})
    assert is_out_of_memory(caught.value)
    adapted = EvaluateTask(0, 0, Adaptation(ProximalRule(mu=0.1), 1))
    with pytest.raises(RunError) as caught:
        worker.evaluate([adapted], [initial()])
    assert is_out_of_memory(caught.value)


def test_client_without_a_part_of_the_servers_images_tests_none():
    """As in a federation of thousands; the images of all parts are still the whole set."""
    tasks = [EvaluateTask(client, client % 2) for client in range(4)]
    models = [initial(), initial(seed=1)]
    reports = ClientWorker(setup(server_parts={1: slice(10)})).evaluate(tasks, models)
    assert [len(report.server) for report in reports] == [0, 2, 0, 0]
    assert [counts.confusion.sum() for counts in reports[1].server] == [10, 10]
    tiled = host().evaluate(tasks, models)
    assert [report.own.loss_sum for report in reports] == [report.own.loss_sum for report in tiled]


def test_clients_and_rounds_see_different_batches():
    """With the same images, only the generator's client and round differ."""
    twins = [replace(CLIENTS[0], client=client) for client in (0, 1)]
    results = host(twins).train([task(0), task(1), task(0, round_index=1)], [initial()], {})
    assert len({result.update.tobytes() for result in results}) == 3


def test_the_update_is_the_trained_model_minus_the_one_that_was_sent():
    held, model = host(), initial()
    (reply,) = held.train([task(0, evaluate=True, local_server=True)], [model], {})
    report, update = reply.report, reply.update
    assert update.dtype == np.float32
    assert update.shape == model.shape
    assert reply.memory == reply.outputs == {}
    assert report.update_norm == pytest.approx(sqrt(np.square(update, dtype=np.float64).sum()))
    assert report.usable
    assert (report.client, report.chosen) == (0, 0)
    assert (report.images, report.steps) == (9, 6), "two epochs of nine images in batches of four"
    assert report.bytes_up == update.nbytes
    assert report.checksum == crc32(update.tobytes())
    tested = held.evaluate([EvaluateTask(0, 0)], [model + update])[0]
    assert tested.own.confusion.tolist() == report.local.confusion.tolist()
    assert tested.own.loss_sum == pytest.approx(report.local.loss_sum, rel=1e-5)
    assert report.local_server.confusion.sum() == len(SERVER)


@pytest.mark.parametrize(("tf32", "precision"), [(False, "ieee"), (True, "tf32")])
def test_clients_train_with_tf32_as_configured(tf32, precision, monkeypatch):
    seen, train = [], worker_module.local.train_client

    def noting(*arguments, **options):
        seen.append((torch.backends.cudnn.conv.fp32_precision, torch.backends.cuda.matmul.fp32_precision))
        return train(*arguments, **options)

    monkeypatch.setattr(worker_module.local, "train_client", noting)
    host(tf32=tf32).train([task(0)], [initial()], {})
    assert seen == [(precision, precision)]


def test_models_are_tested_only_if_asked():
    held, models = host(), [initial()]
    for own, server in ((False, False), (True, False), (True, True)):
        [reply] = held.train([task(0, evaluate=own, local_server=server)], models, {})
        assert (reply.report.local is not None, reply.report.local_server is not None) == (own, server)
    [report] = held.evaluate([EvaluateTask(0, None)], models)
    assert (report.own, len(report.server)) == (None, 1)


@pytest.mark.parametrize("on", ["train", "reference"])
@pytest.mark.parametrize("candidates", [(1, 0), (0,)])
def test_losses_of_candidates_are_beside_the_update_and_change_nothing_else(candidates, on):
    """On the images that are chosen on; those of the server's images are no traffic."""
    models, settings = [initial(), initial(seed=12)], setup(reference_set=SERVER)
    order = Order(0, candidates, on)
    plain, asked = (
        ClientWorker(settings).train([TrainTask(each, 0, evaluate=False)], models, {})[0]
        for each in (order, replace(order, losses=True))
    )
    images = {"train": CLIENTS[0].train, "reference": SERVER}[on]
    of_images = ClientData(0, images, images)
    tests = [
        ClientWorker(setup([of_images])).evaluate([EvaluateTask(0, place)], models)[0].own
        for place in candidates
    ]
    expected = [test.loss_sum / len(images) for test in tests]
    assert asked.outputs["losses"].dtype == np.float32
    assert asked.outputs["losses"].tolist() == pytest.approx(expected, rel=1e-6)
    assert asked.report.chosen == candidates[int(np.argmin(expected))]
    sent = 4 * len(candidates) if on == "train" else 0
    assert asked.report.bytes_up == plain.report.bytes_up + sent
    assert asked.update.tobytes() == plain.update.tobytes()
    assert plain.outputs == {}


class Certain(LocalRule):
    """Says class 1, whatever the model says, by as many logits as `num_logits`."""

    num_logits: int = CLASSES

    def start(self, local):
        return _Certain(self)


class _Certain(LocalSteps):
    def __init__(self, rule):
        self._logits = torch.zeros(rule.num_logits)
        self._logits[1] = 50.0

    def test(self, local, images):
        assert not torch.is_grad_enabled()
        assert local.logits(images).shape == (len(images), CLASSES)
        return self._logits.expand(len(images), -1)


def test_a_rules_own_test_is_that_of_the_client_and_not_that_of_the_server():
    plain, own = (
        host().evaluate([EvaluateTask(0, 0, adaptation)], [initial()])[0]
        for adaptation in (None, Adaptation(Certain()))
    )
    assert [test.loss_sum for test in own.server] == [test.loss_sum for test in plain.server]
    assert own.own.confusion[:, 1].tolist() == np.bincount(CLIENTS[0].test.labels, minlength=CLASSES).tolist()
    assert own.own.loss_sum == pytest.approx(50 * np.count_nonzero(CLIENTS[0].test.labels != 1))
    with pytest.raises(
        RunError, match=r"client 0, round 1: .*\.test returned .* \(4, 2\); expected .* \(4, 3\)"
    ):
        host().evaluate([EvaluateTask(0, 0, Adaptation(Certain(num_logits=2)))], [initial()])


def test_what_is_no_model_alone_is_not_explained():
    with pytest.raises(ConfigError, match=r"Certain's own test.*explain a run of another algorithm"):
        ServingWorker(setup()).load_module(EvaluateTask(0, 0, Adaptation(Certain())), [initial()])


@pytest.mark.parametrize(("candidates", "chosen"), [((1, 0), 1), ((0, 1), 0), ((2, 1), 1), ((2, 2), 2)])
def test_tie_goes_to_the_first_candidate_and_nan_never_wins(candidates, chosen):
    model = initial()
    models = [model, model, np.full_like(model, np.nan)]
    (reply,) = host().train([task(0, candidates)], models, {})
    assert reply.report.chosen == chosen


@pytest.mark.parametrize("spoilt", [np.nan, np.inf])
def test_an_update_with_an_entry_that_is_not_finite_is_unusable(spoilt):
    model = initial().copy()
    model[-1] = spoilt
    (reply,) = host().train([task(0)], [model], {})
    assert not reply.report.usable
    assert not np.isfinite(reply.update).all()


@pytest.mark.parametrize("spoilt", [0.5, np.nan])
def test_personal_entries_are_zero_in_the_update_and_broken_ones_make_it_unusable(spoilt):
    model, size = initial(), len(initial())
    rule = LocalRule(personal=((0, 10), (size - 5, size)))
    memories = {0: {"personal": np.full(15, spoilt, np.float32)}}
    (reply,) = host().train([TrainTask(Order(0, (0,), rule=rule), 0, False)], [model], memories)
    assert not reply.update[:10].any()
    assert not reply.update[-5:].any()
    assert reply.update[10:-5].any()
    assert reply.report.usable == np.isfinite(spoilt)
    assert reply.memory["personal"].shape == (15,)


def test_a_finite_update_whose_squared_norm_float32_cannot_hold_is_unusable():
    """One step with learning rate 1e21 moves some weight by more than 1.8e19, whose square is 3.4e38."""
    one_step = host(learning_rate=1e21, local_epochs=1, batch_size=16)
    (reply,) = one_step.train([task(0)], [initial()], {})
    assert not reply.report.usable
    assert np.isfinite(reply.update).all()
    assert 1.8e19 < reply.report.update_norm < np.inf


def test_memories_are_handed_on_by_client():
    held = host(momentum=0.9, keep_optimizer_state=True)
    model = initial()
    memory = held.train([task(1)], [model], {})[0].memory
    assert list(memory) == ["optimizer"]
    fresh, continued, alone = (
        held.train([task(1, round_index=1)], [model], memories)[0].update.tobytes()
        for memories in ({0: memory}, {1: memory}, {})
    )
    assert fresh == alone != continued


def test_aggregated_models_are_tested_on_the_own_test_set_and_on_parts_that_tile_the_servers():
    models = [initial(), initial(seed=12)]
    tasks = [EvaluateTask(client, client % 2) for client in (2, 0, 3, 1)]
    reports = host().evaluate(tasks, models)
    whole = {0: slice(0, 10)}
    alone = ClientWorker(setup(CLIENTS[:1], whole)).evaluate([EvaluateTask(0, 1)], models)[0]
    assert [report.client for report in reports] == [2, 0, 3, 1]
    for position in range(2):
        total = sum(report.server[position].confusion for report in reports)
        assert total.tolist() == alone.server[position].confusion.tolist()
    assert [int(report.own.confusion.sum()) for report in reports] == [4] * 4
    own = {report.client: report.own for report in host().evaluate([EvaluateTask(1, 0)], models[1:])}
    assert reports[3].own.loss_sum == own[1].loss_sum


def test_the_processs_number_of_threads_neither_matters_nor_changes():
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(host(model="tinyvgg").train([task(0)], [initial("tinyvgg")], {})[0])
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert comparable(results[0]) == comparable(results[1])


def test_a_round_has_its_learning_rate():
    halved = host(schedule={"kind": "step", "every": 1, "factor": 0.5})
    models = [initial()]
    for round_index, rate in ((0, 0.1), (1, 0.05)):
        replies = [
            worker.train([task(0, round_index=round_index)], models, {})[0].update.tobytes()
            for worker in (halved, host(learning_rate=rate))
        ]
        assert replies[0] == replies[1]
