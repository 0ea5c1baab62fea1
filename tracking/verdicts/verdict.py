"""The two questions of the arena, and the verdict on a method: who is compared, by which score, where."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan
from typing import Literal

import numpy as np

from fedgrid.tracking.verdicts.against import Against, Ranking, against_all, ranking
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


def verdict(
    outcomes: Iterable[Outcome], method: str, question: Question, settings: Settings, protocol: Protocol
) -> Verdict | None:
    """Return the verdict on a method; None if it has no part in the question, or no rival."""
    chosen = _taking_part(outcomes, question, settings, protocol)
    by_method: dict[str, list[Outcome]] = {}
    for outcome in chosen:
        by_method.setdefault(outcome.method, []).append(outcome)
    competing = [name for name, each in by_method.items() if not each[0].is_reference]
    if method not in competing or len(competing) < 2:
        return None
    scores = {
        name: {outcome.block: getattr(outcome, question.score) for outcome in each}
        for name, each in by_method.items()
    }
    ranked = ranking(competing, scores)
    order = [*ranked.ranks, *(name for name in by_method if name not in ranked.ranks)]
    goals = _goals(chosen)
    return Verdict(
        question,
        settings,
        protocol,
        method,
        {name: _standing(by_method[name], question, goals) for name in order},
        ranked,
        against_all(method, [name for name in order if name in competing], scores),
        len({outcome.family for outcome in by_method[method]}),
        len({outcome.seed for outcome in by_method[method]}),
    )


def _taking_part(
    outcomes: Iterable[Outcome], question: Question, settings: Settings, protocol: Protocol
) -> list[Outcome]:
    """Return the outcomes that a question is about.

    Of clustering: families with groups, and methods that had two clusters in any run, whatever its settings.
    References have no tuned settings: their defaults stand beside both.
    """
    outcomes = tuple(outcomes)
    found = [
        outcome
        for outcome in outcomes
        if outcome.protocol == protocol
        and (outcome.settings == settings or (outcome.is_reference and outcome.settings == "default"))
        and not isnan(getattr(outcome, question.score))
    ]
    if question is SERVING:
        return found
    clustering = {outcome.method for outcome in outcomes if outcome.clusters > 1}
    return [outcome for outcome in found if outcome.has_groups and outcome.method in clustering]


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
