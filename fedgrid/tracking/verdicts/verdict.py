"""The verdict on a method: its paired differences from each rival, their test, and what it could have shown.

Source of the test: `tracking.scoring.paired_tests`; Holm 1979. Shapes: N blocks, P pairs.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isinf
from typing import NamedTuple

import numpy as np

from fedgrid.tracking.scoring.paired_tests import apply_holm, compute_effect_and_p
from fedgrid.tracking.verdicts.field import (
    CLUSTERING,
    Field,
    Question,
    build_field,
    find_clustering_methods,
)
from fedgrid.tracking.verdicts.outcomes import Block, GroupKnowledge, Outcome, Protocol
from fedgrid.tracking.verdicts.power import (
    VerdictWord,
    bootstrap_mean_interval,
    find_least_shown_difference,
    judge_pairs,
    judge_without_each_block,
)

CLASSES: Mapping[GroupKnowledge, str] = {
    "": "not given the number of groups",
    "number": "given the number of groups",
    "groups": "given the groups",
}


@dataclass(frozen=True)
class RivalComparison:
    """Comparison of a method with one rival."""

    rival: str
    difference: float
    """Mean over blocks: the method's score minus the rival's."""
    interval: tuple[float, float]
    """Interval of the mean difference, by `bootstrap_mean_interval`."""
    effect: float
    """Rank-biserial, as in `SignedRanks`."""
    p: float
    """p of the signed-rank test, after Holm's correction for all rivals."""
    least: float
    """The mean difference that this comparison shows with probability `POWER`; infinite if it cannot show
    any."""
    verdict: VerdictWord
    """Better or worse than the rival, or not shown."""
    without: Mapping[Block, VerdictWord]
    """Block -> the verdict if it is left out, where that is another one."""


@dataclass(frozen=True)
class Verdict:
    """The answer to one question for one method, within one protocol."""

    field: Field
    method: str
    against: tuple[RivalComparison, ...]
    """The method against each rival, best mean rank first."""

    @property
    def shows_nothing(self) -> bool:
        """Whether no difference from any rival can be shown, however large."""
        return all(isinf(against.least) for against in self.against)


class NoVerdict(Exception):
    """A question that has no answer for a method; the message gives the reason."""


def reach_verdict(
    outcomes: Iterable[Outcome], method: str, question: Question, protocol: Protocol
) -> Verdict:
    """Reach the verdict on a method, among those with the same hints on groups, over its data sets.

    Args:
        outcomes: all results of the arena.
        method: the algorithm's id.
        question: `CLUSTERING` or `SERVING`.
        protocol: of the tests of clients.

    Raises:
        NoVerdict: it has no part in the question, or no rival.
    """
    outcomes = tuple(outcomes)
    # A method that does not fit some data set is judged on the others, against rivals that have these too.
    datasets = {outcome.dataset for outcome in outcomes if outcome.method == method}
    outcomes = tuple(outcome for outcome in outcomes if outcome.dataset in datasets)
    knowledge: GroupKnowledge = next((outcome.told for outcome in outcomes if outcome.method == method), "")
    field = build_field(outcomes, question, protocol, knowledge)
    if field is None or method not in field.ranks:
        raise NoVerdict(_explain_no_verdict(outcomes, method, question, protocol, knowledge))
    return Verdict(field, method, compare_with_rivals(method, [*field.ranks], field.scores))


def compare_with_rivals(
    method: str, competitors: Sequence[str], scores: Mapping[str, Mapping[Block, float]]
) -> tuple[RivalComparison, ...]:
    """Compare a method with each of the others, in their order; all have the same blocks."""
    rivals = [rival for rival in competitors if rival != method]
    blocks = list(scores[method])
    own_N, theirs_PN = (
        np.array([[scores[name][block] for block in blocks] for name in names])
        for names in ([method], rivals)
    )
    differences_PN = own_N - theirs_PN
    tests = [compute_effect_and_p(own_N[0], rival_N) for rival_N in theirs_PN]
    words = judge_pairs(differences_PN)
    left_out = judge_without_each_block(differences_PN)
    return tuple(
        RivalComparison(
            rival,
            float(differences_PN[place].mean()),
            bootstrap_mean_interval(differences_PN[place]),
            tests[place][0],
            p,
            find_least_shown_difference(differences_PN[place], len(rivals)),
            words[place],
            {
                block: without[place]
                # With a single block there is none to leave out, and `left_out` is empty.
                for block, without in zip(blocks, left_out, strict=False)
                if without[place] != words[place]
            },
        )
        for place, (rival, p) in enumerate(zip(rivals, apply_holm([p for _, p in tests]), strict=True))
    )


class ShownPair(NamedTuple):
    """Two competitors that are shown to differ, after Holm's correction for all pairs."""

    winner: str
    loser: str
    stays: bool
    """Whether that is shown whichever family is left out."""


def find_shown_pairs(field: Field) -> tuple[list[ShownPair], Counter[str]]:
    """Find the pairs that are shown to differ, and the families that decide verdicts.

    The counter has, for each family, the number of pairs whose verdict changes without it.
    """
    pairs = list(combinations(field.ranks, 2))
    differences_PN = np.stack([field.stack_scores(one) - field.stack_scores(other) for one, other in pairs])
    words, left_out = judge_pairs(differences_PN), judge_without_each_block(differences_PN)
    shown = [
        ShownPair(
            *(pair if word == "better" else pair[::-1]), all(without[place] == word for without in left_out)
        )
        for place, (pair, word) in enumerate(zip(pairs, words, strict=True))
        if word != "not shown"
    ]
    changes: Counter[str] = Counter()
    # Empty with a single block, as in `compare_with_rivals`.
    for label, without in zip(field.labels.values(), left_out, strict=False):
        changes[label] = sum(now != before for now, before in zip(without, words, strict=True))
    # The plus drops families without any change.
    return shown, +changes


def _explain_no_verdict(
    outcomes: Sequence[Outcome],
    method: str,
    question: Question,
    protocol: Protocol,
    knowledge: GroupKnowledge,
) -> str:
    """Explain why a method has no verdict."""
    if question is CLUSTERING:
        if not any(outcome.has_groups for outcome in outcomes):
            return "no family with hidden groups has a result"
        clustering = find_clustering_methods(outcomes)
        if method not in clustering:
            return f"{method} has one cluster in every run" if clustering else "no method forms clusters"
    if not any((one.method, one.protocol) == (method, protocol) for one in outcomes):
        return f"{method} has no result"
    does = "forms clusters" if question is CLUSTERING else "has a result"
    return f"of the methods {CLASSES[knowledge]} no other {does}"
