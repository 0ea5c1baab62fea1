"""What the columns of a run's tables can hold: a file may come from somebody else, with right checksums."""

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from fedgrid.record_columns import EVERY_COLUMN, LARGEST, LARGEST_WHOLE, RecordColumn

ROUNDING = 1e-6
"""How far sums of floats may lie outside."""


def wrong_type(schema: pa.Schema) -> str | None:
    """Return in one line which column has a type that it cannot have; None: none.

    A column that is not declared has numbers.
    """
    if twice := [name for name in schema.names if schema.names.count(name) > 1]:
        return f"it has column {twice[0]!r:.40} twice"
    declared = _declared()
    for field in schema:
        expected = _expected(declared.get(field.name))
        if not EXPECTED[expected](field.type):
            return f"column {field.name!r:.40} has values of type {field.type!s:.40}, not {expected}"
    return None


def wrong_value(table: pa.Table) -> str | None:
    """Return in one line which column has a value that it cannot have; None: none."""
    declared = _declared()
    for name, values in zip(table.column_names, table.columns, strict=True):
        column = declared.get(name, RecordColumn(name, values.type, ""))
        if column.required and values.null_count:
            return f"column {name!r} lacks values"
        if is_number(values.type) and (wrong := _outside(column, values)) is not None:
            return f"column {name!r:.40} has the value {wrong}"
    return None


def is_number(kind: pa.DataType) -> bool:
    """Return whether a type is one of numbers; yes and no count as 1 and 0."""
    return _is_whole(kind) or bool(pa.types.is_floating(kind))


def _declared() -> dict[str, RecordColumn]:
    """Return name -> declaration; a name that two files have allows the same in both."""
    return {column.name: column for columns in EVERY_COLUMN.values() for column in columns}


def _outside(column: RecordColumn, values: pa.ChunkedArray) -> str | None:
    if pa.types.is_boolean(values.type):
        return None
    largest = LARGEST_WHOLE if _is_whole(values.type) else LARGEST
    numbers = values.drop_null().to_numpy()
    if not _is_whole(values.type):
        if not column.infinite and len(bad := numbers[np.isinf(numbers)]):
            return str(bad[0])
        numbers = numbers[np.isfinite(numbers)]
    low, high = max(column.least, -largest), min(column.greatest, largest)
    bad = numbers[(numbers < low - ROUNDING) | (numbers > high + ROUNDING)]
    return str(bad[0]) if len(bad) else None


def _expected(column: RecordColumn | None) -> str:
    if column is None:
        return "numbers"
    if pa.types.is_string(column.type):
        return "text"
    if pa.types.is_list(column.type):
        return "lists of numbers"
    return "whole numbers" if column.required and _is_whole(column.type) else "numbers"


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


EXPECTED: Mapping[str, Callable[[pa.DataType], bool]] = {
    "text": pa.types.is_string,
    "lists of numbers": lambda kind: pa.types.is_list(kind) and is_number(kind.value_type),
    "whole numbers": _is_whole,
    "numbers": is_number,
}
"""What a column can have, in words, and whether a type is that."""
