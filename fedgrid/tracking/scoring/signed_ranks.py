"""The signed-rank test of paired scores: exact p, effect size and its interval.

Source: Wilcoxon 1945, Biometrics Bulletin 1; Pratt 1959, JASA 54 (zero differences are ranked with the
others, and their ranks then have no sign); the effect is the matched-pairs rank-biserial correlation, Kerby
2014, Comprehensive Psychology 3. Shapes: S pairs, D of them with a difference.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedgrid.tracking.arrays import Array

DIGITS = 12
"""Decimal digits to which scores are compared, so that equal means over seeds are ties despite rounding."""
LEAST_DIFFERENCES = 6
"""With five differences that are not zero, p is at least 2 / 2^5 > 0.05, even if all have one sign."""
LEVEL = 0.95
"""Of the interval."""
RESAMPLES, SEED = 2000, 0
"""Of the bootstrap; every comparison draws from a generator of its own."""


@dataclass(frozen=True)
class SignedRanks:
    """Paired scores compared, as the first of the two sees it."""

    better: int
    """Number of pairs in which the first is better."""
    equal: int
    worse: int
    effect: float
    """Rank-biserial: (ranks won - ranks lost) / all ranks. 1: better in all pairs, -1: worse in all; a pair
    without a difference counts for neither, so that few differences are a small effect."""
    interval: tuple[float, float]
    """Of the effect: percentiles of a bootstrap over the pairs."""
    p: float
    """Two-sided and exact, whatever ties and zeros there are."""

    @property
    def is_testable(self) -> bool:
        """Whether enough pairs differ for a p below 0.05."""
        return self.better + self.worse >= LEAST_DIFFERENCES

    def turned(self) -> "SignedRanks":
        """Return the comparison as the second of the two sees it."""
        low, high = self.interval
        return replace(
            self, better=self.worse, worse=self.better, effect=-self.effect, interval=(-high, -low)
        )


def signed_ranks(one_S: Array, other_S: Array) -> SignedRanks:
    """Compare paired scores, of which more is better.

    Raises:
        ValueError: if there is no pair.
    """
    differences_S = _differences(one_S, other_S)
    return SignedRanks(
        better=int((differences_S > 0).sum()),
        equal=int((differences_S == 0).sum()),
        worse=int((differences_S < 0).sum()),
        effect=float(_effect(differences_S)),
        interval=_interval(differences_S),
        p=_exact_p(_signed(differences_S)),
    )


def effect_and_p(one_S: Array, other_S: Array) -> tuple[float, float]:
    """Return `effect` and `p` of `signed_ranks`, without the interval, which takes most of its time."""
    differences_S = _differences(one_S, other_S)
    return float(_effect(differences_S)), _exact_p(_signed(differences_S))


def _differences(one_S: Array, other_S: Array) -> Array:
    differences_S = np.round(np.asarray(one_S, np.float64) - np.asarray(other_S, np.float64), DIGITS)
    if not len(differences_S):
        raise ValueError("no pairs to compare: expected at least one")
    return differences_S


def _signed(differences: Array, axis: int = -1) -> Array:
    """Return Pratt's ranks with the signs of the differences; 0 for no difference."""
    from scipy.stats import rankdata

    return np.asarray(np.sign(differences) * rankdata(np.abs(differences), axis=axis))


def _effect(differences: Array, axis: int = -1) -> Any:
    num_pairs = differences.shape[axis]
    return _signed(differences, axis).sum(axis=axis) / (num_pairs * (num_pairs + 1) / 2)


def _interval(differences_S: Array) -> tuple[float, float]:
    from scipy.stats import bootstrap

    if (differences_S == differences_S[0]).all():
        # Every resample is the sample.
        effect = float(_effect(differences_S))
        return effect, effect
    found = bootstrap(
        (differences_S,),
        _effect,
        n_resamples=RESAMPLES,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return float(found.low), float(found.high)


def _exact_p(signed_S: Array) -> float:
    """Return the share of all 2^D choices of signs whose sum is as far from 0 as that of the given ones.

    SciPy enumerates these choices, which ends at some 15 pairs; ranks are multiples of a half, so that the
    distribution of the sum can be built up rank by rank for hundreds.
    """
    doubled_D = np.rint(2 * np.abs(signed_S[signed_S != 0])).astype(int)
    chances = np.ones(1)
    for rank in np.sort(doubled_D):
        grown = np.zeros(len(chances) + rank)
        grown[: len(chances)] = chances
        grown[rank:] += chances
        chances = grown / 2
    # Entry i of `chances` is of positive ranks with the sum i: the sum of all is then 2 i - total.
    sums = 2 * np.arange(len(chances)) - (len(chances) - 1)
    return min(1.0, float(chances[np.abs(sums) >= abs(round(2 * float(signed_S.sum())))].sum()))
