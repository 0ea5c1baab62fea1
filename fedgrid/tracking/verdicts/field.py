"""The two questions of an arena, and all methods in one of them, over the blocks that every competitor has.

A block is a family and a seed: seeds draw other images for other clients and other first weights, so blocks
are independent given the data set. fedavg (one model for all) is what clustering has to beat; oracle (FedAvg
in each hidden group) is what it hopes for. Where clients differ without groups, or do not differ, ORACLE is
no upper bound. Source of the tests: `tracking.scoring.statistics`, where a scenario is what a block is here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan, nan
from typing import Literal

import numpy as np

from fedgrid.tracking.scoring.statistics import Comparison, compare_scores
from fedgrid.tracking.verdicts.outcomes import Outcome, Protocol, Settings

BNC, ORACLE = "fedavg", "oracle"
ALIKE = "iid"
"""The family whose clients do not differ: to cut them up is a failure."""
TARGET = 0.95
"""Share of a block's best accuracy that cost is counted to."""
Block = tuple[str, str, int]
"""Data set, family and seed."""


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

    is_reference: bool
    score: float
    also: float
    num_blocks: int
    megabytes: float
    """Sent in a whole run."""
    megabytes_to_target: float
    """Median of what is sent until the target; infinite if most blocks never get there."""


@dataclass(frozen=True)
class InFamily:
    """A method in one family, over its seeds; NaN where no seed has what it is compared with."""

    seeds: int
    ari: float
    right: int
    """Seeds in which the last clusters are the hidden groups; of clients that do not differ, in which they
    are one cluster."""
    regret: float
    """ORACLE's accuracy less the method's, mean over seeds."""
    gain: float
    """The method's accuracy less fedavg's, likewise."""
    below_bnc: int
    """Seeds in which fedavg's clients are served better."""


@dataclass(frozen=True)
class Field:
    """The methods of a question side by side."""

    question: Question
    settings: Settings
    protocol: Protocol
    standings: Mapping[str, Standing]
    """By method: the competitors by mean rank, then references."""
    comparison: Comparison
    """Of the competitors."""
    scores: Mapping[str, Mapping[Block, float]]
    """Method -> block -> score, in the blocks that every competitor has."""
    families: Mapping[str, Mapping[str, InFamily]]
    """Method -> family -> what it does there; of clustering also in families without groups."""
    names_of_families: list[str]
    """Families in which the question has a right answer: of clustering, those with groups, and of clients
    that do not differ."""

    @property
    def ranks(self) -> dict[str, float]:
        """The mean ranks of the competitors, best first; 1 is the best."""
        return dict(zip(self.comparison.algorithms, self.comparison.ranks, strict=True))

    @property
    def where(self) -> str:
        """The blocks, in words."""
        blocks = self.scores[self.comparison.algorithms[0]]
        families, seeds = ({block[at] for block in blocks} for at in (1, 2))
        return f"{len(families)} families x {len(seeds)} seeds"

    @property
    def better(self) -> dict[str, set[str]]:
        """Competitor -> those that it is shown to be better than."""
        better: dict[str, set[str]] = {method: set() for method in self.comparison.algorithms}
        for pair in self.comparison.pairs:
            if pair.differs:
                winner, loser = (pair.one, pair.other) if pair.test.effect > 0 else (pair.other, pair.one)
                better[winner].add(loser)
        return better

    def worse(self, method: str) -> set[str]:
        """Return the competitors that a method is shown to be worse than."""
        return {other for other, beaten in self.better.items() if method in beaten}


def field_of(
    outcomes: Iterable[Outcome], question: Question, settings: Settings, protocol: Protocol
) -> Field | None:
    """Return the methods of a question; None if no two competitors share a block.

    Of clustering: families with groups, and methods that had two clusters in any run, whatever its settings.
    References have no tuned settings: their defaults stand beside both.
    """
    outcomes = tuple(outcomes)
    clustering = clustering_methods(outcomes)
    wide = [
        outcome
        for outcome in outcomes
        if outcome.protocol == protocol
        and (outcome.settings == settings or (outcome.is_reference and outcome.settings == "default"))
        and _is_asked(outcome, question)
        and (question is SERVING or outcome.method in clustering)
    ]
    chosen = [outcome for outcome in wide if question is SERVING or outcome.has_groups]
    scores = {
        method: {outcome.block: float(getattr(outcome, question.score)) for outcome in of_method}
        for method, of_method in group_by_method(chosen).items()
    }
    references = {outcome.method for outcome in chosen if outcome.is_reference}
    competing = {
        method: {block: {0: score} for block, score in by_block.items()}
        for method, by_block in scores.items()
        if method not in references
    }
    comparison = compare_scores(competing, question.name)
    if not comparison.algorithms:
        return None
    shared = set.intersection(*(set(scores[method]) for method in comparison.algorithms))
    order = [*comparison.algorithms, *sorted(references)]
    standings = _standings([outcome for outcome in chosen if outcome.block in shared], question)
    return Field(
        question,
        settings,
        protocol,
        {method: standings[method] for method in order if method in standings},
        comparison,
        {
            method: {block: score for block, score in scores[method].items() if block in shared}
            for method in order
        },
        by_family(group_by_method(wide)),
        families_of(wide, of_groups=question is CLUSTERING),
    )


def _is_asked(outcome: Outcome, question: Question) -> bool:
    """Return whether an outcome has the score; without groups it has no ARI, and one cluster can be right."""
    no_groups = question is CLUSTERING and not outcome.has_groups
    return no_groups or not isnan(getattr(outcome, question.score))


def group_by_method(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Return method -> its outcomes."""
    by_method: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_method.setdefault(outcome.method, []).append(outcome)
    return by_method


def clustering_methods(outcomes: Iterable[Outcome]) -> set[str]:
    """Return the methods that had two clusters in any run, whatever its settings."""
    return {outcome.method for outcome in outcomes if outcome.clusters > 1}


def by_family(by_method: Mapping[str, Sequence[Outcome]]) -> dict[str, dict[str, InFamily]]:
    """Return every method in every family in which it has a result; outcomes of one protocol."""
    accuracies = [
        {outcome.block: outcome.personalised_accuracy for outcome in by_method.get(reference, ())}
        for reference in (ORACLE, BNC)
    ]
    return {
        method: {
            family: _judge_family([outcome for outcome in outcomes if outcome.family == family], *accuracies)
            for family in dict.fromkeys(outcome.family for outcome in outcomes)
        }
        for method, outcomes in by_method.items()
    }


def families_of(outcomes: Iterable[Outcome], *, of_groups: bool = False) -> list[str]:
    """Return the families, those with groups to be found first, then by name.

    With `of_groups` only those in which a partition can be right: with groups, or without any difference.
    """
    grouped_families = {outcome.family: outcome.has_groups for outcome in outcomes}
    chosen = (name for name, groups in grouped_families.items() if not of_groups or groups or name == ALIKE)
    return sorted(chosen, key=lambda family: (not grouped_families[family], family))


def _judge_family(
    outcomes: Sequence[Outcome], oracle: Mapping[Block, float], bnc: Mapping[Block, float]
) -> InFamily:
    behind_oracle, behind_bnc = (
        [best[one.block] - one.personalised_accuracy for one in outcomes if one.block in best]
        for best in (oracle, bnc)
    )
    return InFamily(
        len(outcomes),
        _mean([outcome.ari for outcome in outcomes]),
        sum(one.clusters == 1 if one.family == ALIKE else one.exactly_right == 1 for one in outcomes),
        _mean(behind_oracle),
        -_mean(behind_bnc),
        sum(difference > 0 for difference in behind_bnc),
    )


def _standings(outcomes: Sequence[Outcome], question: Question) -> dict[str, Standing]:
    best: dict[Block, float] = {}
    for outcome in outcomes:
        if not outcome.is_reference:
            best[outcome.block] = max(best.get(outcome.block, 0.0), outcome.personalised_accuracy)
    goals = {block: TARGET * accuracy for block, accuracy in best.items()}
    return {
        method: Standing(
            of_method[0].is_reference,
            _mean([getattr(outcome, question.score) for outcome in of_method]),
            float(np.nanmean([getattr(outcome, question.also) for outcome in of_method])),
            len(of_method),
            _mean([outcome.megabytes for outcome in of_method]),
            float(np.median([own.megabytes_to(goals.get(own.block, inf)) for own in of_method])),
        )
        for method, of_method in group_by_method(outcomes).items()
    }


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else nan
