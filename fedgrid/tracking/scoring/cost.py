"""The cost of a target score: rounds, bytes and seconds until a run first reaches it.

Two conventions of traffic. `training`: what rounds send down and up. `with-test`: besides, each client that
is to train in a round downloads the model that it is tested with, as in Prigent et al. (Tables IV and V);
that is one model, or what the round sent it if that is less (nothing for SOLO, the shared part for
LG-FedAvg).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from fedgrid.tracking.arrays import Array
from fedgrid.tracking.names import nearest_score
from fedgrid.tracking.scoring.client_scores import (
    CLIENTS,
    ONLY_CURVES,
    PREDICTED,
    PROBABILITIES,
    PUBLISHED_CLIENTS,
)
from fedgrid.tracking.scoring.partitions import PARTITION
from fedgrid.tracking.scoring.run import Run, Scenario
from fedgrid.tracking.scoring.study import Study

Traffic: TypeAlias = Literal["training", "with-test"]
Unit: TypeAlias = Literal["bytes", "mbit-per-client"]

SCORES = tuple(
    each.name
    for each in (*CLIENTS, *PROBABILITIES, *PREDICTED, *ONLY_CURVES, *PARTITION, *PUBLISHED_CLIENTS)
    if each.highest
)
"""Curves that can be a target: at most 1, and more is better."""


@dataclass(frozen=True)
class Target:
    """A score to reach, and the unit in which the traffic until then is shown."""

    curve: str
    """One of `SCORES`."""
    value: float
    """The score itself, or its share of the best if `is_share`."""
    is_share: bool = False
    """Whether the target is a share of the scenario's best last score: the mean over seeds of any algorithm
    but references."""
    unit: Unit = "bytes"

    @classmethod
    def from_text(cls, text: str, unit: Unit = "bytes") -> "Target":
        """Parse the target of `personalised_accuracy=0.7`, or `=95%` of the best.

        Raises:
            ValueError: it is not of this form, or there is no such score.
        """
        curve, _, value = text.partition("=")
        if curve not in SCORES:
            hint = nearest_score(curve, SCORES)
            raise ValueError(f"target '{text}': no score '{curve}'; {hint}allowed: {', '.join(SCORES)}")
        is_share = value.endswith("%")
        try:
            number = float(value.removesuffix("%")) / (100 if is_share else 1)
        except ValueError:
            number = np.nan
        if not 0 < number <= 1:
            raise ValueError(
                f"target '{text}': expected a score above 0 and up to 1, as in {curve}=0.7, or a share of "
                f"the scenario's best last score, as in {curve}=95%"
            )
        return cls(curve, number, is_share, unit)

    @property
    def goal(self) -> str:
        """The value in words."""
        return f"{self.value * 100:g} % of the scenario's best" if self.is_share else f"{self.value:g}"

    @property
    def score(self) -> str:
        """The score in words."""
        names = {
            "personalised_f1": "personalised F1 (own classes)",
            "published_pf1": "PF1 (union of classes, as published)",
            "personalised_r2": "personalised R2",
        }
        return names.get(self.curve, self.curve.replace("_", " "))


DEFAULT_TARGET = Target("personalised_f1", 0.95, is_share=True)
"""Target of reports without `--target`."""


@dataclass(frozen=True)
class Cost:
    """Rounds, bytes and seconds until a run reaches a target: infinite if it never does, NaN if unknown."""

    rounds: float
    bytes: float
    seconds: float
    clients: int

    def convert_traffic(self, unit: Unit) -> float:
        """Convert the traffic to a unit: bytes of the whole run, or megabits a client, the mean over all.

        Megabits per client are the unit of FLIS's Table 3.
        """
        return self.bytes if unit == "bytes" else self.bytes * 8 / 1e6 / self.clients


def compute_costs(study: Study, target: Target) -> Mapping[str, tuple[Cost, ...]]:
    """Compute, by algorithm, the cost of each of its finished runs that recorded the score."""
    goals, curve = _compute_goals(study, target), target.curve
    return {
        algorithm: tuple(
            compute_cost(result, curve, goals.get(result.scenario, np.inf))
            for result in study.with_values(algorithm=algorithm).finished
            if result.has(curve)
        )
        for algorithm in study.algorithms
    }


def compute_cost(result: Run, curve: str, goal: float, traffic: Traffic = "training") -> Cost:
    """Compute the cost until a curve of a run first reaches a goal.

    Args:
        result: a finished run.
        curve: name of the curve, one of `SCORES`.
        goal: value to reach or exceed; infinite if there is none.
        traffic: the convention by which bytes are counted, `training` by default.
    """
    reached = np.flatnonzero(result.curves[curve] >= goal)

    def read_total(total_R: Array) -> float:
        """Read a running sum at the first round that reaches the goal."""
        # A sum with a gap before it is unknown, even if an earlier round has reached the goal.
        if np.isnan(total_R[-1]):
            return np.nan
        return float(total_R[reached[0]]) if len(reached) else np.inf

    seconds_R = result.curves["seconds"]
    return Cost(
        read_total(result.round_R),
        read_total(compute_traffic(result, traffic)),
        read_total(seconds_R),
        result.clients,
    )


def compute_traffic(result: Run, traffic: Traffic) -> Array:
    """Compute the bytes sent up and down since the start, shape (R,), NaN where unknown."""
    bytes_R = result.curves["bytes"]
    if traffic == "training":
        return bytes_R
    # Without `model_bytes` the size of the test's download is unknown, and so is every sum from there on.
    model_bytes_R = result.curves["asked_clients"] * (result.model_bytes or np.nan)
    return np.asarray(bytes_R + np.cumsum(np.minimum(model_bytes_R, result.curves["bytes_down"])))


def adapt_target(study: Study, target: Target) -> Target:
    """Replace a target F1 by the published one, or R2, if a run has no other, as those of the archive."""
    if target.curve != DEFAULT_TARGET.curve:
        return target
    lacking = [result for result in study.finished if not result.has(target.curve)]
    for curve in ("personalised_r2", "published_pf1"):
        if any(result.has(curve) for result in lacking):
            return replace(target, curve=curve)
    return target


def choose_unit(spent: Iterable[Cost], unit: Unit) -> tuple[str, float]:
    """Choose the unit in which costs are printed, by the largest: its name and size, as `GB`, 1e9."""
    if unit != "bytes":
        return "Mbit a client", 1.0
    # One unit for the whole table, so that its columns can be compared at a glance.
    largest = max((own_cost.bytes for own_cost in spent if np.isfinite(own_cost.bytes)), default=0.0)
    sizes = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
    return next(((name, size) for name, size in sizes if largest >= size), ("B", 1.0))


def _compute_goals(study: Study, target: Target) -> dict[Scenario, float]:
    """Compute the value to reach in each scenario; a share is of the best mean of any competitor."""
    if not target.is_share:
        return dict.fromkeys(study.scenarios, target.value)
    best: dict[Scenario, float] = {}
    # References such as a centralised run would set a goal that no federation can reach.
    for (scenario, _), cell in study.competitors.cells().items():
        final = [result.last(target.curve) for result in cell.finished if result.has(target.curve)]
        if final:
            best[scenario] = max(best.get(scenario, -np.inf), target.value * float(np.mean(final)))
    return best
