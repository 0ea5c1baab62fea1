"""How far a grid is, with a clock that the test moves."""

from pathlib import Path

import pytest

from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.grids.display.tally import Tally


def run(dataset="digits", seed=0, rounds=10):
    values = {"dataset": dataset, "seed": seed, "training": {"rounds": rounds}, "algorithm": "fedavg"}
    return complete_config(values, Path("unused"))


TAKEN = {"reached_clients": 4, "trained_clients": 0}


def timing(seconds, train_seconds=0.0, **values):
    return {"seconds": seconds, "train_seconds": train_seconds, "evaluate_seconds": 0.5, **values}


def taken(seconds):
    """Return the timing of a cache hit."""
    return {"seconds": seconds, "train_seconds": 0.0, "evaluate_seconds": 0.0, **TAKEN}


class Clock:
    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


@pytest.fixture
def clock():
    return Clock()


def counts(tally):
    return tally.total, tally.done, len(tally.running), tally.num_waiting, tally.failed


def test_tally_counts_waiting_running_and_finished_runs(clock):
    one, other, third = run(seed=1), run(seed=2), run(seed=3)
    tally = Tally([one, other, third], {}, finished_before=5, now=clock)
    assert counts(tally) == (8, 5, 0, 3, 0)
    tally.count_start(one, 0)
    tally.count_start(other, 4)
    assert counts(tally) == (8, 5, 2, 1, 0)
    tally.count_finish(one)
    tally.count_failure(other)
    assert counts(tally) == (8, 6, 0, 1, 1)
    tally.count_start(third, 0)
    tally.count_stop(third)
    assert counts(tally) == (8, 6, 0, 1, 1)


def test_rounds_of_a_shorter_run_are_neither_left_nor_done_in_this_launch(clock):
    """Six of ten rounds are taken; a later start, of a retry, takes none."""
    tally = Tally([run()], {}, now=clock)
    assert tally.count_start(run(), 6) == 0
    clock.time += 2
    tally.count_round(run(), 7, timing(2.0))
    tally.count_stop(run())
    tally.count_start(run(), 7)
    assert (tally.rounds, tally.rounds_reused, tally.seconds_left) == (1, 6, 6.0)


def test_time_left_uses_the_round_times_of_each_data_set(clock):
    """Digits rounds took 1 s, the MNIST round 20 s of a run's time; the two runs went side by side.

    In 11 s they have done 22 run-seconds of work. Left are 8 digits rounds (8 s) and 9 + 10 MNIST rounds
    (380 s), together 388 run-seconds, which take 194 s at that pace.
    """
    digits, mnist, waiting = run(), run("mnist"), run("mnist", seed=1)
    tally = Tally([digits, mnist, waiting], {}, now=clock)
    assert tally.seconds_left is None
    tally.count_start(digits, 0)
    tally.count_start(mnist, 0)
    clock.time += 11
    tally.count_round(digits, 1, timing(1.0))
    tally.count_round(digits, 2, timing(1.0))
    tally.count_round(mnist, 1, timing(20.0))
    assert tally.seconds_left == pytest.approx(194.0)
    assert tally.rounds_per_second == pytest.approx(3 / 11)


def test_time_left_of_a_new_data_set_uses_the_mean_of_all(clock):
    digits, mnist = run(), run("mnist")
    tally = Tally([digits, mnist], {}, now=clock)
    tally.count_start(digits, 0)
    clock.time += 2
    tally.count_round(digits, 1, timing(2.0))
    assert tally.seconds_left == pytest.approx(9 * 2.0 + 10 * 2.0)


def test_rounds_of_a_failed_run_do_not_count_as_left(clock):
    bad, good = run(seed=1), run(seed=2)
    tally = Tally([bad, good], {}, now=clock)
    tally.count_start(bad, 0)
    clock.time += 1
    tally.count_round(bad, 1, timing(1.0))
    tally.count_failure(bad)
    assert tally.seconds_left == pytest.approx(10.0)


def test_tally_as_a_dict_for_status(clock):
    tally = Tally([run()], {}, now=clock)
    tally.count_start(run(), 0)
    clock.time += 4
    tally.count_round(run(), 1, timing(2.0, train_seconds=1.5))
    assert tally.as_dict() == {
        "total": 1,
        "done": 0,
        "failed": 0,
        "waiting": 0,
        "running": [{"run": run().name, "run_id": run().run_id, "round": 1, "rounds": 10}],
        "rounds": 1,
        "rounds_computed": 1,
        "rounds_per_second": 0.25,
        "seconds": 4.0,
        "seconds_left": 36.0,
    }


def test_share_of_time_outside_training_and_tests(clock):
    """Two runs side by side for 10 s could train and test for 20 s; they did for 8 + 6 + 2 x 0.5 s."""
    one, other = run(seed=1), run(seed=2)
    tally = Tally([one, other], {}, now=clock)
    assert tally.share_outside_clients is None
    tally.count_start(one, 0)
    tally.count_start(other, 0)
    clock.time += 10
    tally.count_round(one, 1, timing(10.0, train_seconds=8.0))
    tally.count_round(other, 1, timing(9.0, train_seconds=6.0))
    assert tally.share_outside_clients == pytest.approx(0.25)


def test_cache_hits_do_not_count_as_computed(clock):
    """A round of an earlier version, one that trained 3 of its 6 clients, one that trained none."""
    tally = Tally([run()], {}, now=clock)
    tally.count_start(run(), 0)
    clock.time += 1
    for number, each in enumerate(
        [timing(1.0), timing(1.0, reached_clients=6, trained_clients=3), taken(0.01)], start=1
    ):
        tally.count_round(run(), number, each)
    assert (tally.rounds, tally.rounds_computed) == (3, 1.5)


def test_cache_hits_shorten_the_time_left(clock):
    """Ten rounds took 10 s, the next five 0.1 s each: 15 in 10.5 s, so the other five may take 3.5 s."""
    first, second = run(seed=1), run(seed=2)
    tally = Tally([first, second], {}, now=clock)
    tally.count_start(first, 0)
    for number in range(1, 11):
        clock.time += 1.0
        tally.count_round(first, number, timing(1.0))
    assert tally.seconds_left == pytest.approx(10.0)
    tally.count_finish(first)
    tally.count_start(second, 0)
    for number in range(1, 6):
        clock.time += 0.1
        tally.count_round(second, number, taken(0.1))
    assert tally.seconds_left == pytest.approx(3.5)


def test_waiting_runs_slow_down_the_pace(clock):
    """Two runs side by side: each computed a round of 2 s while the other waited for it. The 2 x 8 rounds
    that are left, at 1 s each in the mean of the four, take as long as that made of 4 s: 4 x 4 s."""
    first, second = run(seed=1), run(seed=2)
    tally = Tally([first, second], {}, now=clock)
    tally.count_start(first, 0)
    tally.count_start(second, 0)
    clock.time += 4.0
    tally.count_round(first, 1, timing(2.0, train_seconds=1.5))
    tally.count_round(second, 1, taken(0.0))
    tally.count_round(second, 2, timing(2.0, train_seconds=1.5))
    tally.count_round(first, 2, taken(0.0))
    assert tally.seconds_left == pytest.approx(16.0)
    assert tally.share_outside_clients == pytest.approx(0.5)


def test_rounds_of_zero_seconds_give_no_time_left(clock):
    tally = Tally([run()], {}, now=clock)
    tally.count_start(run(), 0)
    tally.count_round(run(), 1, taken(0.0))
    assert tally.seconds_left is None


def test_stored_rounds_that_cannot_be_used_are_left_again(clock):
    tally = Tally([run()], {run().run_id: 7}, now=clock)
    assert tally.count_start(run(), 5) == 2
    tally.count_stop(run())
    assert tally.count_start(run(), 5) == 0, "they are counted once"
    clock.time += 1
    tally.count_round(run(), 6, timing(1.0))
    assert tally.seconds_left == pytest.approx(4.0)
