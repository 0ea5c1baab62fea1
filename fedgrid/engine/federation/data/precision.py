"""Conversion of numbers to single precision that keeps rows apart, and the check of tokens.

A float has 24 bits. Of a time stamp in seconds (1.7e9) that varies by an hour, 19 of them are the same in all
rows. Columns whose common offset takes more than half of the bits are centred in double precision before the
cast; all others are cast as they are.

Shapes: N rows, C columns or channels.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.errors import DataError

OFFSET_RATIO = 1 << 12
"""Ratio of a column's largest value to its range from which on the offset is taken off: half of a float's 24
bits."""
MOST_TOKENS = 1 << 20
"""Tokens from this number on are taken for a mistake, unless there are as many tokens in the data."""
OVERFLOW_HELP = "write at most 3.4e38"
"""Advice for a number that single precision cannot hold."""


def find_offsets(pool: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Compute the offset that is taken off each column, shape (C,): its mean in the pool; 0 for most columns.

    Args:
        pool: the parts of the pool, finite numbers of shape (N, C, ...).
    """
    parts = [part for part in pool if part.size]
    if not parts:
        return np.zeros(pool[0].shape[1])
    axes = tuple(axis for axis in range(parts[0].ndim) if axis != 1)
    lows_C = np.min([part.min(axes) for part in parts], axis=0).astype(np.float64)
    highs_C = np.max([part.max(axes) for part in parts], axis=0).astype(np.float64)
    largest_C = np.maximum(abs(lows_C), abs(highs_C))
    # The range of a column may exceed the largest double; it is then infinite, and the column is not centred.
    with np.errstate(over="ignore"):
        is_far_C = (highs_C > lows_C) & (largest_C / OFFSET_RATIO > highs_C - lows_C)
    offsets_C = np.zeros(len(lows_C))
    for column in np.flatnonzero(is_far_C):
        # From the lowest value on, so that large numbers do not add up.
        over = [(part[:, column] - lows_C[column]).astype(np.float64).ravel() for part in parts]
        offsets_C[column] = lows_C[column] + np.concatenate(over).mean()
    return offsets_C


def convert_to_single(values: NDArray[Any], offsets_C: NDArray[np.float64]) -> NDArray[np.float32]:
    """Subtract the offsets and convert to single precision; numbers that are too large become infinite."""
    if offsets_C.any():
        values = values - offsets_C.reshape(-1, *[1] * (values.ndim - 2))
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values, np.float32)


def cast_parts(parts: Sequence[NDArray[Any]], num_pool: int) -> list[NDArray[Any]]:
    """Convert the floats in the parts of a data set to single precision, with common offsets.

    Offsets are taken off all parts if all have the same columns of floats. Other types stay as they are.

    Args:
        parts: arrays of shape (N, C, ...).
        num_pool: number of parts at the beginning that are the pool; the test set has no say in the offsets.
    """
    are_alike = len({part.shape[1:] for part in parts}) == 1 and {part.dtype.kind for part in parts} == {"f"}
    offsets_C = find_offsets(parts[:num_pool]) if are_alike else np.zeros(1)
    return [convert_to_single(part, offsets_C) if part.dtype.kind == "f" else part for part in parts]


def find_overflow(singles: NDArray[Any]) -> tuple[int, int] | None:
    """Find row and column of the first number that single precision cannot hold; None if it holds all."""
    if singles.dtype.kind != "f" or np.isfinite(singles).all():
        return None
    row, column = np.argwhere(~np.isfinite(singles))[0, :2].tolist()
    return row, column


def check_tokens(called: str, tokens: NDArray[np.integer[Any]]) -> None:
    """Check that whole numbers, which are taken for tokens, can be numbers of words.

    Raises:
        DataError: one is negative, or so large that its embedding would be larger than the data.
    """
    lowest, highest = int(tokens.min(initial=0)), int(tokens.max(initial=0))
    if lowest < 0:
        problem = f"has the token {lowest}; number tokens from 0 on"
    # An embedding has a row for each number up to the largest: one identifier among the tokens could fill the
    # memory.
    elif highest < MOST_TOKENS or highest < tokens.size:
        return
    else:
        problem = (
            f"has {highest}, and whole numbers are tokens, each with its embedding; renumber them from 0 on"
        )
    raise DataError(f"{called} {problem}; numbers that are no tokens are saved as floats, .astype('float64')")
