"""The two questions of an arena, and all methods in one of them, over the families that every competitor has.

A block is a family of a data set, over whose seeds scores are averaged. Families that are variants of one
kind of clients are alike: methods that differ in one of them differ in the next. So ranks and means, which
describe, are over families, and tests over kinds, each the mean of its families. Methods are ranked within a
class: those that get the number of groups, and those that do not. Methods of the other class, references, and
methods without a result of a whole data set are shown without a rank.
Source of the ranks: `tracking.scoring.statistics`, where a scenario is what a block is here.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import isnan
from operator import attrgetter, itemgetter
from typing import Literal

import numpy as np

from fedgrid.tracking.arrays import Array, group_by, mean_without_nan
from fedgrid.tracking.scoring.paired_tests import compute_average_ranks
from fedgrid.tracking.scoring.statistics import Comparison, compare_scores
from fedgrid.tracking.verdicts.outcomes import Block, GroupKnowledge, Outcome, Place, Protocol

BNC, FINE_TUNED = "fedavg", "FedAvg-FT"
"""One model for all, what clustering has to beat; and the same after fine-tuning."""
SOLO = "solo"
"""Each client alone."""
VARIED_KINDS = (
    *("disjoint", "rotated", "overlapping", "swapped", "two-levels"),
    *("iid", "dirichlet", "one-odd-client"),
)
"""Beginnings of the names of families that are variants of one kind; another family is a kind of its own."""
OutcomeNumber = Callable[[Outcome], float]
"""Function that reads a number of an outcome; NaN where there is none."""


@dataclass(frozen=True)
class Question:
    """The subject of a verdict, and the score that answers it."""

    name: Literal["clustering", "serving"]
    words: str
    score: str
    """The field of an outcome by which methods are ranked and tested."""


CLUSTERING = Question("clustering", "are the hidden groups found (ARI)", "ari")
SERVING = Question("serving", "how well are clients served (accuracy)", "personalised_accuracy")


@dataclass(frozen=True)
class Field:
    """The methods of a question, compared; those of one class compete."""

    question: Question
    protocol: Protocol
    knowledge: GroupKnowledge
    """The class of the competitors."""
    outcomes: Mapping[str, Sequence[Outcome]]
    """Method -> its results in the families and seeds that every competitor has; of clustering, in families
    with groups. Competitors by mean rank, then by score the methods of the other class and those that lack
    most families, then references."""
    without_groups: Mapping[str, Sequence[Outcome]]
    """Method -> its results in families without groups; empty if the question is not clustering."""
    comparison: Comparison
    """Comparison of the competitors."""
    baselines: Mapping[str, Mapping[Place, Outcome]]
    """`BNC`, `SOLO` (in this protocol) and `FINE_TUNED` -> place -> its result, if it has one."""

    @property
    def ranks(self) -> dict[str, float]:
        """The mean ranks of the competitors, best first; 1 is the best."""
        return dict(zip(self.comparison.algorithms, self.comparison.ranks, strict=True))

    @cached_property
    def scores(self) -> dict[str, dict[Block, float]]:
        """Mean scores over seeds by method, then by block."""
        score = attrgetter(self.question.score)
        return {method: average_by_block(own, score) for method, own in self.outcomes.items()}

    @property
    def blocks(self) -> list[Block]:
        """The blocks that every competitor has, by data set and name."""
        return sorted(self.scores[self.comparison.algorithms[0]])

    @property
    def labels(self) -> dict[Block, str]:
        """The names of `blocks`."""
        return label_blocks(self.blocks)

    @property
    def kinds(self) -> list[Block]:
        """Data set and name of the kinds of `blocks`, in the order of `average_kinds`."""
        return [*group_by(self.blocks, find_kind)]

    def stack_scores(self, method: str) -> Array:
        """Stack a competitor's scores in the order of `blocks`, shape (blocks,)."""
        return np.array([self.scores[method][block] for block in self.blocks])

    def average_kinds(self, method: str) -> Array:
        """Average a competitor's scores within each of `kinds`, shape (kinds,).

        A family with drift is the one without until its clients move: the two count as one.
        """
        own = self.scores[method]
        return np.array(
            [
                np.mean(
                    [np.mean([own[block] for block in run]) for run in group_by(kind, _find_start).values()]
                )
                for kind in group_by(self.blocks, find_kind).values()
            ]
        )

    @property
    def scope(self) -> str:
        """The number of blocks and seeds, in words."""
        least, most = self.comparison.seeds
        seeds = f"{most}" if least == most else f"{least} to {most}"
        families = "family" if len(self.blocks) == 1 else "families"
        kinds = f"{len(self.kinds)} kind{'s' * (len(self.kinds) > 1)}"
        means = f"each family the mean of {seeds} seed{'s' * (most > 1)}"
        return f"{len(self.blocks)} {families} of {kinds} ({means})"

    def format_label(self, method: str) -> str:
        """Format a method with the number of its families, if it lacks some."""
        count = len(self.scores[method])
        return method if count == len(self.blocks) else f"{method} ({count} of {len(self.blocks)} families)"

    def is_reference(self, method: str) -> bool:
        """Check whether a method competes in no class."""
        return self.outcomes[method][0].is_reference

    def average_method(self, method: str, number: OutcomeNumber) -> float:
        """Compute the mean over families of a method's means over seeds; NaN where there is no number."""
        return float(mean_without_nan([*average_by_block(self.outcomes[method], number).values()]))


def build_field(
    outcomes: Iterable[Outcome], question: Question, protocol: Protocol, knowledge: GroupKnowledge = ""
) -> Field | None:
    """Build the field of a question's methods; None if no two competitors of the class share a block.

    For clustering these are the methods that had two clusters in any run.

    Args:
        outcomes: all results of the arena.
        question: `CLUSTERING` or `SERVING`.
        protocol: of the tests of clients.
        knowledge: the class that competes: what its methods get of the hidden groups, nothing by default.
    """
    outcomes = tuple(outcomes)
    # By the runs of all families: a method that leaves some family whole still competes there.
    clustering = find_clustering_methods(outcomes)
    relevant = [
        outcome
        for outcome in outcomes
        if outcome.protocol == protocol and (question is SERVING or outcome.method in clustering)
    ]
    scored = [
        outcome
        for outcome in relevant
        if (question is SERVING or outcome.has_groups) and not isnan(getattr(outcome, question.score))
    ]
    rivals = [one for one in scored if one.told == knowledge and not one.is_reference]
    comparison = _compare_methods(_select_common_datasets(rivals), question)
    if not comparison.algorithms:
        return None
    by_method = group_by_method(scored)
    # Means over different families and seeds are not comparable: all rows use those of every competitor.
    shared = set.intersection(*({one.place for one in by_method[name]} for name in comparison.algorithms))
    by_method = group_by_method(one for one in scored if one.place in shared)
    unranked = [name for name in by_method if name not in comparison.algorithms]
    score = attrgetter(question.score)
    # By class of rows, then the best score first.
    unranked.sort(
        key=lambda name: (by_method[name][0].is_reference, -np.mean([*map(score, by_method[name])]))
    )
    order = [*comparison.algorithms, *unranked]
    without_groups = group_by_method(
        one for one in relevant if question is CLUSTERING and not one.has_groups and one.method in order
    )
    in_order = {name: by_method[name] for name in order}
    baseline_rows: dict[str, tuple[str, Protocol]] = {
        **{BNC: (BNC, protocol), SOLO: (SOLO, protocol)},
        # Under its own protocol in every field: the best that clients get without clusters, which harm is
        # measured by.
        FINE_TUNED: (BNC, "fine-tuned"),
    }
    baselines = {
        name: {one.place: one for one in outcomes if (one.method, one.protocol) == row}
        for name, row in baseline_rows.items()
    }
    return Field(question, protocol, knowledge, in_order, without_groups, comparison, baselines)


def _select_common_datasets(rivals: Sequence[Outcome]) -> list[Outcome]:
    """Select the results of the methods that have one of each data set of which most methods have one.

    The others do not compete: with them all methods would lose these data sets.
    """
    datasets = {method: {one.dataset for one in own} for method, own in group_by_method(rivals).items()}
    counts = Counter(chain.from_iterable(datasets.values()))
    # A method that works on images alone would otherwise cost all others the data sets of tables.
    common = {dataset for dataset, count in counts.items() if 2 * count > len(datasets)}
    return [one for one in rivals if datasets[one.method] >= common]


def _compare_methods(outcomes: Iterable[Outcome], question: Question) -> Comparison:
    """Compare methods by the question's score over blocks."""
    scores = {
        method: {one.place: getattr(one, question.score) for one in own}
        for method, own in group_by_method(outcomes).items()
    }
    return compare_scores(scores, question.name, find_dataset=itemgetter(0))


def group_by_method(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Group outcomes by method."""
    return group_by(outcomes, attrgetter("method"))


def find_clustering_methods(outcomes: Iterable[Outcome]) -> set[str]:
    """Find the methods that had two clusters in any run."""
    return {outcome.method for outcome in outcomes if outcome.clusters > 1}


def average_by_block(outcomes: Iterable[Outcome], number: OutcomeNumber) -> dict[Block, float]:
    """Compute the mean over its seeds for each block, NaN if none of them has a number."""
    blocks = group_by(outcomes, attrgetter("block"))
    return {block: float(mean_without_nan([*map(number, own)])) for block, own in blocks.items()}


def label_blocks(blocks: Iterable[Block]) -> dict[Block, str]:
    """Label each block by its family, with the data set if there are families of this name in several."""
    blocks = tuple(blocks)
    counts = Counter(family for _, family in set(blocks))
    return {block: f"{block[1]} ({block[0]})" if counts[block[1]] > 1 else block[1] for block in blocks}


def find_kind(block: Block) -> Block:
    """Find the data set and the kind of clients that a family is a variant of."""
    dataset, family = block
    return dataset, next((kind for kind in VARIED_KINDS if family.startswith(kind)), family)


def _find_start(block: Block) -> Block:
    """Find the family without drift that a family begins as; itself if it has none."""
    dataset, family = block
    return dataset, re.sub("-drift$", "-equal", family)


def rank_without_datasets(field: Field) -> dict[str, dict[str, float]]:
    """Compute the competitors' mean ranks without each data set; empty if there is one data set."""

    datasets = np.array([dataset for dataset, _ in field.blocks])
    losses_SA = -np.stack([field.stack_scores(name) for name in field.ranks], axis=1)
    names = sorted(set(datasets.tolist())) if len(set(datasets.tolist())) > 1 else []
    return {
        name: dict(zip(field.ranks, compute_average_ranks(losses_SA[datasets != name]).tolist(), strict=True))
        for name in names
    }
