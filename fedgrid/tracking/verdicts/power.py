"""The exact signed-rank test of many samples at once: verdicts, their stability, and their power.

The test is `tracking.scoring.paired_tests.compute_effect_and_p` (Pratt's ranks, exact whatever ties and zeros
there are). Shapes: N blocks, P pairs of methods, B samples, W sums of ranks.
"""

from functools import cache
from typing import Literal

import numpy as np

from fedgrid.tracking.arrays import Array
from fedgrid.tracking.scoring.paired_tests import ALPHA, DIGITS, LEVEL, apply_holm

POWER = 0.8
"""Share of arenas in which a difference must be shown to count as one that can be shown."""
SAMPLES, SEED = 300, 0
"""Samples of blocks by which power is estimated, and the seed that they are drawn with."""
VerdictWord = Literal["better", "worse", "not shown"]


def judge_pairs(differences_PN: Array) -> list[VerdictWord]:
    """Judge the first of each pair against the second, after Holm's correction for all pairs."""
    ranks_PN, signs_PN = _rank_with_signs(differences_PN)
    sums_P = (signs_PN * ranks_PN).sum(axis=1)
    # One table of tails for each pair, looked up at its own sum: no sampling, and no loop over pairs.
    p_P = np.take_along_axis(_compute_tails(ranks_PN), np.abs(sums_P)[:, None], axis=1)[:, 0]
    return [
        "not shown" if p >= ALPHA else "better" if total > 0 else "worse"
        for p, total in zip(apply_holm(p_P.tolist()), sums_P, strict=True)
    ]


def judge_without_each_block(differences_PN: Array) -> list[list[VerdictWord]]:
    """Judge all pairs without each of two or more blocks in turn."""
    blocks = range(differences_PN.shape[1])
    return [judge_pairs(np.delete(differences_PN, block, axis=1)) for block in blocks if len(blocks) > 1]


def count_blocks_needed(num_tests: int) -> int:
    """Count the blocks in which two methods must differ for any verdict after `num_tests` tests.

    The least p-value must be below `ALPHA` after Holm's correction, if all differences have one sign: p is
    then 2 / 2^N.
    """
    return int(np.floor(np.log2(2 * max(1, num_tests) / ALPHA))) + 1


def bootstrap_mean_interval(differences_N: Array) -> tuple[float, float]:
    """Compute the interval of the mean at `LEVEL`: percentiles over samples of blocks with replacement."""
    places_BN = np.random.default_rng(SEED).integers(len(differences_N), size=(2000, len(differences_N)))
    low, high = np.quantile(differences_N[places_BN].mean(axis=1), ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(low), float(high)


def find_least_shown_difference(differences_N: Array, num_tests: int) -> float:
    """Find the least mean difference that is shown in `POWER` of such arenas; infinity if none is.

    Blocks are drawn with replacement, so that ties and differences of 0 stay as frequent. Each other
    difference favours the method with probability q, whatever its size, so that the mean is 2 q - 1 times
    the mean size. The least q is found by bisection, with the same draws; the test is at the level that
    Holm's correction asks of the least of `num_tests` p-values.
    """
    rng = np.random.default_rng(SEED)
    sizes_N = np.abs(np.round(differences_N, DIGITS))
    places_BN = rng.integers(len(sizes_N), size=(SAMPLES, len(sizes_N)))
    # The same draws for every q, so that the estimated power does not fall as q grows, which bisection
    # needs.
    chances_BN = rng.random(places_BN.shape)
    ranks_BN, _ = _rank_with_signs(sizes_N[places_BN])
    is_shown_BW = _compute_tails(ranks_BN) * max(1, num_tests) < ALPHA

    def estimate_power(q: float) -> float:
        """Estimate the share of samples in which the difference is shown, at a chance q of its sign."""
        sums_B = np.where(chances_BN < q, ranks_BN, -ranks_BN).sum(axis=1)
        shown_B = np.take_along_axis(is_shown_BW, np.maximum(sums_B, 0)[:, None], axis=1)
        return float(shown_B.mean())

    low, high = 0.5, 1.0
    if estimate_power(high) < POWER:
        return float("inf")
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if estimate_power(middle) >= POWER else (middle, high)
    return (2 * high - 1) * float(sizes_N.mean())


def _rank_with_signs(differences: Array) -> tuple[Array, Array]:
    """Compute twice Pratt's ranks in each row, integers, 0 for no difference; and the signs."""
    from scipy.stats import rankdata

    differences = np.round(differences, DIGITS)
    ranks = np.rint(2 * rankdata(np.abs(differences), axis=1)).astype(int)
    return np.where(differences == 0, 0, ranks), np.sign(differences).astype(int)


def _compute_tails(ranks_BN: Array) -> Array:
    """Compute the chance that the sum of ranks with random signs is as far from 0 as w = 0, 1, ..., (B, W).

    The characteristic function of a rank with a random sign is its cosine, that of the sum their product. It
    is computed once for rows with the same ranks: most have no ties.
    """
    ranks_BN, place_B = np.unique(np.sort(ranks_BN, axis=1), axis=0, return_inverse=True)
    waves_RW = _compute_waves(ranks_BN.shape[1])
    largest = waves_RW.shape[1] - 1
    spectrum_BW = np.ones((len(ranks_BN), largest + 1))
    for ranks_B in ranks_BN.T:
        spectrum_BW *= waves_RW[ranks_B]
    # The sum is symmetric around 0, so its spectrum is real, and half of the chances is enough.
    chances_BW = np.fft.irfft(spectrum_BW, 2 * largest + 1)[:, : largest + 1]
    tails_BW = 2 * np.cumsum(chances_BW[:, ::-1], axis=1)[:, ::-1]
    # A sum of 0 is counted on both sides above.
    tails_BW[:, 0] = 1.0
    return np.asarray(tails_BW[place_B.ravel()])


@cache
def _compute_waves(num_blocks: int) -> Array:
    """Compute the cosine of each rank 0, 1, ..., twice the number of blocks, at each frequency: (R, W)."""
    largest = num_blocks * (num_blocks + 1)
    period = 2 * largest + 1
    # One period of the cosine serves all ranks and frequencies: their products are taken modulo the period.
    waves_W = np.cos(2 * np.pi * np.arange(period) / period)
    return np.asarray(waves_W[np.outer(np.arange(2 * num_blocks + 1), np.arange(largest + 1)) % period])
