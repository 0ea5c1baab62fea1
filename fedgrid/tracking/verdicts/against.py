"""One method against its rivals: paired differences over blocks, their test, and what it could have shown.

A block is a scenario and a seed: seeds draw other images for other clients and other first weights, so blocks
are independent given the data set. Source of the test: `tracking.scoring.signed_ranks`; Holm 1979. Shapes: N
blocks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Any

import numpy as np

from fedgrid.tracking.arrays import Array
from fedgrid.tracking.scoring.paired_tests import ALPHA, average_ranks, friedman, holm
from fedgrid.tracking.scoring.signed_ranks import LEVEL, effect_and_p

POWER = 0.8
RELATIVE_EFFICIENCY = 0.955
"""Of signed ranks to the t-test under normal differences, 3 / pi (Hodges and Lehmann 1956)."""
Scores = Mapping[str, Mapping[Any, float]]
"""Method -> block -> score, of which more is better."""


@dataclass(frozen=True)
class Against:
    """A method against one rival."""

    rival: str
    num_blocks: int
    """Blocks in which both have a score."""
    difference: float
    """Mean over blocks: the method's score minus the rival's."""
    interval: tuple[float, float]
    """Of the mean, by Student's t at `LEVEL`; infinite with fewer than two blocks."""
    effect: float
    """Rank-biserial, as in `SignedRanks`."""
    p: float
    """Of the signed-rank test, after Holm's correction for all rivals."""
    least: float
    """The mean difference that this comparison shows with probability `POWER`; infinite if it cannot show
    any, even if the method is better in every block."""

    @property
    def verdict(self) -> str:
        """`better`, `worse` or `not shown`, as the method sees it."""
        if self.p >= ALPHA:
            return "not shown"
        return "better" if self.effect > 0 else "worse"


@dataclass(frozen=True)
class Ranking:
    """All methods by their mean rank over the blocks in which all of them have a score."""

    ranks: Mapping[str, float]
    """Best first; 1 is the best."""
    num_blocks: int
    friedman_p: float | None
    """None with fewer than three methods, or without a block."""


def against_all(method: str, rivals: Sequence[str], scores: Scores) -> tuple[Against, ...]:
    """Return the method against each rival with which it shares a block, in the order of the rivals."""
    shared = {
        rival: [block for block in scores[method] if block in scores[rival]]
        for rival in rivals
        if rival != method
    }
    shared = {rival: blocks for rival, blocks in shared.items() if blocks}
    found = [
        _against(
            rival,
            np.array([scores[method][block] for block in blocks]),
            np.array([scores[rival][block] for block in blocks]),
            len(shared),
        )
        for rival, blocks in shared.items()
    ]
    corrected = holm([each.p for each in found])
    return tuple(replace(each, p=p) for each, p in zip(found, corrected, strict=True))


def ranking(methods: Sequence[str], scores: Scores) -> Ranking:
    """Return the mean ranks of methods."""
    blocks = shared_blocks(methods, scores)
    if not blocks or not methods:
        return Ranking({}, 0, None)
    losses_NA = -np.array([[scores[method][block] for method in methods] for block in blocks])
    ranks_A = average_ranks(losses_NA)
    order = np.argsort(ranks_A, kind="stable").tolist()
    ranks = {methods[place]: float(ranks_A[place]) for place in order}
    return Ranking(ranks, len(blocks), friedman(losses_NA) if len(blocks) > 1 else None)


def shared_blocks(methods: Sequence[str], scores: Scores) -> list[Any]:
    """Return the blocks in which every method has a score, in the order of the first that has them."""
    blocks = dict.fromkeys(block for method in methods for block in scores[method])
    return [block for block in blocks if all(block in scores[method] for method in methods)]


def least_difference(differences_N: Array, num_rivals: int) -> float:
    """Return the mean difference that is shown with probability `POWER`, as differences spread here.

    By the t-test's power with the level that Holm's correction asks of the least of `num_rivals` p-values,
    and the relative efficiency of signed ranks.
    """
    from scipy.stats import t

    count, level = len(differences_N), ALPHA / max(1, num_rivals)
    if count < 2 or 2 / 2**count >= level:
        return inf
    needed = t.ppf(1 - level / 2, count - 1) + t.ppf(POWER, count - 1)
    return float(needed * np.std(differences_N, ddof=1) / sqrt(count * RELATIVE_EFFICIENCY))


def _against(rival: str, one_N: Array, other_N: Array, num_rivals: int) -> Against:
    differences_N = one_N - other_N
    effect, p = effect_and_p(one_N, other_N)
    return Against(
        rival,
        len(differences_N),
        float(differences_N.mean()),
        _interval(differences_N),
        effect,
        p,
        least_difference(differences_N, num_rivals),
    )


def _interval(differences_N: Array) -> tuple[float, float]:
    """Return the interval of a mean at `LEVEL`."""
    from scipy.stats import t

    if len(differences_N) < 2:
        return -inf, inf
    half = t.ppf((1 + LEVEL) / 2, len(differences_N) - 1) * np.std(differences_N, ddof=1)
    mean = float(differences_N.mean())
    return mean - float(half) / sqrt(len(differences_N)), mean + float(half) / sqrt(len(differences_N))
