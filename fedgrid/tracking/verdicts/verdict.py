"""The two questions of the arena, and the verdict on a method: who is compared, by which score, where."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan
from typing import Literal

import numpy as np

from fedgrid.tracking.verdicts.against import Against, Ranking, Scores, against_all, ranking
from fedgrid.tracking.verdicts.outcomes import Outcome, Protocol, Settings

TARGET = 0.95
"""Share of a block's best accuracy that cost is counted to."""


@dataclass(frozen=True)
class Question:
    """What a verdict is about."""

    name: Literal["clustering", "serving"]
    words: str
    score: str
    """The field of an outcome by which methods are ranked and tested."""
    also: str
    """A second field, whose mean is shown."""


CLUSTERING = Question("clustering", "are the hidden groups found (ARI)", "ari", "exactly_right")
SERVING = Question(
    "serving", "how well are clients served (accuracy)", "personalised_accuracy", "worst_tenth_accuracy"
)


@dataclass(frozen=True)
class Standing:
    """A method's means over the blocks of a question."""

    title: str
    is_reference: bool
    score: float
    also: float
    num_blocks: int
    megabytes: float
    """Median over blocks of what is sent until the target; infinite if most blocks never get there."""


@dataclass(frozen=True)
class Verdict:
    """One question, answered for one method, within one protocol and kind of settings."""

    question: Question
    settings: Settings
    protocol: Protocol
    method: str
    standings: Mapping[str, Standing]
    """By method: the competitors by mean rank, then references."""
    ranking: Ranking
    against: tuple[Against, ...]
    """The method against each rival, in the order of `standings`."""
    families: int
    seeds: int

    @property
    def title(self) -> str:
        """What tables call the method."""
        return self.standings[self.method].title


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
    chosen = taking_part(outcomes, question, settings, protocol)
    by_method = grouped(chosen)
    competing = competitors(by_method)
    if method not in competing or len(competing) < 2:
        raise NoVerdict(_reason(outcomes, method, question, competing))
    scores = scores_of(by_method, question)
    ranked = ranking(competing, scores)
    order = [*ranked.ranks, *(name for name in by_method if name not in ranked.ranks)]
    found = standings(by_method, question)
    return Verdict(
        question,
        settings,
        protocol,
        method,
        {name: found[name] for name in order},
        ranked,
        against_all(method, [name for name in order if name in competing], scores),
        len({outcome.family for outcome in by_method[method]}),
        len({outcome.seed for outcome in by_method[method]}),
    )


def grouped(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Return method -> its outcomes."""
    by_method: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_method.setdefault(outcome.method, []).append(outcome)
    return by_method


def competitors(by_method: Mapping[str, Sequence[Outcome]]) -> list[str]:
    """Return the methods that are no references."""
    return [name for name, each in by_method.items() if not each[0].is_reference]


def scores_of(by_method: Mapping[str, Sequence[Outcome]], question: Question) -> Scores:
    """Return the scores of a question, by method and block."""
    return {
        name: {outcome.block: getattr(outcome, question.score) for outcome in each}
        for name, each in by_method.items()
    }


def standings(by_method: Mapping[str, Sequence[Outcome]], question: Question) -> dict[str, Standing]:
    """Return the means of each method."""
    goals = _goals([outcome for each in by_method.values() for outcome in each])
    return {name: _standing(each, question, goals) for name, each in by_method.items()}


def clustering_methods(outcomes: Iterable[Outcome]) -> set[str]:
    """Return the methods that had two clusters in any run, whatever its settings."""
    return {outcome.method for outcome in outcomes if outcome.clusters > 1}


def taking_part(
    outcomes: Iterable[Outcome], question: Question, settings: Settings, protocol: Protocol
) -> list[Outcome]:
    """Return the outcomes that a question is about.

    Of clustering: families with groups, and methods that had two clusters in any run, whatever its settings.
    References have no tuned settings: their defaults stand beside both.
    """
    found = in_any_family(outcomes, question, settings, protocol)
    return [outcome for outcome in found if question is SERVING or outcome.has_groups]


def in_any_family(
    outcomes: Iterable[Outcome], question: Question, settings: Settings, protocol: Protocol
) -> list[Outcome]:
    """Return `taking_part`, and what the methods of clustering do in families without groups."""
    outcomes = tuple(outcomes)
    clustering = clustering_methods(outcomes)
    return [
        outcome
        for outcome in outcomes
        if outcome.protocol == protocol
        and (outcome.settings == settings or (outcome.is_reference and outcome.settings == "default"))
        and not isnan(getattr(outcome, question.score))
        and (question is SERVING or outcome.method in clustering)
    ]


def _reason(outcomes: Sequence[Outcome], method: str, question: Question, competing: Sequence[str]) -> str:
    """Return why a method has no verdict."""
    title = next((outcome.title for outcome in outcomes if outcome.method == method), method)
    if method in competing:
        return "no other method " + ("forms clusters" if question is CLUSTERING else "has a result")
    if question is CLUSTERING and not any(outcome.has_groups for outcome in outcomes):
        return "no family with hidden groups has a result"
    if question is CLUSTERING and not competing:
        return "no method forms clusters"
    if question is CLUSTERING and method not in clustering_methods(outcomes):
        return f"{title} has one cluster in every run"
    return f"{title} has no result"


def _goals(outcomes: Sequence[Outcome]) -> Mapping[tuple[str, str, int], float]:
    """Return the target accuracy of each block: a share of the best competitor's."""
    best: dict[tuple[str, str, int], float] = {}
    for outcome in outcomes:
        if not outcome.is_reference:
            best[outcome.block] = max(best.get(outcome.block, 0.0), outcome.personalised_accuracy)
    return {block: TARGET * accuracy for block, accuracy in best.items()}


def _standing(
    outcomes: Sequence[Outcome], question: Question, goals: Mapping[tuple[str, str, int], float]
) -> Standing:
    return Standing(
        outcomes[0].title,
        outcomes[0].is_reference,
        float(np.mean([getattr(outcome, question.score) for outcome in outcomes])),
        float(np.nanmean([getattr(outcome, question.also) for outcome in outcomes])),
        len(outcomes),
        float(np.median([outcome.megabytes_to(goals.get(outcome.block, inf)) for outcome in outcomes])),
    )
