"""What the columns of a run's tables can hold: a file may come from somebody else, with right checksums."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

TEXTS = ("part", "placed", "fault", "computed_by")
"""Columns of text."""
LISTS = ("counts", "members")
"""Columns of lists of numbers, beside those of `RECALL`. All other columns are numbers."""
RECALL = "_recall"
"""Ends the names of columns with a number for each class."""
KEYS = ("round", "client", "cluster", "true_cluster", "clustered")
"""Columns of whole numbers, or of yes and no, without nulls."""
WHOLE = (*KEYS, "seconds")
"""Columns without nulls."""
LARGEST_WHOLE = 1 << 53
"""A float holds it."""
LARGEST = 1e50
"""Far beyond a norm of float32 numbers."""
INFINITE = ("loss", "norm", "epsilon")
"""Columns with such a name may be infinite or NaN; others are not infinite."""
RANGES: Mapping[str, tuple[float, float]] = {
    "round": (1, 1 << 31),
    "client": (0, 1 << 31),
    "clusters": (0, 1 << 31),
    "temperature": (0, 2),
    "silhouette": (-1, 1),
    "accuracy": (0, 1),
    "f1_union": (0, 1),
    "f1_own": (0, 1),
    "seconds": (0, 1e10),
    "memory_mb": (0, 1e12),
    "ended_ms": (0, 2e14),
    "bytes": (0, LARGEST_WHOLE),
    "bytes_down": (0, LARGEST_WHOLE),
    "bytes_up": (0, LARGEST_WHOLE),
}
"""The name of a column, or its end after a _ -> the least and the greatest value."""
ROUNDING = 1e-6
"""How far sums of floats may lie outside."""


def wrong_type(schema: pa.Schema) -> str | None:
    """Return in one line which column has a type that it cannot have; None: none."""
    if twice := [name for name in schema.names if schema.names.count(name) > 1]:
        return f"it has column {twice[0]!r:.40} twice"
    for field in schema:
        expected = _expected(field.name)
        if not _fits(field.type, expected):
            return f"column {field.name!r:.40} has values of type {field.type!s:.40}, not {expected}"
    return None


def wrong_value(table: pa.Table) -> str | None:
    """Return in one line which column has a value that it cannot have; None: none."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name in WHOLE and column.null_count:
            return f"column {name!r} lacks values"
        if is_number(column.type) and (wrong := _outside(name, column)) is not None:
            return f"column {name!r:.40} has the value {wrong}"
    return None


def is_number(kind: pa.DataType) -> bool:
    """Return whether a type is one of numbers; yes and no count as 1 and 0."""
    return _is_whole(kind) or bool(pa.types.is_floating(kind))


def _outside(name: str, column: pa.ChunkedArray) -> str | None:
    """Return a value that a column of numbers cannot have."""
    if pa.types.is_boolean(column.type):
        return None
    values = column.drop_null().to_numpy()
    largest = LARGEST
    if _is_whole(column.type):
        largest = LARGEST_WHOLE
    else:
        if not any(word in name for word in INFINITE) and len(bad := values[np.isinf(values)]):
            return str(bad[0])
        values = values[np.isfinite(values)]
    low, high = _range(name, largest)
    bad = values[(values < low - ROUNDING) | (values > high + ROUNDING)]
    return str(bad[0]) if len(bad) else None


def _range(name: str, largest: float) -> tuple[float, float]:
    for end, allowed in RANGES.items():
        if name == end or name.endswith(f"_{end}"):
            return allowed
    return -largest, largest


def _expected(name: str) -> str:
    if name in TEXTS:
        return "text"
    if name in LISTS or name.endswith(RECALL):
        return "lists of numbers"
    return "whole numbers" if name in KEYS else "numbers"


def _fits(kind: pa.DataType, expected: str) -> bool:
    match expected:
        case "text":
            return bool(pa.types.is_string(kind))
        case "lists of numbers":
            return bool(pa.types.is_list(kind)) and is_number(kind.value_type)
        case "whole numbers":
            return _is_whole(kind)
        case _:
            return is_number(kind)


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))
