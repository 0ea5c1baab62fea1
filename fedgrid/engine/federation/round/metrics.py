"""The numbers that are recorded for each round, and how each is obtained.

`fedgrid.record_columns` declares their columns. The rest follows: the curve of `tracking.scoring.scores`, the
MLflow metric, and the row of the reference's page of scores.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import isfinite, nan
from typing import TypeAlias

import numpy as np

from fedgrid.algorithms.clustering.measures import temperature
from fedgrid.algorithms.contract.base import Diagnostics, State
from fedgrid.algorithms.updates.source import Vector
from fedgrid.algorithms.updates.updates import Updates

Value: TypeAlias = float | int | bool | None


@dataclass(frozen=True)
class RoundOutcome:
    """What the engine knows at the end of a round."""

    updates: Updates
    """The usable updates; there may be none."""
    before: State
    """Before the round, as `state` after it."""
    state: State
    diagnostics: Diagnostics
    bytes_down: int
    bytes_up: int
    excluded: int
    """Number of updates that were NaN or infinite."""


def _temperature(outcome: RoundOutcome) -> float | None:
    return temperature(outcome.updates.cosine_distances_KK) if outcome.updates.clients else None


def _l2(outcome: RoundOutcome, over: str) -> float:
    """Return the norm of the only client's update, as Sattler's test takes it of a mean."""
    [update] = outcome.updates.vectors()
    return Updates({0: update}, outcome.updates.layout, similarity_over=over).mean_norm


def _l1_change(outcome: RoundOutcome) -> float:
    [before], [after] = outcome.before.models, outcome.state.models
    parameters = slice(outcome.updates.layout.num_parameters)
    return _l1(after[parameters]) - _l1(before[parameters])


def _l1(weights: Vector) -> float:
    return float(np.abs(weights).sum(dtype=np.float64))


Numbers: TypeAlias = Mapping[str, Callable[[RoundOutcome], Value]]
"""Column of `rounds.parquet` -> how it is obtained."""
ROUND_NUMBERS: Numbers = {
    "temperature": _temperature,
    "clusters": lambda outcome: len(set(outcome.state.labels_K.tolist())),
    "clustered": lambda outcome: outcome.diagnostics.clustered,
    "bytes_down": lambda outcome: outcome.bytes_down,
    "bytes_up": lambda outcome: outcome.bytes_up,
    "excluded": lambda outcome: outcome.excluded,
    "warnings": lambda outcome: outcome.excluded + len(outcome.diagnostics.warnings),
    "mean_norm": lambda outcome: outcome.diagnostics.mean_norm,
    "max_norm": lambda outcome: outcome.diagnostics.max_norm,
    "silhouette": lambda outcome: outcome.diagnostics.silhouette,
}
CENTRALISED_NUMBERS: Numbers = {
    "update_l2": lambda outcome: _l2(outcome, "parameters"),
    "update_l2_state": lambda outcome: _l2(outcome, "state"),
    "weights_l1_change": _l1_change,
}
"""Of the split with one client; `grids.epsilons.rules` says what they are for."""


def values(outcome: RoundOutcome, numbers: Numbers) -> dict[str, Value]:
    """Return name -> value of these numbers of a round."""
    return {name: of(outcome) for name, of in numbers.items()}


def own_values(returned: Mapping[str, float], declared: Collection[str]) -> dict[str, Value]:
    """Return the numbers that an algorithm's entry declares, None for one that is missing or not finite.

    Raises:
        ValueError: the algorithm returned one that its entry does not declare.
    """
    if unknown := [name for name in returned if name not in declared]:
        raise ValueError(
            f"Diagnostics.metrics has '{unknown[0]}', which the numbers of the algorithm's AlgorithmEntry do "
            f"not declare; declared: {', '.join(declared) or 'none'}"
        )
    numbers = {name: float(returned.get(name, nan)) for name in declared}
    return {name: value if isfinite(value) else None for name, value in numbers.items()}
