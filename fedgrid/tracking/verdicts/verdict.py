"""The verdict on a method: its paired differences from each rival, their test, and what it could have shown.

Source of the test: `tracking.scoring.paired_tests`; Holm 1979. Shapes: N blocks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt

import numpy as np

from fedgrid.tracking.arrays import Array
from fedgrid.tracking.scoring.paired_tests import ALPHA, effect_and_p, holm, mean_and_half
from fedgrid.tracking.verdicts.field import CLUSTERING, Block, Field, Question, clustering_methods, field_of
from fedgrid.tracking.verdicts.outcomes import Outcome, Protocol, Settings

POWER = 0.8
RELATIVE_EFFICIENCY = 0.955
"""Of signed ranks to the t-test under normal differences, 3 / pi (Hodges and Lehmann 1956)."""


@dataclass(frozen=True)
class Against:
    """A method against one rival."""

    rival: str
    num_blocks: int
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
class Verdict:
    """One question, answered for one method, within one protocol and kind of settings."""

    field: Field
    method: str
    against: tuple[Against, ...]
    """The method against each rival, best mean rank first."""


class NoVerdict(Exception):
    """A question has no answer for a method; the message says why."""


def verdict(
    outcomes: Iterable[Outcome], method: str, question: Question, settings: Settings, protocol: Protocol
) -> Verdict:
    """Return the verdict on a method.

    Raises:
        NoVerdict: it has no part in the question, or no rival.
    """
    outcomes = tuple(outcomes)
    field = field_of(outcomes, question, settings, protocol)
    if field is None or method not in field.ranks:
        raise NoVerdict(_reason(outcomes, method, question, settings, protocol))
    return Verdict(field, method, against_all(method, [*field.ranks], field.scores))


def against_all(
    method: str, rivals: Sequence[str], scores: Mapping[str, Mapping[Block, float]]
) -> tuple[Against, ...]:
    """Return the method against each rival, in the order of the rivals; all have the same blocks."""
    others = [rival for rival in rivals if rival != method]
    compared = [_against(rival, scores[method], scores[rival], len(others)) for rival in others]
    corrected = holm([one.p for one in compared])
    return tuple(replace(one, p=p) for one, p in zip(compared, corrected, strict=True))


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


def _against(
    rival: str, mine: Mapping[Block, float], theirs: Mapping[Block, float], num_rivals: int
) -> Against:
    one_N, other_N = (np.array([scores[block] for block in mine]) for scores in (mine, theirs))
    differences_N = one_N - other_N
    several = len(differences_N) > 1
    mean, half = mean_and_half(differences_N) if several else (float(differences_N.mean()), inf)
    effect, p = effect_and_p(one_N, other_N)
    least = least_difference(differences_N, num_rivals)
    return Against(rival, len(differences_N), mean, (mean - half, mean + half), effect, p, least)


def _reason(
    outcomes: Sequence[Outcome], method: str, question: Question, settings: Settings, protocol: Protocol
) -> str:
    """Return why a method has no verdict."""
    mine = [outcome for outcome in outcomes if outcome.method == method]
    if question is CLUSTERING:
        if not any(outcome.has_groups for outcome in outcomes):
            return "no family with hidden groups has a result"
        clustering = clustering_methods(outcomes)
        if method not in clustering:
            return f"{method} has one cluster in every run" if clustering else "no method forms clusters"
    if not any((outcome.settings, outcome.protocol) == (settings, protocol) for outcome in mine):
        return f"{method} has no result"
    return "no other method " + ("forms clusters" if question is CLUSTERING else "has a result")
