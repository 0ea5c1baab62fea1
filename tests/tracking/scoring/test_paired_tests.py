"""The exact signed-rank test, its effect and its interval, by hand and against SciPy's own."""

import numpy as np
import pytest
from scipy.stats import permutation_test, rankdata, wilcoxon

from fedgrid.tracking.scoring.paired_tests import compare_signed_ranks


def against_zero(differences):
    return compare_signed_ranks(np.array(differences, float), np.zeros(len(differences)))


def test_the_printed_critical_value_of_ten_pairs():
    """Wilcoxon's table has T = 8 for n = 10: 25 subsets of 1..10 have a sum up to 8; 2 x 25 / 1024."""
    lost = {3, 5}
    assert against_zero([-rank if rank in lost else rank for rank in range(1, 11)]).p == 50 / 1024


@pytest.mark.parametrize("num_pairs", [7, 12, 40])
def test_without_ties_and_zeros_p_is_scipys_exact_one(num_pairs):
    differences = np.random.default_rng(num_pairs).normal(0.3, 1, num_pairs)
    assert against_zero(differences).p == pytest.approx(wilcoxon(differences, method="exact").pvalue)


@pytest.mark.parametrize("differences", [[0, 0, 1, 1, -1, 2, 3], [0, 2, 2, 2, -1, -1, 5, -3], [0, 0, 0, -1]])
def test_with_ties_and_zeros_p_is_that_of_all_sign_choices(differences):
    """SciPy enumerates them, with the sum of Pratt's signed ranks as the statistic."""

    def statistic(chosen, axis):
        return (np.sign(chosen) * rankdata(np.abs(chosen), axis=axis)).sum(axis=axis)

    enumerated = permutation_test(
        (np.array(differences, float),), statistic, permutation_type="samples", n_resamples=np.inf
    )
    assert against_zero(differences).p == pytest.approx(enumerated.pvalue)


def test_equal_scores_have_a_p_of_1_and_no_effect():
    """0.1 + 0.2 and 0.3 are equal despite rounding."""
    found = compare_signed_ranks(np.full(6, 0.1 + 0.2), np.full(6, 0.3))
    assert (found.p, found.effect, found.interval) == (1.0, 0.0, (0.0, 0.0))
    assert (found.better, found.equal, found.worse) == (0, 6, 0)


def test_p_of_hundreds_of_pairs_is_a_probability():
    """Two of 2^300 choices: all of one sign."""
    assert against_zero(np.arange(1, 301)).p == pytest.approx(2.0**-299)


def test_the_effect_is_ranks_won_minus_ranks_lost_over_all_ranks():
    """Of 0, 1, -2, 3 the ranks are 1 to 4: won 2 + 4, lost 3, of 10."""
    found = against_zero([0, 1, -2, 3])
    assert found.effect == pytest.approx(0.3)
    assert (found.better, found.equal, found.worse) == (2, 1, 1)


def test_the_effect_without_zeros_is_the_rank_biserial_correlation_of_pingouin():
    """Its documentation of `wilcoxon`: W 20.5, RBC -0.378788; it leaves out the pair of two equal scores."""
    one = [20, 22, 19, 20, 22, 18, 24, 20, 19, 24, 13]
    other = [38, 37, 33, 29, 14, 12, 20, 22, 17, 25, 16]
    assert compare_signed_ranks(np.array(one), np.array(other)).effect == pytest.approx(-0.378788, abs=5e-7)


def test_few_differences_among_many_equal_pairs_are_a_small_effect():
    """Ranks 37 to 40 of 1 to 40: 154 / 820."""
    found = against_zero([0.0] * 36 + [0.1, 0.2, 0.3, 0.4])
    assert found.effect == pytest.approx(154 / 820)
    assert found.interval[0] < found.effect < found.interval[1]


def test_the_interval_covers_zero_where_nothing_is_won_and_not_where_almost_all_is():
    even = against_zero(np.arange(1, 31) * np.array([1, -1] * 15))
    won = against_zero([*range(1, 30), -0.5])
    assert even.interval[0] < 0 < even.interval[1]
    assert won.interval[0] > 0.5
    assert won.interval[1] == 1.0
    assert against_zero(range(1, 31)).interval == (1.0, 1.0)


def test_the_interval_narrows_with_the_number_of_pairs():
    """Four times as many pairs: about half as wide."""
    few, many = (against_zero([3, 1, -2, 2.5, -0.5] * count).interval for count in (6, 24))
    assert (many[1] - many[0]) / (few[1] - few[0]) == pytest.approx(0.5, abs=0.1)


def test_the_same_pairs_have_the_same_interval_and_the_second_sees_it_turned():
    one, other = np.random.default_rng(0).normal(size=(2, 20))
    found = compare_signed_ranks(one, other)
    assert found == compare_signed_ranks(one, other)
    seen = compare_signed_ranks(other, one)
    assert (found.better, found.worse, found.p) == (seen.worse, seen.better, seen.p)
    assert (-found.effect, *found.interval) == pytest.approx(
        (seen.effect, -seen.interval[1], -seen.interval[0])
    )


def test_no_pairs_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        against_zero([])


def test_six_wins_of_six_are_2_of_64_sign_choices_and_five_of_five_2_of_32():
    assert against_zero([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]).p == 2 / 64
    assert against_zero([0.1, 0.2, 0.3, 0.4, 0.5]).p == 2 / 32


def test_four_differences_of_one_sign_among_forty_have_a_p_of_an_eighth():
    """2 of 2^4 sign choices; the normal approximation says 0.046."""
    differences = [0.0] * 36 + [0.1, 0.2, 0.3, 0.4]
    found = against_zero(differences)
    assert found.p == 2 / 16
    assert not found.is_testable
    assert wilcoxon(differences, zero_method="pratt").pvalue == pytest.approx(0.0456, abs=1e-4)
