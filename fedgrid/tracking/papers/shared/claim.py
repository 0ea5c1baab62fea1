"""A claim, the numbers of our runs that it is about, and the verdict over seeds and scenarios.

A claim is an interval in which a number should lie, mostly a difference of two algorithms, paired by scenario
and seed. In one scenario it holds if the 95 % interval of the mean over seeds (Student's t) lies within the
claimed one, and does not if it lies outside; otherwise, or with one seed, it cannot be said. It holds as a
whole if it does in all scenarios, and does not if it fails in one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, isnan
from typing import Literal, TypeAlias

import numpy as np

from fedgrid.tracking.arrays import group_by
from fedgrid.tracking.scoring.paired_tests import compute_mean_and_half
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.scoring.selection import parse_number
from fedgrid.tracking.scoring.study import Study

Verdict: TypeAlias = Literal["holds", "does not hold", "cannot be said"]
ScoreBySeed: TypeAlias = Mapping[tuple[str, int], float]
"""Number of a run by scenario, in words, and seed."""


@dataclass(frozen=True)
class Check:
    """A number of one scenario, by seed, and the interval in which it is claimed to lie."""

    what: str
    """As `FLIS-DC - IFCA`."""
    scenario: str
    values: tuple[float, ...]
    """The number of each seed."""
    low: float = 0.0
    high: float = inf

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return float(np.mean(self.values))

    @property
    def verdict(self) -> Verdict:
        """Whether the claim holds in this scenario."""
        # One seed has no interval, and its number alone says nothing about chance.
        if len(self.values) < 2:
            return "cannot be said"
        mean, half = compute_mean_and_half(np.array(self.values))
        if self.low < mean - half and mean + half < self.high:
            return "holds"
        outside = mean + half <= self.low or mean - half >= self.high
        return "does not hold" if outside else "cannot be said"


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, and the numbers of our runs that test it."""

    text: str
    evidence: str
    """The paper's own numbers, or the place where it shows them."""
    ours: str
    """The number of ours, in words: `FLIS-DC - IFCA, accuracy`."""
    claimed: str
    """The interval in words: `above 0`."""
    checks: Callable[[Study], Iterable[Check]]
    """Function that yields the checks of a study; none if it lacks the runs."""


def combine_verdicts(checks: Iterable[Check]) -> Verdict:
    """Combine the verdicts of all scenarios and comparisons of a claim."""
    verdicts = {check.verdict for check in checks}
    if "does not hold" in verdicts:
        return "does not hold"
    # One scenario that contradicts the claim outweighs all others; one that is open leaves it open.
    return "cannot be said" if "cannot be said" in verdicts else "holds"


def read_scores(
    study: Study,
    compute_number: Callable[[Run], float],
    is_match: Callable[[Run], bool],
    left_out_axis: str = "",
) -> ScoreBySeed:
    """Compute a number of the runs that fit, by scenario and seed; the mean of several variants in one.

    Args:
        study: the runs.
        compute_number: computes the number of a run, NaN if it has none.
        is_match: whether a run fits.
        left_out_axis: an axis that is no part of the scenario, because its values are compared; empty for
            none.
    """
    scored = (result for result in study.finished if is_match(result) and not isnan(compute_number(result)))
    # Settings that the claim does not name are averaged, so that a grid over them is not many checks of one
    # thing.
    by_seed = group_by(scored, lambda result: (_format_scenario(result, left_out_axis), result.seed))
    return {key: float(np.mean([*map(compute_number, results)])) for key, results in by_seed.items()}


def _format_scenario(run: Run, without: str) -> str:
    """Format a run's scenario in words, without one of the grid's axes."""
    parts = {"dataset": run.dataset, "clients": f"{run.clients} clients", "split": run.split}
    parts |= {key: f"{key} {value}" for key, value in run.setting}
    return ", ".join(text for key, text in parts.items() if key != without)


def check_differences(
    what: str, one: ScoreBySeed, other: ScoreBySeed, *, low: float = 0.0, high: float = inf
) -> Iterator[Check]:
    """Yield a check of `one - other` for each scenario that both have, over the seeds that both have.

    Args:
        what: the difference in words.
        one: numbers by scenario and seed.
        other: numbers to subtract.
        low: lower end of the claimed interval, 0 by default.
        high: upper end, infinite by default.
    """
    for scenario in dict.fromkeys(scenario for scenario, _ in one):
        seeds = sorted(seed for place, seed in one if place == scenario and (place, seed) in other)
        if seeds:
            # Paired by seed: both runs have the same clients, so that their difference varies less than
            # either score.
            differences = tuple(one[scenario, seed] - other[scenario, seed] for seed in seeds)
            yield Check(what, scenario, differences, low, high)


def check_scores(what: str, one: ScoreBySeed, *, low: float, high: float = inf) -> Iterator[Check]:
    """Yield a check of the numbers themselves for each scenario.

    Args:
        what: the number in words.
        one: numbers by scenario and seed.
        low: lower end of the claimed interval.
        high: upper end, infinite by default.
    """
    yield from check_differences(what, one, dict.fromkeys(one, 0.0), low=low, high=high)


def select_largest(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Select the check with the largest mean, for claims of the kind 'by up to'."""
    return tuple(sorted(checks, key=lambda check: check.mean)[-1:])


def has_name(*titles: str) -> Callable[[Run], bool]:
    """Build a check whether a run is of one of these algorithms, by names in tables, not as published."""
    return lambda run: run.published in titles and not run.is_as_published


def has_value(key: str, value: str, where: Callable[[Run], bool]) -> Callable[[Run], bool]:
    """Build a check whether a run fits, and has a value of a key."""
    return lambda run: run.keys.get(key) == value and where(run)


def list_values(study: Study, key: str, where: Callable[[Run], bool]) -> tuple[str, ...]:
    """List the values of a key among the runs that fit, numbers by size."""

    def build_sort_key(value: str) -> tuple[float, str]:
        """Build the sort key of a value: numbers first."""
        number = parse_number(value)
        return inf if number is None else number, value

    return tuple(
        sorted({run.keys[key] for run in study.runs if where(run) and key in run.keys}, key=build_sort_key)
    )


def compare_ends(
    study: Study, compute_number: Callable[[Run], float], key: str, where: Callable[[Run], bool]
) -> list[tuple[str, ScoreBySeed]]:
    """Compute `read_scores` at the least and at the greatest value of a key; nothing with a single value.

    Args:
        study: the runs.
        compute_number: computes the number of a run.
        key: of the configuration.
        is_match: whether a run fits.
    """
    values = list_values(study, key, where)
    chosen = (values[0], values[-1]) if len(values) > 1 else ()
    return [
        (value, read_scores(study, compute_number, has_value(key, value, where), key)) for value in chosen
    ]
