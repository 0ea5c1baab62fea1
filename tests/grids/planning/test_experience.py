"""How long runs took against their estimate: by hand, on a run with recorded rounds."""

import pytest

from fedgrid.engine.runtime.clients.placement import Node, Request
from fedgrid.engine.runtime.data.datasets import find
from fedgrid.grids.planning import estimate as module
from fedgrid.grids.planning.calibrate import Speed, Workload, run_seconds
from fedgrid.grids.planning.estimate import Experience, capacities_of, experience
from fedgrid.grids.planning.images import expected_images
from fedgrid.grids.results.times import Times
from tests.helpers.small_grid import config

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
    found = learn(3.0, {Workload.of(BEGUN, find(BEGUN.dataset, tmp_path)): SPEED})
    assert (found.runs, found.factor) == (1, pytest.approx(3.0))


def test_run_of_a_workload_that_was_not_timed_says_nothing(learn):
    assert learn(3.0, {}) == Experience(0, 1.0)
