"""A method family by family: hidden groups found, accuracy against baselines, harm, and equal budgets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from operator import attrgetter

from fedgrid.tracking.arrays import group_by, mean_without_nan
from fedgrid.tracking.scoring.client_scores import compute_worse_share
from fedgrid.tracking.verdicts.field import BNC, Field, average_by_block
from fedgrid.tracking.verdicts.outcomes import Block, Outcome, Place

BUDGETS = (0.25, 0.5, 1.0)
"""Shares of the bytes that fedavg sends in its whole run, or of its rounds."""
SLACK = 1.01
"""A test counts as within a budget that it exceeds by 1 %: some methods send a message before they train."""


@dataclass(frozen=True)
class FamilyResult:
    """Results of a method in one family, over its seeds; NaN where it or a baseline has no result."""

    seeds: int
    has_groups: bool
    score: float
    exactly_right: int
    """Seeds in which the last clusters are the hidden groups; without groups, in which they are one."""
    above_baseline: Mapping[str, float]
    """Baseline of `Field.baselines` -> the method's accuracy less its accuracy."""


def summarise_families(field: Field, method: str) -> dict[Block, FamilyResult]:
    """Summarise a method in each block; for clustering also in families without groups."""
    outcomes = (*field.outcomes[method], *field.without_groups.get(method, ()))
    families = group_by(outcomes, attrgetter("block"))
    return {block: _summarise_family(field, own) for block, own in families.items()}


def _summarise_family(field: Field, own: Sequence[Outcome]) -> FamilyResult:
    """Summarise the outcomes of a method in one family."""
    has_groups = own[0].has_groups
    return FamilyResult(
        len(own),
        has_groups,
        float(mean_without_nan([getattr(one, field.question.score) for one in own])),
        sum(one.exactly_right == 1 if has_groups else one.clusters == 1 for one in own),
        {
            name: float(mean_without_nan([_subtract_baseline(one, base) for one in own]))
            for name, base in field.baselines.items()
        },
    )


def _subtract_baseline(outcome: Outcome, baseline: Mapping[Place, Outcome]) -> float:
    """Compute the method's accuracy less the baseline's on the same block and seed; NaN without it."""
    other = baseline.get(outcome.place)
    return outcome.personalised_accuracy - other.personalised_accuracy if other else nan


def compute_harm(field: Field, method: str, baseline: str) -> dict[Block, float]:
    """Compute, by block, the share of clients that are served worse than by a baseline of `Field.baselines`.

    Blocks in which no client has both accuracies, or the method is the baseline, are left out.
    """
    others = field.baselines[baseline]

    def compute_share(outcome: Outcome) -> float:
        """Compute the share for one outcome."""
        other = others.get(outcome.place)
        if other is not None and outcome.is_diverged and not other.is_diverged:
            # A run that diverged has no model for any client: each is served worse than by one that works.
            return 1.0
        return nan if other in (None, outcome) else compute_worse_share(outcome.clients, other.clients)

    shares = average_by_block(field.outcomes[method], compute_share)
    return {block: value for block, value in shares.items() if not isnan(value)}


def compute_accuracy_within_budget(field: Field, method: str, share: float, *, counts_rounds: bool) -> float:
    """Compute the mean accuracy at the last test within a share of the budget of fedavg.

    It is NaN if that is before the first test in any run, or fedavg has no result.

    Args:
        field: the methods.
        method: one of them.
        share: one of `BUDGETS`.
        counts_rounds: the budget is fedavg's number of rounds, else its bytes.
    """
    column = 0 if counts_rounds else 2

    def find_accuracy(outcome: Outcome) -> float:
        """Find the accuracy of one outcome at its last test within the budget."""
        if outcome.is_diverged:
            return 0.0
        bnc = field.baselines[BNC].get(outcome.place)
        if not bnc or not bnc.tested:
            return nan
        # Of the same block and seed: federations of different sizes send different amounts.
        budget = SLACK * share * bnc.tested[-1][column]
        return next((test[1] for test in reversed(outcome.tested) if test[column] <= budget), nan)

    own = field.outcomes[method]
    return (
        nan if any(isnan(find_accuracy(one)) for one in own) else field.average_method(method, find_accuracy)
    )
