"""Arrays, means over the numbers of them that there are, and scores, which are functions of arrays."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[Any]
Item = TypeVar("Item")
Key = TypeVar("Key")


def mean(values: ArrayLike) -> Array:
    """Return the mean over the last axis without the NaNs, NaN where there is nothing else."""
    values = np.asarray(values, np.float64)
    measured = ~np.isnan(values)
    count = measured.sum(axis=-1)
    total = np.where(measured, values, 0.0).sum(axis=-1)
    return np.asarray(np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0))


def last(values: ArrayLike) -> float:
    """Return the last number, NaN if there is none."""
    values = np.asarray(values, np.float64)
    measured = values[~np.isnan(values)]
    return float(measured[-1]) if len(measured) else float("nan")


def group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return key -> the items that have it, both in their order."""
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
    of: Callable[..., Any]
    """How the score is computed; the tuple that it is declared in says from what."""
    section: str = ""
    """Of MLflow's metrics; empty if MLflow does not show the score."""
    highest: bool | None = True
    """Whether more is better; None if neither is."""
    heading: str = ""
    """Of its column in the table of results on the terminal, in short lines; empty: it has none."""
    needs: str = ""
    """The key of `evaluation` without which records lack it; empty: none."""


def compute_scores(scores: Iterable[Score], *given: Any) -> dict[str, Any]:
    """Return name -> value of scores, each computed from `given`."""
    return {score.name: score.of(*given) for score in scores}


def finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return name -> value, None for NaN and infinity."""
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in values.items()
    }
