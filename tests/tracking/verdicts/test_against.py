"""The sign-flip test over kinds, the interval of a difference, and what could be shown."""

from itertools import product
from math import inf

import numpy as np
import pytest

from fedgrid.tracking.scoring.paired_tests import apply_holm
from fedgrid.tracking.verdicts.power import (
    bootstrap_mean_interval,
    compute_flip_p,
    count_kinds_needed,
    find_least_shown_difference,
    judge_pairs,
)


def test_p_is_the_share_of_signs_with_a_mean_as_far_from_zero():
    """Of 3, 2, -1 the sum is 4: of eight signs 6, 4, -4 and -6 are as far. One sign in all ten: 2 / 2^10."""
    assert compute_flip_p(np.array([0.3, 0.2, -0.1])) == 4 / 8
    assert compute_flip_p(np.linspace(0.1, 0.2, 10)) == 2 / 2**10
    assert compute_flip_p(np.array([0.1, 0.1, 0.0, 0.1])) == 2 / 2**3
    assert compute_flip_p(np.zeros(5)) == 1


def test_sums_of_two_halves_are_those_of_all_signs():
    rng = np.random.default_rng(0)
    for _ in range(5):
        differences_N = np.round(rng.normal(0.3, 1, 9), 1)
        sums = np.array([*product([-1, 1], repeat=9)]) @ differences_N
        share = np.mean(np.abs(sums) >= abs(differences_N.sum()) - 1e-9)
        assert compute_flip_p(differences_N) == pytest.approx(share)


def test_pairs_are_judged_after_holm():
    """p of six of one sign is 2 / 2^6 = 0.031, of nine 0.004; Holm takes the least of two times two."""
    nine = np.full(9, -0.1)
    six = np.where(np.arange(9) < 6, 0.1, 0.0)
    words, corrected = judge_pairs(np.stack([six, nine]))
    assert corrected == pytest.approx(apply_holm([2 / 2**6, 2 / 2**9]))
    assert words == ["better", "worse"]
    assert judge_pairs(np.stack([six, six]))[0] == ["not shown"] * 2


def test_interval_of_the_difference_is_of_means_over_kinds_drawn_anew():
    """Half of twenty differences are 0, half 1: the mean of a sample is binomial, 6/20 to 14/20 in 95 %."""
    low, high = bootstrap_mean_interval(np.repeat([0.0, 1.0], 10))
    assert (low, high) == pytest.approx((0.3, 0.7), abs=0.03)
    assert bootstrap_mean_interval(np.full(5, 0.25)) == (0.25, 0.25)


def test_kinds_needed_are_those_of_one_sign():
    """2 / 2^6 = 0.031; of 190 tests 190 * 2 / 2^13 = 0.046."""
    assert [count_kinds_needed(tests) for tests in (1, 190)] == [6, 13]


@pytest.mark.parametrize(
    "differences",
    [
        np.zeros(12),
        # Five that differ have p 2 / 2^5; drawn with replacement, six or more of seven are in few samples.
        np.array([0.2, 0.1, 0.3, 0.2, 0.1] + [0.0] * 7),
        np.array([0.2, 0.1, 0.3, 0.2, 0.1, 0.3, 0.2] + [0.0] * 11),
        np.array([0.1, 0.2, 0.15, 0.12, 0.18]),
    ],
    ids=["equal", "five differ", "seven of eighteen differ", "five kinds"],
)
def test_nothing_can_be_shown_where_too_few_kinds_differ(differences):
    assert find_least_shown_difference(differences, 1) == inf


def test_least_difference_is_shown_about_four_times_in_five():
    """By brute force: kinds are drawn anew; signs favour the method as the least difference says."""
    sizes = np.array([0.02, 0.05, 0.01, 0.0, 0.03, 0.04, 0.02, 0.06, 0.01, 0.0, 0.02, 0.03, 0.05, 0.01])
    least = find_least_shown_difference(sizes, 1)
    q = (least / sizes.mean() + 1) / 2
    assert 0.5 < q < 1
    rng = np.random.default_rng(1)
    drawn = rng.choice(sizes, (300, len(sizes))) * np.where(rng.random((300, len(sizes))) < q, 1, -1)
    shown = [judge_pairs(one[None])[0] == ["better"] for one in drawn]
    assert 0.7 < np.mean(shown) < 0.9
