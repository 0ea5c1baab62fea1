"""In which order runs start."""

from pathlib import Path

from engine.run_config import complete
from grids.order import in_order


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


def test_of_a_scenario_the_run_that_never_clusters_starts_first():
    first = [run("ocfl-kmeans", seed=1), run("bnc", seed=1)]
    second = [run("briggs", seed=0), run("bnc", seed=0)]
    assert in_order([*first, *second]) == [first[1], first[0], second[1], second[0]]
