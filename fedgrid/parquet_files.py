"""Reads tables in Parquet, and checks that they fit into memory and hold what their columns can.

No checksum covers the footers of a run that is not finished, and a bundle's tables may hold anything.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from errno import ENOMEM
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from fedgrid.record_columns import RecordColumn

ColumnLookup: TypeAlias = Callable[[str], "RecordColumn"]
"""Function from the name of a column to its declaration: `record_columns.declared`."""
LARGEST_EXACT = 1 << 53
"""Largest whole number up to which a float holds all of them."""
ROUNDING = 1e-6
"""Distance by which sums of floats may lie outside the range of their column."""
MEMORY_DIVISOR = 4
"""Part of the memory that a table may take, as a divisor: to read one takes three times its size."""
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
"""File in a container with the bytes that it may use, or `max`."""
BYTES_PER_VALUE = 8
"""Bytes of a value in memory; a page may hold one value a billion times in a few bytes."""


class BadTable(ValueError):
    """A file is not the table that was written."""


def parse_run_id(folder: Path) -> str:
    """Parse the id of a run from the name of its folder, which ends with it."""
    return folder.name.rpartition("-")[2]


def read_parquet(data: BinaryIO, choose: Callable[[pa.Schema], Sequence[str]]) -> pa.Table:
    """Read columns of an open file.

    Args:
        data: the file.
        choose: function from its schema, which has one level, to the names of the columns to read.

    Raises:
        OSError: it cannot be read, or declares more than a quarter of the memory.
        BadTable: it is not as written.
    """
    try:
        return _read_columns(data, choose)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise BadTable(str(error).splitlines()[0]) from error


def check_fits(file: pq.ParquetFile, num_columns: int) -> None:
    """Check that columns of a table fit into a quarter of the memory, by the sizes that the file declares.

    Raises:
        OSError: they do not.
    """
    groups = [file.metadata.row_group(index) for index in range(file.num_row_groups)]
    size = sum(max(group.total_byte_size, BYTES_PER_VALUE * group.num_rows * num_columns) for group in groups)
    if size > read_memory_limit() // MEMORY_DIVISOR:
        raise OSError(
            ENOMEM,
            f"it would take {size / 1e9:,.1f} GB of memory, more than a quarter of "
            f"{read_memory_limit() / 1e9:,.1f} GB",
        )


def read_memory_limit() -> int:
    """Measure the memory of this machine in bytes, or of its container if that has less."""
    size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):
        size = min(size, int(CONTAINER_LIMIT.read_text()))
    return size


def _read_columns(data: BinaryIO, choose: Callable[[pa.Schema], Sequence[str]]) -> pa.Table:
    """Read columns of a file, and check that its metadata and its pages agree."""
    # Not `pq.read_table`, which takes twice as long for the short tables of most runs.
    file = pq.ParquetFile(data, page_checksum_verification=True)
    names = choose(file.schema_arrow)
    groups = [file.metadata.row_group(index) for index in range(file.num_row_groups)]
    if any(group.num_columns != len(file.schema_arrow) for group in groups):
        raise BadTable("it has other columns than were written")
    check_fits(file, len(names))
    table = file.read(names, use_threads=False)
    # Checksums cover pages, not how many there are. Arrow ends the process where it shows a damaged column's
    # metadata, so that only those of columns that it has read are looked at.
    if len(table) != file.metadata.num_rows:
        raise BadTable("it has fewer rows than were written")
    for place, field in enumerate(file.schema_arrow):
        if field.name in names and pa.types.is_list(field.type):
            written = sum(group.column(place).num_values for group in groups)
            # Parquet counts one value of a list that is empty or null.
            lengths = pc.list_value_length(table[field.name]).fill_null(0)
            if (pc.sum(pc.max_element_wise(lengths, 1)).as_py() or 0) != written:
                raise BadTable(f"column {field.name} has fewer values than were written")
    return table


def find_wrong_type(schema: pa.Schema, declared: ColumnLookup) -> str | None:
    """Describe the first column whose type its declaration does not allow; None if there is none."""
    if twice := [name for name in schema.names if schema.names.count(name) > 1]:
        return f"it has column {twice[0]!r:.40} twice"
    for field in schema:
        expected, fits = _describe_expected(declared(field.name))
        if not fits(field.type):
            return f"column {field.name!r:.40} has values of type {field.type!s:.40}, not {expected}"
    return None


def find_wrong_value(table: pa.Table, declared: ColumnLookup) -> str | None:
    """Describe the first column with a value that its declaration does not allow; None if there is none."""
    for name, values in zip(table.column_names, table.columns, strict=True):
        column = declared(name)
        if column.required and values.null_count:
            return f"column {name!r} lacks values"
        # Text and lists have no range.
        if is_number(values.type) and (wrong := _find_outside(column, values)) is not None:
            return f"column {name!r:.40} has the value {wrong}"
    return None


def is_number(kind: pa.DataType) -> bool:
    """Check whether a type holds numbers; true and false count as 1 and 0."""
    return _is_integer(kind) or bool(pa.types.is_floating(kind))


def _find_outside(column: "RecordColumn", values: pa.ChunkedArray) -> str | None:
    """Find a value outside a column's range, as text; None if there is none."""
    if pa.types.is_boolean(values.type):
        return None
    # Not by NumPy: with pandas installed Arrow imports that first, which takes a third of a second.
    low = column.least
    high = column.greatest
    if _is_integer(values.type):
        low = max(low, -LARGEST_EXACT)
        high = min(high, LARGEST_EXACT)
    else:
        values = values.cast(pa.float64())
        if not column.infinite and len(bad := values.filter(pc.is_inf(values))):
            return str(bad[0])
        # NaN and infinities have been judged; only numbers have a range.
        values = values.filter(pc.is_finite(values))
    for end in pc.min_max(values).as_py().values():
        if end is not None and not low - ROUNDING <= end <= high + ROUNDING:
            return str(end)
    return None


def _describe_expected(column: "RecordColumn") -> tuple[str, Callable[[pa.DataType], bool]]:
    """Describe the type that a column must have, with a function that checks a type."""
    if pa.types.is_string(column.type):
        return "text", pa.types.is_string
    if pa.types.is_list(column.type):
        return "lists of numbers", lambda kind: pa.types.is_list(kind) and is_number(kind.value_type)
    if column.required and _is_integer(column.type):
        return "whole numbers", _is_integer
    return "numbers", is_number


def _is_integer(kind: pa.DataType) -> bool:
    """Check whether a type holds whole numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))
