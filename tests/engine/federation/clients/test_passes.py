"""How many images a worker tests: a model sees a test set once, however many of its clients have that set."""

from dataclasses import replace

import pytest

from fedgrid.engine.federation.clients.messages import EvaluateTask, Moved
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.clients.workspace import DeviceSets
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.training import evaluation
from tests.engine.federation.clients.test_worker import (
    CLIENTS,
    SERVER,
    comparable,
    host,
    image_set,
    initial,
    setup,
    task,
)


@pytest.fixture
def passes(monkeypatch):
    """Return a list that gets the number of images of each test."""
    seen, test = [], evaluation.evaluate_model

    def counted(module, images, labels, *rest, **options):
        seen.append(len(labels))
        return test(module, images, labels, *rest, **options)

    monkeypatch.setattr(evaluation, "evaluate_model", counted)
    return seen


def copied(held):
    return ImageSet(held.images.copy(), held.labels.copy())


def in_pairs():
    """Clients 0 and 1, and 2 and 3, have the same test images, each in arrays of its own."""
    return [replace(data, test=copied(CLIENTS[data.client // 2].test)) for data in CLIENTS]


def numbers(reports):
    return [
        (report.client, report.own.confusion.tolist(), report.own.loss_sum, report.chosen)
        for report in reports
    ]


def test_clients_with_one_test_set_and_one_model_share_a_test(passes):
    """Own tests, model 0: clients 0 and 1 together, client 2. Model 1: client 3. The server's set twice."""
    clients, models = in_pairs(), [initial(), initial(seed=12)]
    tasks = [EvaluateTask(client, int(client == 3)) for client in range(4)]
    reports = ClientWorker(setup(clients)).evaluate(tasks, models)
    assert sum(passes) == 3 * 4 + 2 * len(SERVER)
    passes.clear()
    alone = [
        ClientWorker(setup([data])).evaluate([each], models)[0]
        for data, each in zip(clients, tasks, strict=True)
    ]
    assert sum(passes) == 4 * 4 + 2 * len(SERVER)
    assert numbers(reports) == numbers(alone)


def test_a_client_that_has_moved_is_tested_on_its_new_images(passes):
    """Client 1 moves in round 2; until then it shares the test of client 0."""
    clients = in_pairs()[:2]
    clients[1] = replace(clients[1], moved=Moved(1, 0, clients[1].train, image_set(55, 4)))
    held = ClientWorker(setup(clients))
    for round_index, num_tests in ((0, 1), (1, 2)):
        passes.clear()
        tasks = [EvaluateTask(client, 0, round_index=round_index) for client in (0, 1)]
        one, other = held.evaluate(tasks, [initial()])
        assert passes.count(4) == num_tests
        assert (one.own.loss_sum == other.own.loss_sum) == (round_index == 0)


def test_the_model_before_training_is_tested_on_the_servers_set_once_for_all_clients(passes):
    tasks = [task(client, local_server=True) for client in range(4)]
    first = host().train([replace(each, untrained=True) for each in tasks], [initial()], {})
    assert passes == [len(SERVER)]
    assert len({reply.report.local_server.loss_sum for reply in first}) == 1
    passes.clear()
    host().train(tasks, [initial()], {})
    assert passes == [len(SERVER)] * 4


def test_each_candidate_before_training_has_its_own_test(passes):
    models = [initial(), initial(seed=12)]
    tasks = [
        replace(task(client, candidates=(client % 2,), local_server=True), untrained=True)
        for client in range(4)
    ]
    together = host().train(tasks, models, {})
    assert passes == [len(SERVER)] * 2
    assert [comparable(reply) for reply in together] == [
        comparable(host().train([each], models, {})[0]) for each in tasks
    ]


def test_only_equal_images_with_equal_labels_are_one_set():
    one, same, other = image_set(1, 4), image_set(1, 4), image_set(2, 4)
    relabelled = ImageSet(one.images, 2 - one.labels)
    repainted = ImageSet(other.images, one.labels)
    sets = DeviceSets(dict(enumerate([one, same, relabelled, repainted, other])), "cpu")
    found = [sets.find_set_number(client) for client in range(5)]
    assert found[0] == found[1]
    assert len(set(found)) == 4
