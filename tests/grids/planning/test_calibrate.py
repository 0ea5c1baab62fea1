"""The estimate of a run's time: the arithmetic by hand, the timing on the smallest model."""

from dataclasses import replace
from pathlib import Path

import pytest

from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import pixels
from fedgrid.engine.federation.partition.scenarios import PUBLISHED_SPLITS
from fedgrid.engine.federation.training import evaluation
from fedgrid.engine.federation.training.settings import LocalTraining
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete
from fedgrid.engine.runtime.run.prepare import prepare
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.planning import calibrate as calibrate_module
from fedgrid.grids.planning.calibrate import (
    Speed,
    calibrate,
    fit_line,
    run_seconds,
)
from fedgrid.grids.planning.images import Images, expected_images, images_trained, passes
from fedgrid.grids.planning.workload import SAME, Workload, workload_of

DIGITS = DATASETS["digits"]
NOWHERE = Path("nowhere")


def workload(model, side, **training):
    return Workload(model, pixels(1, side, side), 10, LocalTraining(**SAME, **training))


DIGITNET = workload("digitnet", 8, batch_size=32, optimizer="sgd")


def run(**values):
    return complete({"dataset": "digits", "algorithm": "fedavg", **values}, NOWHERE)


@pytest.mark.parametrize(
    ("times", "turn", "image"),
    [
        ([(2, 3.0), (4, 100.0), (10, 11.0)], 1.0, 1.0),
        ([(2, 1.0), (4, 4.0)], 0.0, 1.5),
        ([(2, 3.0)], 0.0, 1.5),
        ([(2, 3.0), (4, 2.0)], 0.0, 0.5),
    ],
    ids=["a line", "no time before the start", "one measurement", "the first one slower"],
)
def test_line_through_first_and_last_timing(times, turn, image):
    assert fit_line(times) == (turn, image)


def test_cost_of_a_run_adds_turns_epochs_tests_and_server():
    """15 turns of 1 s, 2 epochs of 100 images at 0.01 s, and 0.05 s of the server: 17.05. Tests: local and
    served model on 40 images, the only model on the server's 10: 90 images at 0.001 s. With 15 local models
    on the server's set 240, but 100 in round 1."""
    images, speed = Images(100, 40, 10), Speed(turn=1, train=0.01, test=0.001)
    config = run(training={"local_epochs": 2, "rounds": 5})
    assert run_seconds(config, images, speed, 4) == pytest.approx(4 * (17.05 + 0.09))
    tested = run(training={"local_epochs": 2, "rounds": 5}, evaluation={"local_server": True})
    assert run_seconds(tested, images, speed, 4) == pytest.approx(4 * (17.05 + 0.24))
    assert run_seconds(tested, images, speed, 5) == pytest.approx(5 * 17.05 + 4 * 0.24 + 0.10)
    assert run_seconds(tested, images, speed, 5, actors=7) == pytest.approx(5 * 17.05 + 4 * 0.24 + 0.16)
    assert run_seconds(config, images, speed, 0) == 0


def test_local_steps_are_batches_as_large_as_the_clients_images():
    """15 clients of 100 images: 7 steps of 4 images, or of all, which are fewer than 32 each."""
    for size, images in ((4, 7 * 15 * 4), (32, 7 * 100)):
        config = run(training={"local_steps": 7, "batch_size": size})
        assert images_trained(config, Images(100, 40, 10)) == images


def test_only_clients_that_are_asked_train_and_test_what_they_trained():
    images, speed = Images(100, 40, 10), Speed(turn=1, train=0.01, test=0.001)
    half = run(participation=0.5, dropout=0.2, training={"local_epochs": 1})
    tests = 0.001 * (0.4 * 40 + 40 + 10)
    assert run_seconds(half, images, speed, 1) == pytest.approx(0.4 + 0.4 * 15 + 0.05 + tests)
    asked = run(participation=0.5, evaluation={"clients": "asked"})
    assert passes(asked, images, 1) == pytest.approx(20 + 20 + 10)


def test_served_models_are_tested_once_for_clients_of_an_actor_with_one_set():
    """Six clients with 40 test images together, in two different sets of 5. The local models on all 40."""
    images, config = Images(100, 40, 10, 10), run()
    assert [passes(config, images, 1, actors) for actors in (1, 2, 6)] == [60, 70, 90]


def test_every_third_round_and_the_last_one_have_tests():
    """Of rounds 1 to 5 the third and the fifth."""
    seldom = run(training={"rounds": 5}, evaluation={"every": 3})
    assert [passes(seldom, Images(0, 40, 10), rounds) for rounds in (0, 1, 2, 3, 5)] == [0, 90, 90, 180, 180]


def test_algorithm_has_one_model_up_to_the_round_in_which_it_may_cluster():
    late = run(algorithm={"name": "briggs", "round": 3}, training={"rounds": 4})
    assert passes(late, Images(0, 0, 10), 4) == 10 * (1 + 1 + 3 + 3)


@pytest.mark.parametrize(("tested_on", "local_server"), [("own", True), ("official", False), ("own", "last")])
def test_passes_are_as_many_as_the_engine_makes(tested_on, local_server, monkeypatch, tmp_path):
    config = run(
        clients=6,
        split={"tested_on": tested_on, "server_images": 20},
        evaluation={"local_server": local_server},
        training={"rounds": 2},
    )
    seen, test = [], evaluation.test

    def counted(module, images, labels, *rest, **options):
        seen.append(len(labels))
        return test(module, images, labels, *rest, **options)

    monkeypatch.setattr(evaluation, "test", counted)
    session = Session(InProcessPool(), NOWHERE)
    session.open(config, Storage.of(tmp_path))
    for _ in range(2):
        session.next_round()
    session.settle()
    setup, _ = prepare(config, NOWHERE)
    assert sum(seen) == passes(config, Images(0, held_for_tests(setup), 20, different(setup)), 2)


@pytest.mark.parametrize("split", ["overlapping-balanced", "nonoverlapping-balanced", "rotated", "iid"])
def test_expected_official_test_images_match_the_split(split):
    """Clients of a group have one test set: the labels of a group, or what the group makes of all of them."""
    config = run(split={"kind": split, "tested_on": "official"})
    setup, _ = prepare(config, NOWHERE)
    images = expected_images(config, DIGITS)
    assert images.test == pytest.approx(held_for_tests(setup), rel=0.05)
    assert images.different == pytest.approx(different(setup), rel=0.05)


def held_for_tests(setup):
    """Return the number of all clients' test images together."""
    return sum(len(client.test) for client in setup.clients)


def different(setup):
    """Return how many images the clients' different test sets have together."""
    sets = {client.test.images.tobytes() + client.test.labels.tobytes(): client for client in setup.clients}
    return sum(len(client.test) for client in sets.values())


def test_expected_images_of_one_draw_a_client():
    """15 clients with one image each, of which 0.3 are for testing."""
    images = expected_images(run(split={"num_clusters": 1, "draws": 1}), DIGITS)
    assert (images.train, images.test, images.server) == (pytest.approx(10.5), pytest.approx(4.5), 355)


def test_expected_images_count_repeated_draws_once():
    """One cluster with all 10 classes of 144.2 images each: two draws agree once in 1442 times."""
    images = expected_images(run(split={"num_clusters": 1, "draws": 2}), DIGITS)
    assert images.train + images.test == pytest.approx(15 * (2 - 1 / 1442))


@pytest.mark.parametrize("split", PUBLISHED_SPLITS)
def test_expected_images_match_the_split(split):
    config = run(split=split)
    setup, _ = prepare(config, NOWHERE)
    images = expected_images(config, DIGITS)
    assert images.train == pytest.approx(sum(len(client.train) for client in setup.clients), rel=0.05)
    assert images.test == pytest.approx(sum(len(client.test) for client in setup.clients), rel=0.05)
    assert images.server == len(setup.server_set)


@pytest.mark.parametrize("split", [{}, {"majority": 0.7}, {"majority": 0.7, "scored_on": "validation"}])
def test_expected_images_match_the_split_with_majority_classes(split):
    """The smallest class of the digits limits the split; it is 2 % smaller than the mean class."""
    config = run(clients=10, split={"kind": "majority", **split})
    setup, _ = prepare(config, NOWHERE)
    images = expected_images(config, DIGITS)
    assert images.train == pytest.approx(sum(len(client.train) for client in setup.clients), rel=0.05)
    assert images.test == pytest.approx(sum(len(client.test) for client in setup.clients), rel=0.05)


def test_expected_server_images_follow_the_split():
    assert expected_images(run(split={"server_images": 7}), DIGITS).server == 7


def test_runs_that_differ_in_learning_rate_or_split_share_a_workload():
    slow = run(training={"learning_rate": 0.001, "rounds": 3}, clients=30, seed=4)
    assert workload_of(run(), NOWHERE) == workload_of(slow, NOWHERE) == DIGITNET


def test_augmentation_is_part_of_a_workload():
    moving = run(training={"augment": ["crop", "flip"]})
    assert workload_of(moving, NOWHERE) == workload(
        "digitnet", 8, batch_size=32, optimizer="sgd", augment=("crop", "flip")
    )


def test_precision_is_part_of_a_workload():
    narrow = workload_of(run(training={"precision": "bfloat16"}), NOWHERE)
    assert narrow == workload("digitnet", 8, batch_size=32, optimizer="sgd", precision="bfloat16")
    speeds = calibrate([narrow, DIGITNET], budget=0)
    assert list(speeds) == [narrow, DIGITNET]


def test_stack_of_at_most_all_clients_is_part_of_a_workload():
    stacks = [workload_of(run(training={"stacked": clients}), NOWHERE) for clients in (4, 40)]
    assert [workload.training.stacked for workload in stacks] == [4, 15]


def test_clients_of_a_stack_are_timed_together(monkeypatch):
    """A stack takes 1 s and 0.01 s for an image of each client, however many they are; a test 0.002 s.

    Two and eight images are timed: of a batch of 32 the fixed second is a 32nd part of each image.
    """
    clock, asked = [0.0], set()

    class Worker:
        def __init__(self, setup, device):
            self.slots = setup.training.stacked
            self.images = {data.client: len(data.train) for data in setup.clients}

        def train(self, tasks, models, memories):
            held = {self.images[task.client] for task in tasks}
            asked.add((len(tasks), len({task.client // self.slots for task in tasks}), len(held)))
            clock[0] += 1 + 0.01 * held.pop()

        def evaluate(self, tasks, models):
            clock[0] += sum(0.002 * self.images[task.client] for task in tasks)

    monkeypatch.setattr("fedgrid.grids.planning.workload.ClientWorker", Worker)
    monkeypatch.setattr(calibrate_module, "_clock", lambda device: lambda: clock[0])
    for batch, more in ((8, 0.0), (32, 0.25 / 32)):
        four = workload("digitnet", 8, batch_size=batch, optimizer="sgd", stacked=4)
        speed = calibrate([four], budget=1000.0)[four]
        assert asked == {(4, 1, 1)}
        assert (speed.turn, speed.train, speed.test) == pytest.approx((0.25, 0.0025 + more, 0.002))


def test_least_of_several_bursts_counts_and_after_the_budget_two_sizes_are_timed():
    """Two clients of 2 and 4 images; other work makes every first burst three times as long."""
    clock, bursts = [0.0], {0: 0, 1: 0}

    def work(client):
        bursts[client] += 1
        clock[0] += (client + 1) * (3 if bursts[client] < 3 else 1)

    found = calibrate_module._times(work, lambda: clock[0], [2, 4], 1000.0)
    assert found == [(2, 1.0), (4, 2.0)]
    before = dict(bursts)
    calibrate_module._times(work, lambda: clock[0], [2, 4], clock[0])
    assert {client: bursts[client] - before[client] for client in bursts} == {0: 1, 1: 1}


def test_calibrate_without_budget_times_each_workload():
    wider = workload("digitnet", 16, batch_size=8, optimizer="adam", augment=("crop",))
    speeds = calibrate([DIGITNET, wider], budget=0)
    assert list(speeds) == [DIGITNET, wider]
    assert all(speed.train > 0 and speed.test > 0 for speed in speeds.values())


def test_workloads_that_differ_in_classes_alone_are_timed_once():
    fewer = replace(DIGITNET, num_classes=3)
    speeds = calibrate([DIGITNET, fewer], budget=0)
    assert list(speeds) == [DIGITNET, fewer]
    assert speeds[DIGITNET] is speeds[fewer]


def test_calibrate_times_the_training_of_an_autoencoder_and_no_test():
    dense = workload("autoencoder-dense", 8, batch_size=8, optimizer="adam")
    speed = calibrate([dense], budget=0)[dense]
    assert speed.train > 0
    assert speed.test == 0


def test_calibrate_refuses_images_too_small_for_the_model():
    with pytest.raises(ConfigError, match="images of 4x4 are too small for model 'resnet34'"):
        calibrate([workload("resnet34", 4, batch_size=8, optimizer="sgd")])
