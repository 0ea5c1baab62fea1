"""Arrays, and means over the numbers of them that there are."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[Any]


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
