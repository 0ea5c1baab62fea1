"""In which order runs start."""

from itertools import pairwise, product
from pathlib import Path

import pytest

from fedgrid.engine.run_config import complete
from fedgrid.grids.planning.start_order import in_order


def run(algorithm="bnc", **values):
    return complete({"algorithm": algorithm, **values}, Path("unused"))


def test_data_sets_keep_their_order():
    runs = [run(dataset="mnist"), run(dataset="digits", training={"rounds": 999})]
    assert in_order(runs) == runs


def test_the_longest_runs_start_first():
    """Work is rounds times local epochs; of equal ones, more clients have more tests."""
    short = run(training={"rounds": 10, "local_epochs": 1})
    middle = run(training={"rounds": 5, "local_epochs": 3})
    long = run(training={"rounds": 10, "local_epochs": 3})
    crowded = run(training={"rounds": 10, "local_epochs": 3}, clients=30)
    assert in_order([short, middle, long, crowded]) == [crowded, long, middle, short]


def test_of_a_scenario_who_acts_first_starts_first():
    """OCFL acts from round 2 on, Briggs in its round, plain averaging never."""
    first = [run("bnc", seed=1), run("ocfl-kmeans", seed=1)]
    second = [run("bnc", seed=0), run("briggs", seed=0)]
    assert in_order([*first, *second]) == [first[1], first[0], second[1], second[0]]


def test_of_a_search_who_splits_most_readily_starts_first():
    """A lower epsilon_2 or a higher epsilon_1 is passed sooner; with both the same the cooldown decides."""

    def sattler(epsilon_1, epsilon_2, cooldown):
        settings = {"epsilon_1": epsilon_1, "epsilon_2": epsilon_2, "cooldown": cooldown}
        return run({"name": "sattler", **settings})

    ready = [sattler(0.4, 0.2, 2), sattler(0.4, 0.2, 5), sattler(0.1, 0.2, 2), sattler(0.4, 0.9, 2)]
    assert in_order(ready[::-1]) == ready
    rounds = [run({"name": "briggs", "round": number}) for number in (3, 8)]
    assert in_order(rounds[::-1]) == rounds


def trunks(seeds, *algorithms):
    """Return runs of a trunk a seed, as a grid declares them."""
    return [run(name, seed=seed) for seed, name in product(range(seeds), algorithms)]


def told(runs):
    return [f"{one.algorithm['name']} {one.seed}" for one in runs]


def test_one_by_one_a_trunk_ends_before_the_next_starts():
    assert told(in_order(trunks(2, "briggs", "bnc"), 1)) == ["briggs 0", "bnc 0", "briggs 1", "bnc 1"]


def test_runs_that_go_side_by_side_are_of_different_trunks():
    """Two at once: the first two trunks take turns, then the other two."""
    assert told(in_order(trunks(4, "briggs", "sattler", "bnc"), 2)) == [
        *("sattler 0", "sattler 1", "briggs 0", "briggs 1", "bnc 0", "bnc 1"),
        *("sattler 2", "sattler 3", "briggs 2", "briggs 3", "bnc 2", "bnc 3"),
    ]


def test_a_trunk_that_is_left_over_takes_turns_with_the_last():
    """Were it alone, its runs would go side by side."""
    assert told(in_order(trunks(3, "bnc", "briggs"), 2)) == [
        *("briggs 0", "briggs 1", "briggs 2", "bnc 0", "bnc 1", "bnc 2"),
    ]


def test_a_trunk_with_fewer_runs_leaves_its_turn_to_the_others():
    """As when a grid goes on: trunk 0 has two runs left, trunk 1 one."""
    left = [run("briggs", seed=0), run("sattler", seed=0), run("bnc", seed=1)]
    assert told(in_order(left, 2)) == ["sattler 0", "bnc 1", "briggs 0"]


def test_runs_of_other_settings_have_a_trunk_of_their_own():
    fast, slow = ({"learning_rate": rate} for rate in (0.1, 0.01))
    runs = [run(name, training=rate) for name, rate in product(("briggs", "bnc"), (fast, slow))]
    assert in_order(runs, 1) == [runs[0], runs[2], runs[1], runs[3]]
    assert in_order(runs, 2) == [runs[0], runs[1], runs[2], runs[3]]


def test_one_trunk_has_nobody_to_take_turns_with():
    assert told(in_order(trunks(1, "briggs", "bnc", "sattler"), 4)) == ["sattler 0", "briggs 0", "bnc 0"]


@pytest.mark.parametrize("at_once", [2, 3, 5, 99])
def test_every_run_starts_once_and_neighbours_differ(at_once):
    """All trunks have as many runs, so that nobody has to follow one of its own."""
    runs = trunks(7, "bnc", "briggs", "sattler")
    ordered = in_order(runs, at_once)
    assert sorted(told(ordered)) == sorted(told(runs))
    assert all(one.trunk != other.trunk for one, other in pairwise(ordered))
