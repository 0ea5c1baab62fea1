"""The types that columns of a run's tables have: a file may come from somebody else, with right checksums."""

from collections.abc import Collection

import pyarrow as pa

TEXTS = ("part", "placed", "fault", "computed_by")
"""Columns of text."""
LISTS = ("counts", "members")
"""Columns of lists of numbers, beside those of `RECALL`. All other columns are numbers."""
RECALL = "_recall"
"""Ends the names of columns with a number for each class."""


def wrong_type(schema: pa.Schema, whole: Collection[str]) -> str | None:
    """Return in one line which column has a type that it cannot have; None: none.

    `whole` are names of columns of whole numbers, or of yes and no.
    """
    if twice := [name for name in schema.names if schema.names.count(name) > 1]:
        return f"it has column {twice[0]!r:.40} twice"
    for field in schema:
        expected = _expected(field.name, whole)
        if not _fits(field.type, expected):
            return f"column {field.name!r:.40} has values of type {field.type!s:.40}, not {expected}"
    return None


def is_number(kind: pa.DataType) -> bool:
    """Return whether a type is one of numbers; yes and no count as 1 and 0."""
    return _is_whole(kind) or bool(pa.types.is_floating(kind))


def _expected(name: str, whole: Collection[str]) -> str:
    if name in TEXTS:
        return "text"
    if name in LISTS or name.endswith(RECALL):
        return "lists of numbers"
    return "whole numbers" if name in whole else "numbers"


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
