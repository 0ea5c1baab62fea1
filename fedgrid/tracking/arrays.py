"""Arrays, means without NaNs, groups, and declared scores, which are functions of arrays."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[Any]
Item = TypeVar("Item")
Key = TypeVar("Key")


def mean_without_nan(values: ArrayLike) -> Array:
    """Compute the mean over the last axis without the NaNs; NaN where all are NaN."""
    values = np.asarray(values, np.float64)
    measured = ~np.isnan(values)
    # `np.nanmean` warns where there is no number, which is usual here: rounds without a test.
    count = measured.sum(axis=-1)
    total = np.where(measured, values, 0.0).sum(axis=-1)
    return np.asarray(np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0))


def last_number(values: ArrayLike) -> float:
    """Find the last number that is not NaN; NaN if there is none."""
    values = np.asarray(values, np.float64)
    measured = values[~np.isnan(values)]
    return float(measured[-1]) if len(measured) else float("nan")


def group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Group items by their key; keys and items stay in their order."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


@dataclass(frozen=True)
class Score:
    """The declaration of one score."""

    name: str
    meaning: str
    """One sentence for the documentation and for MLflow."""
    formula: Callable[..., Any]
    """Function that computes the score; the tuple that it is declared in says from which arrays."""
    section: str = ""
    """Section of MLflow's metrics; empty if MLflow does not show the score."""
    highest: bool | None = True
    """Whether more is better; None if neither is."""
    heading: str = ""
    """Heading of its column in the table of results on the terminal, in short lines; empty: no column."""
    needs: str = ""
    """The key of `evaluation` without which records lack it; empty if it needs none."""


def compute_scores(scores: Iterable[Score], *given: Any) -> dict[str, Any]:
    """Compute scores from `given`, by name."""
    return {score.name: score.formula(*given) for score in scores}


def to_finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace NaN and infinity by None, which JSON and MLflow can hold, in values by name."""
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in values.items()
    }
