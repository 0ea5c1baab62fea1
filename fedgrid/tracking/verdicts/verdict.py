"""The verdict on a method: its paired differences from each rival, their test, and what it could have shown.

Comparisons are planned: they follow from the method alone, not from results. Source of the test: `power`;
Holm 1979. Shapes: N kinds, P pairs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isinf
from typing import NamedTuple

import numpy as np

from fedgrid.tracking.arrays import Array
from fedgrid.tracking.verdicts.field import (
    BNC,
    CLUSTERING,
    Field,
    Question,
    build_field,
    find_clustering_methods,
)
from fedgrid.tracking.verdicts.outcomes import GroupKnowledge, Outcome, Protocol
from fedgrid.tracking.verdicts.power import (
    VerdictWord,
    bootstrap_mean_interval,
    find_least_shown_difference,
    judge_pairs,
)

CLASSES: Mapping[GroupKnowledge, str] = {
    "": "not given the number of groups",
    "number": "given the number of groups",
    "groups": "given the groups",
}


OWN_METHOD = "evident-groups"
"""fedgrid's own method, which the verdict is about unless the user has one."""


@dataclass(frozen=True)
class RivalComparison:
    """Planned comparison of a method with one rival; means are over kinds."""

    rival: str
    difference: float
    """Mean over kinds: the method's score minus the rival's."""
    interval: tuple[float, float]
    """Interval of the mean difference, by `bootstrap_mean_interval`."""
    p: float
    """p of the sign-flip test, after Holm's correction for all planned comparisons."""
    least: float
    """The mean difference that this comparison shows with probability `POWER`; infinite if it cannot show
    any."""
    verdict: VerdictWord
    """Better or worse than the rival, or not shown."""


@dataclass(frozen=True)
class Verdict:
    """The answer to one question for one method, within one protocol."""

    field: Field
    method: str
    against: tuple[RivalComparison, ...]
    """The method against each rival, best mean rank first."""
    num_tests: int
    """Number of planned comparisons, which Holm's correction is for."""

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
    return Verdict(field, method, compare_with_rivals(field, method), len(plan_pairs([*field.ranks], method)))


def plan_pairs(competitors: Sequence[str], method: str) -> list[tuple[str, str]]:
    """Plan the comparisons that are tested: those of a method with each rival.

    For fedgrid's own method these are also all others against `BNC`. Nothing else is tested.
    """
    pairs = [(method, rival) for rival in competitors if rival != method]
    if method == OWN_METHOD and BNC in competitors:
        pairs += [(other, BNC) for other in competitors if other not in (method, BNC)]
    return pairs


class PairVerdict(NamedTuple):
    """The verdict of a planned comparison on its first method."""

    p: float
    """After Holm's correction for all that are planned."""
    verdict: VerdictWord


def run_planned_tests(field: Field, method: str) -> dict[tuple[str, str], PairVerdict]:
    """Run the tests of `plan_pairs`; each pair stands in both directions. Empty if the method has no rank."""
    if method not in field.ranks:
        return {}
    pairs = plan_pairs([*field.ranks], method)
    words, corrected = judge_pairs(_stack_differences(field, pairs))
    flipped: dict[VerdictWord, VerdictWord] = {"better": "worse", "worse": "better", "not shown": "not shown"}
    tests: dict[tuple[str, str], PairVerdict] = {}
    for (one, other), word, p in zip(pairs, words, corrected, strict=True):
        tests[one, other], tests[other, one] = PairVerdict(p, word), PairVerdict(p, flipped[word])
    return tests


def compare_with_rivals(field: Field, method: str) -> tuple[RivalComparison, ...]:
    """Compare a method with each of the other competitors, in their order."""
    pairs = plan_pairs([*field.ranks], method)
    differences_PN = _stack_differences(field, pairs)
    words, corrected = judge_pairs(differences_PN)
    # Those with a rival come first in a plan.
    rivals = [other for one, other in pairs if one == method]
    return tuple(
        RivalComparison(
            rival,
            float(differences_PN[place].mean()),
            bootstrap_mean_interval(differences_PN[place]),
            corrected[place],
            find_least_shown_difference(differences_PN[place], len(pairs)),
            words[place],
        )
        for place, rival in enumerate(rivals)
    )


def _stack_differences(field: Field, pairs: Sequence[tuple[str, str]]) -> Array:
    """Stack the differences of pairs by kind, shape (P, N)."""
    return np.stack([field.average_kinds(one) - field.average_kinds(other) for one, other in pairs])


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
