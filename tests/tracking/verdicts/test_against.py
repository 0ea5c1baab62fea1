"""A method against its rivals: differences, corrected p, what one family decides, what could be shown."""

from math import inf

import numpy as np
import pytest

from fedgrid.tracking.scoring.paired_tests import apply_holm, compute_effect_and_p
from fedgrid.tracking.verdicts.power import (
    bootstrap_mean_interval,
    count_blocks_needed,
    find_least_shown_difference,
    judge_pairs,
)
from fedgrid.tracking.verdicts.verdict import compare_with_rivals

BLOCKS = [("digits", f"family {number}") for number in range(10)]


def scores(**by_method):
    return {method: dict(zip(BLOCKS, values, strict=False)) for method, values in by_method.items()}


def test_method_that_wins_every_block_is_better_and_one_that_loses_is_worse():
    """Ten differences of one sign: p = 2 / 2^10 = 0.00195, times 2 rivals."""
    mine = np.linspace(0.5, 0.6, 10)
    low, high = compare_with_rivals(
        "mine", ["low", "high"], scores(mine=mine, low=mine - 0.1, high=mine + 0.2)
    )
    assert (low.rival, low.verdict, low.effect) == ("low", "better", 1.0)
    assert low.difference == pytest.approx(0.1)
    assert (high.verdict, high.effect) == ("worse", -1.0)
    assert low.p == pytest.approx(2 * 2 / 2**10)


def test_interval_of_the_difference_is_of_means_over_families_drawn_anew():
    """Half of twenty differences are 0, half 1: the mean of a sample is binomial, 6/20 to 14/20 in 95 %."""
    low, high = bootstrap_mean_interval(np.repeat([0.0, 1.0], 10))
    assert (low, high) == pytest.approx((0.3, 0.7), abs=0.03)
    assert bootstrap_mean_interval(np.full(5, 0.25)) == (0.25, 0.25)


def test_family_that_decides_is_named():
    """Of six differences of one sign p is 2 / 2^6, of the other five 2 / 2^5 > 0.05: each of the six decides.
    Of one more with the other sign, the largest, it is the other way round."""
    mine = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.0])
    [against] = compare_with_rivals("mine", ["other"], scores(mine=mine, other=0 * mine))
    assert (against.verdict, against.without) == ("better", dict.fromkeys(BLOCKS[:6], "not shown"))
    mine[6] = -0.7
    [against] = compare_with_rivals("mine", ["other"], scores(mine=mine, other=0 * mine))
    assert (against.verdict, against.without) == ("not shown", {BLOCKS[6]: "better"})


def test_many_tests_at_once_are_the_exact_test():
    rng = np.random.default_rng(0)
    differences_PN = np.round(rng.normal(1, 1, (10, 16)), 1) * (rng.random((10, 16)) < 0.9)
    tests = [compute_effect_and_p(one, np.zeros(16)) for one in differences_PN]
    expected = [
        "not shown" if p >= 0.05 else "better" if effect > 0 else "worse"
        for (effect, _), p in zip(tests, apply_holm([p for _, p in tests]), strict=True)
    ]
    assert judge_pairs(differences_PN) == expected
    assert "better" in expected


def test_blocks_needed_are_those_of_one_sign():
    """2 / 2^6 = 0.031; of 190 tests 190 * 2 / 2^13 = 0.046."""
    assert [count_blocks_needed(tests) for tests in (1, 190)] == [6, 13]


@pytest.mark.parametrize(
    "differences",
    [
        np.zeros(12),
        # Five that differ have p 2 / 2^5; drawn with replacement, six or more of seven are in few samples.
        np.array([0.2, 0.1, 0.3, 0.2, 0.1] + [0.0] * 7),
        np.array([0.2, 0.1, 0.3, 0.2, 0.1, 0.3, 0.2] + [0.0] * 11),
        np.array([0.1, 0.2, 0.15, 0.12, 0.18]),
    ],
    ids=["equal", "five differ", "seven of eighteen differ", "five blocks"],
)
def test_nothing_can_be_shown_where_too_few_blocks_differ(differences):
    assert find_least_shown_difference(differences, 1) == inf


def test_least_difference_is_shown_about_four_times_in_five():
    """By brute force: blocks are drawn anew; signs favour the method as the least difference says."""
    sizes = np.array([0.02, 0.05, 0.01, 0.0, 0.03, 0.04, 0.02, 0.06, 0.01, 0.0, 0.02, 0.03, 0.05, 0.01])
    least = find_least_shown_difference(sizes, 1)
    q = (least / sizes.mean() + 1) / 2
    assert 0.5 < q < 1
    rng = np.random.default_rng(1)
    drawn = rng.choice(sizes, (300, len(sizes))) * np.where(rng.random((300, len(sizes))) < q, 1, -1)
    shown = [judge_pairs(one[None]) == ["better"] for one in drawn]
    assert 0.7 < np.mean(shown) < 0.9
