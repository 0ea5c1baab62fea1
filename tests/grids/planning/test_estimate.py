"""What the runs of a grid need: encoders, how long they take, and what recorded rounds say."""

import pytest

from fedgrid.engine.runtime.clients.placement import Node, Request
from fedgrid.engine.runtime.configuration.complete import complete
from fedgrid.engine.runtime.data.datasets import find
from fedgrid.grids.planning import estimate as module
from fedgrid.grids.planning.calibrate import Speed, run_seconds
from fedgrid.grids.planning.estimate import (
    Experience,
    capacities_of,
    dataset_rows,
    encoder_plans,
    experience,
    workloads_of,
)
from fedgrid.grids.planning.images import expected_images
from fedgrid.grids.planning.workload import workload_of
from fedgrid.grids.results.times import Times
from tests.helpers.small_grid import NOWHERE, config

SPEED = Speed(turn=1.0, train=0.1, test=0.01)
BEGUN, NEW = config(seed=1), config(seed=2)
ROUNDS = BEGUN.training.rounds


@pytest.fixture
def learn(monkeypatch, tmp_path):
    """Return a function that compares a run of which one round is recorded, in as many times its estimate."""

    def run(times, speeds):
        dataset = find(BEGUN.dataset, tmp_path)
        whole = run_seconds(BEGUN, expected_images(BEGUN, dataset), SPEED, ROUNDS)
        recorded = Times(uncached_seconds=times * whole / ROUNDS, rounds=1)
        monkeypatch.setattr(module, "times_of", lambda folder: recorded)
        left = [(BEGUN, ROUNDS - 1), (NEW, ROUNDS)]
        capacities = capacities_of(left, [Node(1, 0)], Request())
        return experience(left, tmp_path, tmp_path, speeds, capacities)

    return run


def test_round_that_took_three_times_its_estimate_makes_the_others_as_long(learn, tmp_path):
    found = learn(3.0, {workload_of(BEGUN, tmp_path): SPEED})
    assert (found.runs, found.factor) == (1, pytest.approx(3.0))


def test_run_of_a_workload_that_was_not_timed_says_nothing(learn):
    assert learn(3.0, {}) == Experience(0, 1.0)


DIGITS = find("digits", NOWHERE)


def run_of(encoder, **given):
    algorithm = {"name": "embeddings", "encoder": encoder, **given.pop("settings", {})}
    split = {"reference_images": 100, "num_clusters": 2}
    return complete({"clients": 4, "algorithm": algorithm, "split": split, **given}, NOWHERE)


def plans_of(*runs, rounds_left=None):
    left = [(run, run.training.rounds if rounds_left is None else rounds_left) for run in runs]
    return encoder_plans(left, DIGITS, NOWHERE)


def test_a_public_encoder_is_one_for_all_seeds_and_a_federated_one_is_of_its_seed():
    public, federated = {"public": "reference", "epochs": 3}, {"federated": 2}
    assert len(plans_of(run_of(public), run_of(public, seed=1), run_of(public, settings={"flip": 0}))) == 1
    assert len(plans_of(run_of(federated), run_of(federated, settings={"flip": 0}))) == 1
    assert len(plans_of(run_of(federated), run_of(federated, seed=1))) == 2


def test_the_public_set_of_an_encoder_is_part_of_the_download():
    """MNIST has 12 MB and Fashion-MNIST 31 MB; reference images are of the run's own data."""
    sizes = []
    for public in ("fmnist", "reference"):
        run = run_of({"public": public}, dataset="mnist")
        left = [(run, run.training.rounds)]
        speeds = dict.fromkeys(workloads_of(left, NOWHERE), Speed(turn=1.0, train=0.01, test=0.01))
        [row] = dataset_rows(left, NOWHERE, speeds, capacities_of(left, [Node(2, 0)], Request()))
        sizes.append(row.download_mb)
    assert sizes == [12 + 31, 12]


def test_pixels_and_runs_that_have_begun_train_none():
    begun = run_of({"federated": 2})
    assert not plans_of(run_of("pixels"))
    assert not plans_of(begun, rounds_left=begun.training.rounds - 1)


def test_seconds_add_the_servers_epochs_and_the_clients_rounds_on_all_cores():
    """100 images three times; two rounds of half of 4 clients, each with 5 epochs on its images."""
    encoder = {"public": "reference", "epochs": 3, "federated": 2, "local_epochs": 5}
    run = run_of(encoder)
    [plan] = plans_of(run)
    held = expected_images(run, DIGITS).train
    speeds = {plan.workload: Speed(turn=1.0, train=0.01, test=0.0)}
    of_clients = 2 * 2 * 1.0 + 2 * 0.5 * 5 * held * 0.01
    assert plan.seconds(speeds, 2) == pytest.approx(3.0 + of_clients / 2)
    assert [workload.model for workload in workloads_of([(run, run.training.rounds)], NOWHERE)] == [
        "digitnet",
        "autoencoder-dense",
    ]
