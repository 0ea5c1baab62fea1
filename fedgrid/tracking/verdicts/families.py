"""Methods family by family: are the groups found, and are clients served better than by BNC and ORACLE.

BNC (one model for all) is what clustering has to beat; ORACLE (FedAvg in each hidden group) is what it hopes
for. Where clients differ without groups, or do not differ, ORACLE is no upper bound.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np

from fedgrid.tracking.verdicts.outcomes import Outcome

BNC, ORACLE, SOLO = "fedavg", "oracle", "solo"
ALIKE = "iid"
"""The family whose clients do not differ: to cut them up is a failure."""


@dataclass(frozen=True)
class InFamily:
    """A method in one family, over its seeds."""

    seeds: int
    ari: float
    """Mean."""
    right: int
    """Seeds in which the last clusters are the hidden groups; of clients that do not differ, in which they
    are one cluster."""
    accuracy: float
    """Mean."""
    regret: float
    """ORACLE's accuracy less the method's, mean over the seeds of both; NaN if there are none."""
    gain: float
    """The method's accuracy less BNC's, likewise."""
    below_oracle: int
    """Seeds in which ORACLE's clients are served better."""
    below_bnc: int

    @property
    def is_right(self) -> bool:
        """Whether `right` is every seed."""
        return self.right == self.seeds


Families = Mapping[str, Mapping[str, InFamily]]
"""Method -> family -> what it does there."""


def by_family(by_method: Mapping[str, Sequence[Outcome]]) -> Families:
    """Return every method in every family in which it has a result; outcomes of one protocol."""
    accuracies = {
        reference: {outcome.block: outcome.personalised_accuracy for outcome in by_method.get(reference, ())}
        for reference in (BNC, ORACLE)
    }
    return {
        method: {
            family: _in_family([each for each in outcomes if each.family == family], accuracies)
            for family in dict.fromkeys(each.family for each in outcomes)
        }
        for method, outcomes in by_method.items()
    }


def families_of(outcomes: Iterable[Outcome], *, of_groups: bool = False) -> list[str]:
    """Return the families, those with groups to be found first, then by name.

    With `of_groups` only those in which a partition can be right: with groups, or without any difference.
    """
    found = {outcome.family: outcome.has_groups for outcome in outcomes}
    chosen = (family for family in found if not of_groups or found[family] or family == ALIKE)
    return sorted(chosen, key=lambda family: (not found[family], family))


def _in_family(outcomes: Sequence[Outcome], accuracies: Mapping[str, Mapping[Any, float]]) -> InFamily:
    found = {
        reference: [
            known[each.block] - each.personalised_accuracy for each in outcomes if each.block in known
        ]
        for reference, known in accuracies.items()
    }
    return InFamily(
        len(outcomes),
        _mean([each.ari for each in outcomes]),
        sum(each.clusters == 1 if each.family == ALIKE else each.exactly_right == 1 for each in outcomes),
        _mean([each.personalised_accuracy for each in outcomes]),
        _mean(found[ORACLE]),
        -_mean(found[BNC]),
        sum(difference > 0 for difference in found[ORACLE]),
        sum(difference > 0 for difference in found[BNC]),
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else nan
