"""Tests of paired losses: Friedman's of all algorithms, and those of each pair with Holm's correction.

Source: Demsar 2006, "Statistical comparisons of classifiers over multiple data sets", JMLR 7; Holm 1979,
Scandinavian Journal of Statistics 6. Shapes: S scenarios, A algorithms, D data sets.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fedgrid.tracking.arrays import Array
from fedgrid.tracking.scoring.signed_ranks import DIGITS, SignedRanks, signed_ranks

ALPHA = 0.05
LEAST_DATASETS = 3
"""For a test over data sets: two leave one degree of freedom."""
LEAST_SEEDS = 3
"""For a test over seeds."""

Scores = Mapping[tuple[object, int], float]
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
    def differs(self) -> bool:
        """Whether the difference over scenarios is significant."""
        return self.p is not None and self.p < ALPHA


def average_ranks(losses_SA: Array) -> Array:
    """Return the mean rank over scenarios, shape (A,): 1 for the least loss, ties share their mean rank."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(losses_SA, axis=1).mean(axis=0))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values after Holm's correction (1979): the i-th least of m is multiplied by m - i + 1; the
    results do not decrease with i and are at most 1.
    """
    corrected = [0.0] * len(p_values)
    least = 0.0
    for place, index in enumerate(np.argsort(p_values, kind="stable").tolist()):
        least = max(least, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = least
    return corrected


def friedman(losses_SA: Array) -> float | None:
    """Return p of Friedman's test, 1 if all algorithms are equal everywhere; None for fewer than three."""
    from scipy.stats import friedmanchisquare

    if losses_SA.shape[1] < 3:
        return None
    if (losses_SA == losses_SA[:, :1]).all():
        return 1.0
    return float(friedmanchisquare(*losses_SA.T).pvalue)


def over_datasets(losses_SA: Array, datasets_S: Sequence[str]) -> Array:
    """Return the means over the scenarios of each data set, shape (D, A); no row if there is nothing to
    test."""
    names_S = np.array(datasets_S)
    names = dict.fromkeys(datasets_S)
    if not LEAST_DATASETS <= len(names) < len(losses_SA):
        return losses_SA[:0]
    return np.round(np.stack([losses_SA[names_S == name].mean(axis=0) for name in names]), DIGITS)


def compare_pairs(algorithms: Sequence[str], losses_SA: Array, losses_DA: Array) -> tuple[Pair, ...]:
    """Return every pair of algorithms, tested over scenarios and, if `losses_DA` has rows, over data sets."""
    places = list(combinations(range(len(algorithms)), 2))
    tests = [signed_ranks(-losses_SA[:, one], -losses_SA[:, other]) for one, other in places]
    corrected = holm([test.p for test in tests])
    of_datasets = [_paired_t(losses_DA[:, one] - losses_DA[:, other]) for one, other in places]
    known = iter(holm([p for p in of_datasets if p is not None]))
    return tuple(
        Pair(
            algorithms[one],
            algorithms[other],
            test,
            p if test.is_testable else None,
            None if p_datasets is None else next(known),
        )
        for (one, other), test, p, p_datasets in zip(places, tests, corrected, of_datasets, strict=True)
    )


def _paired_t(differences_D: Array) -> float | None:
    """Return p of the t-test of paired means; None if there are none, or if all differences are the same.

    With as many scenarios in each data set this is the test of a mixed model in which the data set, and the
    difference in it, are random. An exact test of signs would take six data sets.
    """
    from scipy.stats import ttest_1samp

    differences_D = np.round(differences_D, DIGITS)
    if not len(differences_D) or (differences_D == differences_D[0]).all():
        return None
    return float(ttest_1samp(differences_D, 0.0).pvalue)


def by_seed(one: Scores, other: Scores) -> Array:
    """Return the differences of two algorithms' scores, a mean over scenarios for each seed that both have.

    A seed that one of them lacks in a scenario is left out.
    """
    shared = [key for key in one if key in other]
    scenarios = {scenario for scenario, _ in shared}
    found: dict[int, list[float]] = {}
    for scenario, seed in shared:
        found.setdefault(seed, []).append(one[scenario, seed] - other[scenario, seed])
    return np.array([np.mean(each) for each in found.values() if len(each) == len(scenarios)])


def seeds_test(differences_N: Array) -> float | None:
    """Return p of the paired t-test over N seeds, None for fewer than `LEAST_SEEDS`.

    Five seeds, as papers have them, cannot reach 0.05 in an exact test of signs. Of differences that are all
    the same p is the limit: 0, or 1 if there is none.
    """
    if len(differences_N) < LEAST_SEEDS:
        return None
    p = _paired_t(differences_N)
    return float(np.allclose(differences_N, 0, atol=10**-DIGITS)) if p is None else p


def cliques(algorithms: Sequence[str], apart: Collection[frozenset[str]]) -> tuple[tuple[str, ...], ...]:
    """Return the maximal ranges of two or more neighbours of which no two are `apart`."""
    found: list[tuple[int, int]] = []
    for start in range(len(algorithms)):
        stop = start + 1
        while stop < len(algorithms) and not any(
            frozenset((algorithms[stop], earlier)) in apart for earlier in algorithms[start:stop]
        ):
            stop += 1
        if stop - start > 1 and (not found or stop > found[-1][1]):
            found.append((start, stop))
    return tuple(tuple(algorithms[start:stop]) for start, stop in found)
