"""Robust means in runs: the round cache serves them, and their draws are the run's."""

import pytest

from fedgrid.algorithms.registry import create_algorithm
from tests.helpers.small_cases import Federation, check_valid
from tests.helpers.small_runs import config, count_trained, find_differing, play

BUCKETS = {"name": "bucketing", "size": 2}


@pytest.mark.parametrize(
    "aggregate",
    [
        {"name": "geometric-median"},
        {"name": "multi-krum", "before": BUCKETS},
        {"name": "trimmed-mean", "before": BUCKETS},
    ],
    ids=lambda aggregate: aggregate["name"],
)
def test_deviating_run_caches_what_runs_that_keep_the_partition_need(tmp_path, aggregate):
    """They train nobody before the round after the split, and get the numbers that they get alone."""
    play(config({"name": "briggs", "round": 2, "aggregate": aggregate}), tmp_path)
    run = config({"name": "fedavg", "aggregate": aggregate})
    play(run, tmp_path)
    assert count_trained(run, tmp_path)[:2] == [0, 0]
    assert find_differing(run, tmp_path) == []


@pytest.mark.parametrize("name", ["louvain", "flis-dc", "flis-hc-as-published", "ifca", "oracle"])
def test_averaging_algorithms_take_a_mean_that_draws(name):
    """Of updates, or of models where an algorithm averages these."""
    settings = {"aggregate": {"name": "trimmed-mean", "before": BUCKETS}}
    (state, _), *_ = Federation().play(create_algorithm(name, settings))
    check_valid(state, 12)
