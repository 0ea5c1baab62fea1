"""The order in which runs start."""

from itertools import pairwise, product
from pathlib import Path

import pytest

from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.grids.planning.start_order import sort_runs


def run(algorithm="fedavg", **values):
    return complete_config({"algorithm": algorithm, **values}, Path("unused"))


def test_order_keeps_the_order_of_data_sets():
    runs = [run(dataset="mnist"), run(dataset="digits", training={"rounds": 999})]
    assert sort_runs(runs) == runs


def test_order_starts_the_longest_runs_first():
    """Work is rounds times local epochs; ties go to the run with more clients, which has more tests."""
    short = run(training={"rounds": 10, "local_epochs": 1})
    middle = run(training={"rounds": 5, "local_epochs": 3})
    long = run(training={"rounds": 10, "local_epochs": 3})
    crowded = run(training={"rounds": 10, "local_epochs": 3}, clients=30)
    assert sort_runs([short, middle, long, crowded]) == [crowded, long, middle, short]


def test_order_within_a_shared_prefix_starts_the_earliest_divergence_first():
    """OCFL can diverge from FedAvg in round 2, Briggs in its configured round, FedAvg never."""
    first = [run("fedavg", seed=1), run("ocfl-kmeans", seed=1)]
    second = [run("fedavg", seed=0), run("briggs", seed=0)]
    assert sort_runs([*first, *second]) == [first[1], first[0], second[1], second[0]]


def test_order_within_a_search_starts_the_most_sensitive_settings_first():
    """A lower epsilon_2 or a higher epsilon_1 splits sooner; ties go to the shorter cooldown."""

    def sattler(epsilon_1, epsilon_2, cooldown):
        settings = {"epsilon_1": epsilon_1, "epsilon_2": epsilon_2, "cooldown": cooldown}
        return run({"name": "sattler", **settings})

    ready = [sattler(0.4, 0.2, 2), sattler(0.4, 0.2, 5), sattler(0.1, 0.2, 2), sattler(0.4, 0.9, 2)]
    assert sort_runs(ready[::-1]) == ready
    rounds = [run({"name": "briggs", "round": number}) for number in (3, 8)]
    assert sort_runs(rounds[::-1]) == rounds


def shared_prefixes(seeds, *algorithms):
    """Return the runs of `seeds` shared prefixes in the order of a grid: one shared prefix a seed."""
    return [run(name, seed=seed) for seed, name in product(range(seeds), algorithms)]


def names(runs):
    return [f"{one.algorithm.name} {one.seed}" for one in runs]


@pytest.mark.parametrize(
    ("runs", "at_once", "expected"),
    [
        (shared_prefixes(2, "briggs", "fedavg"), 1, "briggs 0, fedavg 0, briggs 1, fedavg 1"),
        (
            shared_prefixes(4, "briggs", "fedavg"),
            2,
            "briggs 0, briggs 1, fedavg 0, fedavg 1, briggs 2, briggs 3, fedavg 2, fedavg 3",
        ),
        (
            shared_prefixes(3, "fedavg", "briggs"),
            2,
            "briggs 0, briggs 1, briggs 2, fedavg 0, fedavg 1, fedavg 2",
        ),
        (shared_prefixes(1, "briggs", "fedavg", "sattler"), 4, "sattler 0, briggs 0, fedavg 0"),
        (
            [run("briggs", seed=0), run("sattler", seed=0), run("fedavg", seed=1)],
            2,
            "sattler 0, fedavg 1, briggs 0",
        ),
    ],
    ids=["one at a time", "side by side", "left over: not alone", "one prefix", "resumed"],
)
def test_order_puts_as_many_shared_prefixes_side_by_side_as_run_at_once(runs, at_once, expected):
    assert ", ".join(names(sort_runs(runs, at_once))) == expected


def test_order_separates_shared_prefixes_of_different_settings():
    fast, slow = ({"learning_rate": rate} for rate in (0.1, 0.01))
    runs = [run(name, training=rate) for name, rate in product(("briggs", "fedavg"), (fast, slow))]
    assert sort_runs(runs, 1) == [runs[0], runs[2], runs[1], runs[3]]
    assert sort_runs(runs, 2) == [runs[0], runs[1], runs[2], runs[3]]


@pytest.mark.parametrize("at_once", [2, 3, 5, 99])
def test_order_has_every_run_once_and_neighbours_of_different_shared_prefixes(at_once):
    """All shared prefixes have the same number of runs, so no run has to follow one of its own."""
    runs = shared_prefixes(7, "fedavg", "briggs", "sattler")
    ordered = sort_runs(runs, at_once)
    assert sorted(names(ordered)) == sorted(names(runs))
    assert all(one.shared_prefix != other.shared_prefix for one, other in pairwise(ordered))
