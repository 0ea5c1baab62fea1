"""The numbers that are recorded for each round, each declared once in `ROUND_METRICS`.

A declaration has a name, a type, a meaning, and how the number is obtained. The rest follows from it: the
column of `rounds.parquet`, the entry of `tracking.records`, the curve of `tracking.scoring.scores`, the
MLflow metric, and the row of the reference's page of scores. Records of a version without the number read as
null.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fedgrid.algorithms.clustering.temperature import temperature
from fedgrid.algorithms.contract.base import Diagnostics, State
from fedgrid.algorithms.updates.updates import Updates, Vector
from fedgrid.engine.federation.record_names import EPSILON

Value: TypeAlias = float | int | bool | None

CLUSTERING, COST = "clustering", "cost"


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


@dataclass(frozen=True)
class RoundMetric:
    """The declaration of one number of a round."""

    name: str
    type: str
    """Arrow's name of a type of number, or `bool`."""
    meaning: str
    """One sentence for the documentation and for MLflow."""
    of: Callable[[RoundOutcome], Value] | None = None
    """How it is obtained; None if algorithms return it in `Diagnostics.metrics`."""
    in_mlflow: bool = True
    section: str = "other"
    """Its section among MLflow's metrics."""

    def value(self, outcome: RoundOutcome) -> Value:
        """Return the number of this round, None if there is none."""
        return outcome.diagnostics.metrics.get(self.name) if self.of is None else self.of(outcome)


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


ROUND_METRICS: tuple[RoundMetric, ...] = (
    RoundMetric(
        "temperature",
        "float64",
        "Half the root mean square of the cosine distances between the clients' updates.",
        _temperature,
        section=CLUSTERING,
    ),
    RoundMetric(
        "clusters",
        "int32",
        "Number of clusters after the round.",
        lambda outcome: len(set(outcome.state.labels_K.tolist())),
        section=CLUSTERING,
    ),
    RoundMetric(
        "clustered",
        "bool",
        "Whether the algorithm decided on a partition, even an unchanged one.",
        lambda outcome: outcome.diagnostics.clustered,
        in_mlflow=False,
    ),
    RoundMetric(
        "bytes_down",
        "int64",
        "Bytes of the models that were sent to clients.",
        lambda outcome: outcome.bytes_down,
        section=COST,
    ),
    RoundMetric(
        "bytes_up",
        "int64",
        "Bytes of the updates that the server received.",
        lambda outcome: outcome.bytes_up,
        section=COST,
    ),
    RoundMetric(
        "excluded",
        "int32",
        "Number of updates left out because they are NaN or infinite.",
        lambda outcome: outcome.excluded,
        in_mlflow=False,
    ),
    RoundMetric(
        "warnings",
        "int32",
        "Number of warnings in `log.txt`.",
        lambda outcome: outcome.excluded + len(outcome.diagnostics.warnings),
    ),
    RoundMetric(
        "mean_norm",
        "float64",
        "Largest norm of a cluster's mean update, if the algorithm uses it (Sattler).",
        lambda outcome: outcome.diagnostics.mean_norm,
        in_mlflow=False,
    ),
    RoundMetric(
        "max_norm",
        "float64",
        "Largest norm of a client's update, if the algorithm uses it (Sattler).",
        lambda outcome: outcome.diagnostics.max_norm,
        in_mlflow=False,
    ),
    RoundMetric(
        "silhouette",
        "float64",
        "Mean silhouette of the partition on the distances that the algorithm uses; needs no hidden groups. "
        "None for one cluster, and if every client is alone.",
        lambda outcome: outcome.diagnostics.silhouette,
        section=CLUSTERING,
    ),
)
"""In the order of the columns of `rounds.parquet`."""

NOISE_METRICS: tuple[RoundMetric, ...] = (
    RoundMetric(
        EPSILON,
        "float64",
        "Largest epsilon of any client so far, at `privacy.delta`; only of runs with noise.",
        section="privacy",
    ),
)
"""After those, in runs with noise; `federation.uplink.accountant` computes them."""

CENTRALISED_METRICS: tuple[RoundMetric, ...] = (
    RoundMetric(
        "update_l2",
        "float64",
        "Euclidean norm of the update over the parameters; only of split centralised.",
        lambda outcome: _l2(outcome, "parameters"),
        in_mlflow=False,
    ),
    RoundMetric(
        "update_l2_state",
        "float64",
        "Euclidean norm of the update over parameters and BatchNorm's buffers; only of split centralised.",
        lambda outcome: _l2(outcome, "state"),
        in_mlflow=False,
    ),
    RoundMetric(
        "weights_l1_change",
        "float64",
        "L1 norm of the parameters after the round minus that before, of which the OCFL papers' epsilon_1 is "
        "a tenth; only of split centralised.",
        _l1_change,
        in_mlflow=False,
    ),
)
"""After those, of the split with one client; `grids.analyses.epsilon_rules` says what they are for."""


def values(outcome: RoundOutcome) -> dict[str, Value]:
    """Return name -> value of every declared number.

    Raises:
        ValueError: if the algorithm returned a number that is not declared.
    """
    declared = {metric.name for metric in ROUND_METRICS if metric.of is None}
    for name in outcome.diagnostics.metrics:
        if name not in declared:
            raise ValueError(
                f"Diagnostics.metrics has '{name}', which ROUND_METRICS in federation/round/metrics.py does "
                f"not declare as an algorithm's; declared: {', '.join(sorted(declared)) or 'none'}"
            )
    return {metric.name: metric.value(outcome) for metric in ROUND_METRICS}
