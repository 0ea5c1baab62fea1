"""Tests of paired scores: exact signed ranks of two algorithms, Friedman's of all, Holm's correction.

Source: Wilcoxon 1945, Biometrics Bulletin 1; Pratt 1959, JASA 54 (zero differences are ranked with the
others, and their ranks then have no sign); the effect is the matched-pairs rank-biserial correlation, Kerby
2014, Comprehensive Psychology 3; Demsar 2006, "Statistical comparisons of classifiers over multiple data
sets", JMLR 7; Holm 1979, Scandinavian Journal of Statistics 6. Shapes: S scenarios (pairs), A algorithms, D
data sets, or pairs with a difference.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import sqrt
from operator import itemgetter
from typing import Any

import numpy as np

from fedgrid.tracking.arrays import Array, group_by

DIGITS = 12
"""Decimal digits to which scores are compared, so that equal means over seeds are ties despite rounding."""
LEAST_DIFFERENCES = 6
"""With five differences that are not zero, p is at least 2 / 2^5 > 0.05, even if all have one sign."""
LEVEL = 0.95
"""Confidence level of the intervals."""


@dataclass(frozen=True)
class SignedRanks:
    """Comparison of paired scores, from the view of the first of the two."""

    better: int
    """Number of pairs in which the first is better."""
    equal: int
    worse: int
    effect: float
    """Rank-biserial: (ranks won - ranks lost) / all ranks. 1: better in all pairs, -1: worse in all; a pair
    without a difference counts for neither, so that few differences are a small effect."""
    p: float
    """Two-sided and exact, whatever ties and zeros there are."""
    differences: tuple[float, ...] = field(repr=False)
    """The first's score minus the second's, in each pair."""

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Interval of the effect: percentiles of a bootstrap over the pairs, most of the test's time."""
        return _bootstrap_interval(np.array(self.differences))

    @property
    def is_testable(self) -> bool:
        """Whether enough pairs differ for a p below 0.05."""
        return self.better + self.worse >= LEAST_DIFFERENCES


def compare_signed_ranks(one_S: Array, other_S: Array) -> SignedRanks:
    """Compare paired scores, of which more is better.

    Raises:
        ValueError: if there is no pair.
    """
    differences_S = _compute_differences(one_S, other_S)
    better, equal, worse = (int((np.sign(differences_S) == sign).sum()) for sign in (1, 0, -1))
    effect, p = compute_effect_and_p(one_S, other_S)
    return SignedRanks(better, equal, worse, effect, p, tuple(differences_S.tolist()))


def compute_effect_and_p(one_S: Array, other_S: Array) -> tuple[float, float]:
    """Compute `effect` and `p` of `compare_signed_ranks`."""
    differences_S = _compute_differences(one_S, other_S)
    return float(_compute_effect(differences_S)), _compute_exact_p(_rank_with_signs(differences_S))


def _compute_differences(one_S: Array, other_S: Array) -> Array:
    """Compute the differences of paired scores, rounded to `DIGITS`; an error without pairs."""
    differences_S = np.round(np.asarray(one_S, np.float64) - np.asarray(other_S, np.float64), DIGITS)
    if not len(differences_S):
        raise ValueError("no pairs to compare: expected at least one")
    return differences_S


def _rank_with_signs(differences: Array, axis: int = -1) -> Array:
    """Rank the absolute differences by Pratt's method, with the differences' signs; 0 for no difference."""
    from scipy.stats import rankdata

    return np.asarray(np.sign(differences) * rankdata(np.abs(differences), axis=axis))


def _compute_effect(differences: Array, axis: int = -1) -> Any:
    """Compute the rank-biserial effect of differences along an axis."""
    num_pairs = differences.shape[axis]
    return _rank_with_signs(differences, axis).sum(axis=axis) / (num_pairs * (num_pairs + 1) / 2)


def _bootstrap_interval(differences_S: Array) -> tuple[float, float]:
    """Compute the bootstrap interval of the effect."""
    from scipy.stats import bootstrap

    if (differences_S == differences_S[0]).all():
        # Every resample is the sample.
        effect = float(_compute_effect(differences_S))
        return effect, effect
    settings = {"n_resamples": 2000, "confidence_level": LEVEL, "method": "percentile"}
    # A fixed seed of its own: the interval of the same scores is the same in every report.
    resampled = bootstrap((differences_S,), _compute_effect, rng=np.random.default_rng(0), **settings)
    return float(resampled.confidence_interval.low), float(resampled.confidence_interval.high)


def _compute_exact_p(signed_S: Array) -> float:
    """Compute the share of all 2^D choices of signs whose sum is as far from 0 as that of the given ones.

    SciPy enumerates these choices, which ends at some 15 pairs; ranks are multiples of a half, so that the
    distribution of the sum can be built up rank by rank for hundreds.
    """
    doubled_D = np.rint(2 * np.abs(signed_S[signed_S != 0])).astype(int)
    # Dynamic programming over ranks, doubled to be whole: entry i is the chance that the positive ranks so
    # far add up to i. Halving at each step keeps it a probability and avoids 2^D.
    chances = np.ones(1)
    for rank in np.sort(doubled_D):
        grown = np.zeros(len(chances) + rank)
        grown[: len(chances)] = chances
        grown[rank:] += chances
        chances = grown / 2
    # With positive ranks of the sum i, the sum of all signed ranks is 2 i - total.
    sums = 2 * np.arange(len(chances)) - (len(chances) - 1)
    return min(1.0, float(chances[np.abs(sums) >= abs(round(2 * float(signed_S.sum())))].sum()))


ALPHA = 0.05
LEAST_DATASETS = 3
"""Smallest number of data sets for a test over them: two leave one degree of freedom."""
LEAST_SEEDS = 3
"""Smallest number of seeds for a test over them."""

SeedScores = Mapping[tuple[Any, int], float]
"""Scenario and seed -> score."""


@dataclass(frozen=True)
class Pair:
    """Two algorithms, the one with the better average rank first."""

    one: str
    other: str
    test: SignedRanks
    """Over scenarios."""
    p: float | None
    """Of `test` after Holm's correction; None if they differ in fewer than `LEAST_DIFFERENCES` scenarios."""
    p_datasets: float | None
    """Over data sets, after Holm's correction; None without a test, or if all differences are the same."""

    @property
    def is_significant(self) -> bool:
        """Whether the difference over scenarios is significant."""
        return self.p is not None and self.p < ALPHA


def compute_average_ranks(losses_SA: Array) -> Array:
    """Compute the mean rank over scenarios, shape (A,): 1 for the least loss, ties share their mean rank."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(losses_SA, axis=1).mean(axis=0))


def apply_holm(p_values: Sequence[float]) -> list[float]:
    """Apply Holm's correction (1979) to p-values.

    The i-th least of m is multiplied by m - i + 1; the results do not decrease with i and are at most 1.
    """
    corrected = [0.0] * len(p_values)
    least = 0.0
    for place, index in enumerate(np.argsort(p_values, kind="stable").tolist()):
        least = max(least, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = least
    return corrected


def compute_friedman_p(losses_SA: Array) -> float | None:
    """Compute p of Friedman's test, 1 if all algorithms are equal everywhere; None for fewer than three."""
    from scipy.stats import friedmanchisquare

    if losses_SA.shape[1] < 3:
        return None
    if (losses_SA == losses_SA[:, :1]).all():
        # SciPy divides by zero here: without any difference in rank its statistic is 0 / 0.
        return 1.0
    return float(friedmanchisquare(*losses_SA.T).pvalue)


def average_by_dataset(losses_SA: Array, datasets_S: Sequence[str]) -> Array:
    """Compute the means over the scenarios of each data set, shape (D, A); no row without a test."""
    names_S = np.array(datasets_S)
    names = dict.fromkeys(datasets_S)
    # With one scenario in each data set the test over data sets would repeat the one over scenarios.
    if not LEAST_DATASETS <= len(names) < len(losses_SA):
        return losses_SA[:0]
    return np.round(np.stack([losses_SA[names_S == name].mean(axis=0) for name in names]), DIGITS)


def compare_pairs(algorithms: Sequence[str], losses_SA: Array, losses_DA: Array) -> tuple[Pair, ...]:
    """Compare every pair of algorithms over scenarios and, if `losses_DA` has rows, over data sets.

    Args:
        algorithms: A names, best rank first.
        losses_SA: losses by scenario, less is better.
        losses_DA: mean losses by data set, as of `average_by_dataset`.

    Returns:
        The pairs in the order of `algorithms`, with p-values after Holm's correction over all pairs.
    """
    places = list(combinations(range(len(algorithms)), 2))
    tests = [compare_signed_ranks(-losses_SA[:, one], -losses_SA[:, other]) for one, other in places]
    # Pairs too alike to be tested count in the correction too, which keeps it conservative.
    corrected = apply_holm([test.p for test in tests])
    # A second test over data sets, because scenarios of one data set are not independent.
    dataset_p_values = [_compute_paired_t(losses_DA[:, one] - losses_DA[:, other]) for one, other in places]
    corrected_datasets = iter(apply_holm([p for p in dataset_p_values if p is not None]))
    return tuple(
        Pair(
            algorithms[one],
            algorithms[other],
            test,
            p if test.is_testable else None,
            None if p_datasets is None else next(corrected_datasets),
        )
        for (one, other), test, p, p_datasets in zip(places, tests, corrected, dataset_p_values, strict=True)
    )


def compute_mean_and_half(values_N: Array) -> tuple[float, float]:
    """Compute the mean of two or more values, and half the width of its t interval at `LEVEL`."""
    from scipy.stats import t

    error = float(np.std(values_N, ddof=1)) / sqrt(len(values_N))
    return float(np.mean(values_N)), float(t.ppf((1 + LEVEL) / 2, len(values_N) - 1)) * error


def _compute_paired_t(differences_D: Array) -> float | None:
    """Compute p of the t-test of paired means; None without means, or if all differences are the same.

    With as many scenarios in each data set this is the test of a mixed model in which the data set, and the
    difference in it, are random. An exact test of signs would take six data sets.
    """
    from scipy.stats import ttest_1samp

    differences_D = np.round(differences_D, DIGITS)
    if not len(differences_D) or (differences_D == differences_D[0]).all():
        return None
    return float(ttest_1samp(differences_D, 0.0).pvalue)


def differences_by_seed(one: SeedScores, other: SeedScores) -> Array:
    """Compute the differences of two algorithms' scores: a mean over scenarios for each seed of both.

    A seed that one of them lacks in a scenario is left out.
    """
    shared = [key for key in one if key in other]
    scenarios = {scenario for scenario, _ in shared}
    groups = group_by(shared, itemgetter(1)).values()
    return np.array(
        [
            np.mean([one[place] - other[place] for place in places])
            for places in groups
            if len(places) == len(scenarios)
        ]
    )


def compute_seeds_p(differences_N: Array) -> float | None:
    """Compute p of the paired t-test over N seeds, None for fewer than `LEAST_SEEDS`.

    Five seeds, as papers have them, cannot reach 0.05 in an exact test of signs. Of differences that are all
    the same p is the limit: 0, or 1 if there is none.
    """
    if len(differences_N) < LEAST_SEEDS:
        return None
    p = _compute_paired_t(differences_N)
    return float(np.allclose(differences_N, 0, atol=10**-DIGITS)) if p is None else p


def find_cliques(algorithms: Sequence[str], apart: Collection[frozenset[str]]) -> tuple[tuple[str, ...], ...]:
    """Find the maximal ranges of two or more neighbours of which no two are `apart`."""
    ranges: list[tuple[str, ...]] = []
    last = 1
    for start in range(len(algorithms)):
        stop = start + 1
        while stop < len(algorithms) and not any(
            frozenset((algorithms[stop], earlier)) in apart for earlier in algorithms[start:stop]
        ):
            stop += 1
        # A range that ends where an earlier one did lies within it, and is not maximal.
        if stop > max(last, start + 1):
            ranges.append(tuple(algorithms[start:stop]))
            last = stop
    return tuple(ranges)
