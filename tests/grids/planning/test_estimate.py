"""What runs need: a timed step a model, hours by hand, and encoders."""

from dataclasses import replace

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.training.settings import LocalTraining
from fedgrid.engine.runtime.clients.placement import Placement
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data.datasets import find_dataset
from fedgrid.grids.planning import estimate as module
from fedgrid.grids.planning.dry_run import DatasetRow, build_dataset_rows
from fedgrid.grids.planning.estimate import (
    FEW_IMAGES,
    MANY_IMAGES,
    MORE_IMAGES,
    Capacity,
    Estimator,
    Speed,
    estimate_run_seconds,
    plan_encoders,
    time_training,
)
from fedgrid.grids.planning.images import ImageCounts, estimate_images
from fedgrid.grids.planning.workload import NEUTRAL_SETTINGS, Workload, find_workload
from tests.helpers.small_grid import NOWHERE


def workload(model, side, **training):
    return Workload(model, image_inputs(1, side, side), 10, LocalTraining(**NEUTRAL_SETTINGS, **training))


DIGITNET = workload("digitnet", 8, batch_size=32, optimizer="sgd")


def run(**values):
    return complete_config({"dataset": "digits", "algorithm": "fedavg", **values}, NOWHERE)


def test_cost_of_a_run_adds_turns_epochs_tests_and_server():
    """15 turns of 1 s, 2 epochs of 100 images at 0.03 s, and 0.05 s of the server: 21.05. Tests: local and
    served model on 40 images, the only model on the server's 10: 90 images at a third of it. With 15 local
    models on the server's set 240, but 100 in round 1."""
    images, speed = ImageCounts(100, 40, 10), Speed(seconds_per_turn=1, seconds_per_image=0.03)
    config = run(training={"local_epochs": 2, "rounds": 5})
    assert estimate_run_seconds(config, images, speed, 4) == pytest.approx(4 * (21.05 + 0.9))
    tested = run(training={"local_epochs": 2, "rounds": 5}, evaluation={"local_server": True})
    assert estimate_run_seconds(tested, images, speed, 4) == pytest.approx(4 * (21.05 + 2.4))
    assert estimate_run_seconds(tested, images, speed, 5) == pytest.approx(5 * 21.05 + 4 * 2.4 + 1.0)
    assert estimate_run_seconds(tested, images, speed, 5, actors=7) == pytest.approx(
        5 * 21.05 + 4 * 2.4 + 1.6
    )
    assert estimate_run_seconds(config, images, speed, 0) == 0


def test_only_clients_that_are_asked_train_and_test_what_they_trained():
    half = run(participation=0.5, dropout=0.2, training={"local_epochs": 1})
    tests = 0.01 * (0.4 * 40 + 40 + 10)
    found = estimate_run_seconds(
        half, ImageCounts(100, 40, 10), Speed(seconds_per_turn=1, seconds_per_image=0.03), 1
    )
    assert found == pytest.approx(0.4 * (100 * 0.03 + 15) + 0.05 + tests)


def test_settings_that_change_a_batch_are_part_of_a_workload_and_others_are_not():
    slow = run(training={"learning_rate": 0.001, "rounds": 3}, clients=30, seed=4)
    assert find_workload(run(), NOWHERE) == find_workload(slow, NOWHERE) == DIGITNET
    for own in ({"augment": ("crop", "flip")}, {"precision": "bfloat16"}, {"stacked": 4}):
        expected = workload("digitnet", 8, batch_size=32, optimizer="sgd", **own)
        assert find_workload(run(training=own), NOWHERE) == expected
    assert find_workload(run(training={"stacked": 40}), NOWHERE).training.stacked == 15


@pytest.fixture
def train_slowly(monkeypatch):
    """Return a function that sets the seconds of a turn, and of an image in it, and returns a clock."""
    now = [0.0]

    def seconds(turn, image):
        class Worker:
            def __init__(self, setup, device):
                self.sizes = {data.client: len(data.train) for data in setup.clients}

            def train(self, tasks, models, memories):
                [size] = {self.sizes[task.order.client] for task in tasks}
                now[0] += turn + image * size

        monkeypatch.setattr(module, "ClientWorker", Worker)
        return now

    monkeypatch.setattr(module, "process_time", lambda: now[0])
    monkeypatch.setattr(module, "perf_counter", lambda: now[0])
    return seconds


@pytest.mark.parametrize(("turn", "image", "more"), [(1, 0.01, MORE_IMAGES), (0.01, 0.001, MANY_IMAGES)])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_an_image_is_the_difference_of_two_trainings(train_slowly, device, turn, image, more):
    """The first training is not counted: libraries start in it. A quick model trains on more images."""
    clock = train_slowly(turn, image)
    speed = time_training(DIGITNET, device)
    assert (speed.seconds_per_turn, speed.seconds_per_image) == pytest.approx((turn, image))
    assert clock == pytest.approx([3 * turn + (2 * FEW_IMAGES + more) * image])


def test_training_that_is_no_longer_with_more_images_is_taken_for_steps(train_slowly):
    train_slowly(2.4, 0)
    speed = time_training(DIGITNET, "cpu")
    assert (speed.seconds_per_turn, speed.seconds_per_image) == (0, pytest.approx(0.1))


def test_clients_of_a_stack_are_timed_together_and_have_a_share_each(train_slowly):
    train_slowly(1, 0.01)
    speed = time_training(workload("digitnet", 8, batch_size=32, optimizer="sgd", stacked=4), "cpu")
    assert (speed.seconds_per_turn, speed.seconds_per_image) == pytest.approx((0.25, 0.0025))


@pytest.mark.parametrize(
    "load",
    [DIGITNET, workload("autoencoder-dense", 8, batch_size=8, optimizer="adam")],
    ids=["model", "encoder"],
)
def test_model_and_encoder_are_timed(load):
    speed = time_training(load, "cpu")
    assert speed.seconds_per_turn >= 0
    assert speed.seconds_per_image > 0


def test_images_too_small_for_the_model_are_refused():
    with pytest.raises(ConfigError, match="images of 4x4 are too small for model 'resnet34'"):
        time_training(workload("resnet34", 4, batch_size=8, optimizer="sgd"), "cpu")


SPEED = Speed(seconds_per_turn=1.0, seconds_per_image=0.1)
ONE_CORE = Capacity(15, Placement(1, 0.9, 0.0), at_once=1, workers=1)


def estimator(*capacities):
    return Estimator(NOWHERE, "cpu", {capacity.clients: capacity for capacity in capacities})


def test_time_is_divided_by_the_busy_cores(monkeypatch):
    """A round of 5 clients takes 5 turns of 720 s and 0.05 s of the server. Two rounds on two cores take
    3600.05 s."""
    monkeypatch.setattr(
        module, "time_training", lambda load, device: Speed(seconds_per_turn=720, seconds_per_image=0)
    )
    one, finished = (run(clients=5, algorithm=name) for name in ("fedavg", "sattler"))
    two_cores = Capacity(5, Placement(1, 0.9, 0.0), at_once=2, workers=2)
    [digits] = build_dataset_rows([(one, 2), (finished, 0)], estimator(two_cores))
    assert digits == DatasetRow("digits", 2, 1, 1, 2, (5,), 0, pytest.approx(3600.05 / 3600))


def test_a_model_is_timed_once_for_all_classes_and_anew_for_other_images(monkeypatch):
    """pathmnist has 9 classes and bloodmnist 8, both 28 x 28 in colour; CIFAR-10 has 32 x 32."""
    timed = []
    monkeypatch.setattr(module, "time_training", lambda load, device: timed.append(load) or SPEED)
    training = {"optimizer": "adam", "batch_size": 128}
    names = ("pathmnist", "bloodmnist", "cifar10")
    runs = [run(dataset=name, model="resnet34", training=training) for name in names]
    build_dataset_rows([(one, 1) for one in runs], estimator(ONE_CORE))
    assert [(load.inputs.shape, load.num_classes) for load in timed] == [((3, 28, 28), 9), ((3, 32, 32), 10)]


DIGITS = find_dataset("digits", NOWHERE)


def run_of(encoder, **given):
    algorithm = {"name": "embeddings", "encoder": encoder, **given.pop("settings", {})}
    split = {"reference_images": 100, "num_clusters": 2}
    return complete_config({"clients": 4, "algorithm": algorithm, "split": split, **given}, NOWHERE)


def plans_of(*runs, rounds_left=None):
    left = [(run, run.training.rounds if rounds_left is None else rounds_left) for run in runs]
    return plan_encoders(left, DIGITS, NOWHERE)


def test_a_public_encoder_is_one_for_all_seeds_and_a_federated_one_is_of_its_seed():
    public, federated = {"public": "reference", "epochs": 3}, {"federated": 2}
    assert len(plans_of(run_of(public), run_of(public, seed=1), run_of(public, settings={"flip": 0}))) == 1
    assert len(plans_of(run_of(federated), run_of(federated, settings={"flip": 0}))) == 1
    assert len(plans_of(run_of(federated), run_of(federated, seed=1))) == 2


def test_the_public_set_of_an_encoder_is_part_of_the_download(monkeypatch):
    """MNIST has 12 MB and Fashion-MNIST 31 MB; reference images are of the run's own data."""
    monkeypatch.setattr(module, "time_training", lambda load, device: SPEED)
    sizes, place = [], replace(ONE_CORE, clients=4)
    for public in ("fmnist", "reference"):
        run = run_of({"public": public}, dataset="mnist")
        left = [(run, run.training.rounds)]
        [row] = build_dataset_rows(left, estimator(place))
        sizes.append(row.download_mb)
    assert sizes == [12 + 31, 12]


def test_pixels_and_runs_that_have_begun_train_none():
    begun = run_of({"federated": 2})
    assert not plans_of(run_of("pixels"))
    assert not plans_of(begun, rounds_left=begun.training.rounds - 1)


def test_seconds_add_the_servers_epochs_and_the_clients_rounds_on_all_cores(monkeypatch):
    """100 images three times; two rounds of half of 4 clients, each with 5 epochs on its images."""
    encoder = {"public": "reference", "epochs": 3, "federated": 2, "local_epochs": 5}
    run = run_of(encoder)
    [plan] = plans_of(run)
    held = estimate_images(run, DIGITS).train
    monkeypatch.setattr(
        module, "time_training", lambda load, device: Speed(seconds_per_turn=0.0, seconds_per_image=0.01)
    )
    assert plan.workload.model == "autoencoder-dense"
    two_cores = Capacity(4, Placement(1, 0.9, 0.0), at_once=2, workers=2)
    seconds = 3.0 + 2 * 0.5 * 5 * held * 0.01 / 2
    assert estimator(two_cores).estimate_hours([], [plan]) == pytest.approx(seconds / 3600)
