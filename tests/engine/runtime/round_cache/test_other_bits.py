"""Clients that train again and get other bits, as on a GPU: a round never mixes two trainings."""

import numpy as np

from tests.helpers.small_runs import (
    CLIENTS,
    ArithmeticPool,
    config,
    count_trained,
    files,
    find_differing,
    play,
    rows,
    warnings,
)


class Drifting(ArithmeticPool):
    """The same clients on a device whose bits differ."""

    drift = 1e-3


def without_means(root, number):
    for entry in files(root, f"{number:06d}-*-mean-*"):
        entry.unlink()


def test_state_and_statistics_of_a_round_are_of_one_training(tmp_path):
    """The second run finds the reports of round 1, but no mean: it trains, and takes nothing of the first."""
    play(config(training={"rounds": 1}), tmp_path, ArithmeticPool())
    without_means(tmp_path, 1)
    run = config("ocfl-kmeans", training={"rounds": 1})
    play(run, tmp_path, Drifting())
    assert find_differing(run, tmp_path, Drifting) == []
    assert count_trained(run, tmp_path) == [CLIENTS]
    assert [line.split(":", 1)[1] for line in warnings(run, tmp_path)] == [
        " client 0, round 1: trained again with other bits; not shared"
    ]


def test_a_statistic_of_other_updates_is_a_miss(tmp_path):
    """The reports are gone, products and mean of the first training are still there."""
    play(config(training={"rounds": 1}), tmp_path, ArithmeticPool())
    for entry in files(tmp_path, "000001-*-reports"):
        entry.unlink()
    run = config("ocfl-kmeans", training={"rounds": 1})
    play(run, tmp_path, Drifting())
    assert find_differing(run, tmp_path, Drifting) == []
    assert warnings(run, tmp_path) == []


def test_the_same_bits_again_are_shared(tmp_path):
    play(config(training={"rounds": 1}), tmp_path, ArithmeticPool())
    without_means(tmp_path, 1)
    run = config("ocfl-kmeans", training={"rounds": 1})
    play(run, tmp_path, ArithmeticPool())
    assert find_differing(run, tmp_path, ArithmeticPool) == []
    assert warnings(run, tmp_path) == []
    assert len(files(tmp_path, "000001-*-mean-*")) == 1
    assert np.isfinite(rows(run, tmp_path, "rounds")[0]["temperature"])
