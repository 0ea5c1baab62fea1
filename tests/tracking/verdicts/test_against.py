"""A method against its rivals: differences, intervals, corrected p, and what could not have been shown."""

from math import inf, sqrt

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from fedgrid.tracking.verdicts.verdict import against_all, least_difference

BLOCKS = range(10)


def scores(**by_method):
    return {method: dict(zip(BLOCKS, values, strict=False)) for method, values in by_method.items()}


def test_method_that_wins_every_block_is_better_and_one_that_loses_is_worse():
    """Ten differences of one sign: p = 2 / 2^10 = 0.00195, times 2 rivals."""
    mine = np.linspace(0.5, 0.6, 10)
    found = against_all("mine", ["low", "high"], scores(mine=mine, low=mine - 0.1, high=mine + 0.2))
    low, high = found
    assert (low.rival, low.verdict, low.effect) == ("low", "better", 1.0)
    assert low.difference == pytest.approx(0.1)
    assert (high.verdict, high.effect) == ("worse", -1.0)
    assert low.p == pytest.approx(2 * 2 / 2**10)


def test_interval_of_the_difference_is_students():
    mine, other = np.array([0.5, 0.7, 0.6, 0.9]), np.array([0.4, 0.5, 0.6, 0.6])
    [found] = against_all("mine", ["other"], scores(mine=mine, other=other))
    expected = ttest_1samp(mine - other, 0.0).confidence_interval(0.95)
    assert found.interval == pytest.approx((expected.low, expected.high))


def test_p_is_corrected_for_the_number_of_rivals():
    mine = np.linspace(0.5, 0.6, 6)
    alone = against_all("mine", ["a"], scores(mine=mine, a=mine - 0.1))
    among = against_all("mine", ["a", "b", "c"], scores(mine=mine, a=mine - 0.1, b=mine, c=mine))
    assert alone[0].p == pytest.approx(2 / 2**6)
    assert among[0].p == pytest.approx(3 * 2 / 2**6)
    assert (alone[0].verdict, among[0].verdict) == ("better", "not shown")


def test_too_few_blocks_can_show_nothing_however_large_the_difference():
    """Of five, p is 2 / 2^5 > 0.05; of six 2 / 2^6, which two rivals make too large again."""
    spread = np.array([0.1, 0.2, 0.15, 0.12, 0.18, 0.11])
    assert least_difference(spread[:5], 1) == inf
    assert least_difference(spread, 1) < inf
    assert least_difference(spread, 2) == inf


def test_least_difference_falls_with_blocks_and_rises_with_spread_and_rivals():
    rng = np.random.default_rng(0)
    few, many = rng.normal(0, 0.1, 12), rng.normal(0, 0.1, 200)
    assert least_difference(many, 1) < least_difference(few, 1)
    assert least_difference(2 * few, 1) == pytest.approx(2 * least_difference(few, 1))
    assert least_difference(few, 10) > least_difference(few, 1)


def test_the_least_difference_is_shown_about_four_times_in_five():
    """Simulated: normal differences around the least difference of their own spread."""
    rng = np.random.default_rng(1)
    pattern = rng.normal(0, 1, 24)
    pattern = (pattern - pattern.mean()) / pattern.std(ddof=1)
    least = least_difference(pattern, 1)
    samples = rng.normal(least, 1, (300, 24))
    shown = [
        against_all("mine", ["other"], {"mine": dict(enumerate(one)), "other": dict(enumerate(0 * one))})[0]
        for one in samples[:60]
    ]
    share = np.mean([each.verdict == "better" for each in shown])
    assert 0.8 - 3 * sqrt(0.16 / 60) < share < 0.8 + 3 * sqrt(0.16 / 60)
