"""The exact sign-flip test over kinds of clients, Holm's correction, and the power that so few kinds have.

If two methods are equal, the sign of their difference in a kind could as well be the other one. p is the
share of all 2^N signs with which the mean is at least as far from 0 as it is. Source: Fisher 1935, "The
Design of Experiments", section 21. Shapes: N kinds, P pairs of methods, B samples, S draws of signs.
"""

from typing import Literal

import numpy as np

from fedgrid.tracking.arrays import Array
from fedgrid.tracking.scoring.paired_tests import ALPHA, DIGITS, LEVEL, apply_holm

POWER = 0.8
"""Share of arenas in which a difference must be shown to count as one that can be shown."""
SAMPLES, FLIPS, SEED = 300, 20_000, 0
"""Samples of kinds by which power is estimated, draws of signs for each, and the seed of both."""
VerdictWord = Literal["better", "worse", "not shown"]


def compute_flip_p(differences_N: Array) -> float:
    """Compute the two-sided exact p of the mean difference if the sign of each kind may flip."""
    sizes_N = np.abs(np.round(differences_N, DIGITS))
    # A kind without a difference has one sign only.
    sizes_N = sizes_N[sizes_N > 0]
    if not len(sizes_N):
        return 1.0
    # All 2^N sums as those of two halves: for each of one half, the sorted other one says how many are far.
    left, right = _sum_with_signs(sizes_N[::2]), np.sort(_sum_with_signs(sizes_N[1::2]))
    # Half of the last digit counts sums as equal that differ by rounding alone.
    least = abs(float(np.round(differences_N, DIGITS).sum())) - 0.5 * 10**-DIGITS
    above = len(right) - np.searchsorted(right, least - left)
    # The sums are symmetric around 0: as many are below.
    return min(1.0, 2 * float(above.sum()) / (len(left) * len(right)))


def _sum_with_signs(sizes_N: Array) -> Array:
    """Compute the sums of the sizes with each of the 2^N choices of signs."""
    sums = np.zeros(1)
    for size in sizes_N:
        sums = np.concatenate([sums + size, sums - size])
    return sums


def judge_pairs(differences_PN: Array) -> tuple[list[VerdictWord], list[float]]:
    """Judge the first of each pair against the second: words, and p after Holm's correction for all pairs."""
    corrected = apply_holm([compute_flip_p(own_N) for own_N in differences_PN])
    words: list[VerdictWord] = [
        "not shown" if p >= ALPHA else "better" if own_N.mean() > 0 else "worse"
        for p, own_N in zip(corrected, differences_PN, strict=True)
    ]
    return words, corrected


def count_kinds_needed(num_tests: int) -> int:
    """Count the kinds in which two methods must differ for any verdict after `num_tests` tests.

    The least p-value must be below `ALPHA` after Holm's correction, if all differences have one sign: p is
    then 2 / 2^N.
    """
    return int(np.floor(np.log2(2 * max(1, num_tests) / ALPHA))) + 1


def bootstrap_mean_interval(differences_N: Array) -> tuple[float, float]:
    """Compute the interval of the mean at `LEVEL`: percentiles over samples of kinds with replacement."""
    places_BN = np.random.default_rng(SEED).integers(len(differences_N), size=(2000, len(differences_N)))
    low, high = np.quantile(differences_N[places_BN].mean(axis=1), ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(low), float(high)


def find_least_shown_difference(differences_N: Array, num_tests: int) -> float:
    """Find the least mean difference that is shown in `POWER` of such arenas; infinity if none is.

    Kinds are drawn with replacement, so that ties and differences of 0 stay as frequent. Each other
    difference favours the method with probability q, whatever its size, so that the mean is 2 q - 1 times
    the mean size. The least q is found by bisection, with the same draws; the test is at the level that
    Holm's correction asks of the least of `num_tests` p-values, and its signs are drawn, not counted.
    """
    rng = np.random.default_rng(SEED)
    sizes_N = np.abs(np.round(differences_N, DIGITS))
    sizes_BN = sizes_N[rng.integers(len(sizes_N), size=(SAMPLES, len(sizes_N)))]
    # The same draws for every q, so that the estimated power does not fall as q grows, which bisection
    # needs.
    chances_BN = rng.random(sizes_BN.shape)
    signs_SN = rng.choice([-1.0, 1.0], size=(FLIPS, len(sizes_N)))
    critical_B = np.quantile(np.abs(signs_SN @ sizes_BN.T), 1 - ALPHA / max(1, num_tests), axis=0)
    # Where every draw is below, too few kinds differ for the level: 2 / 2^N is not below it.
    can_show_B = (sizes_BN > 0).sum(axis=1) >= count_kinds_needed(num_tests)

    def estimate_power(q: float) -> float:
        """Estimate the share of samples in which the difference is shown, at a chance q of its sign."""
        sums_B = np.where(chances_BN < q, sizes_BN, -sizes_BN).sum(axis=1)
        return float((can_show_B & (sums_B >= critical_B - 10**-DIGITS)).mean())

    low, high = 0.5, 1.0
    if estimate_power(high) < POWER:
        return float("inf")
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if estimate_power(middle) >= POWER else (middle, high)
    return (2 * high - 1) * float(sizes_N.mean())
