"""Tables that a user gives as csv or Parquet; what is wrong with a file is said in one line."""

import csv
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.files import check_format, check_is_file, check_memory
from fedgrid.engine.federation.data.names import compose_accents
from fedgrid.engine.federation.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET = ".parquet"
"""Suffix of a Parquet file."""
DELIMITERS = (",", ";", "\t", "|")
"""Characters that may stand between columns."""
SEPARATOR = re.compile(r"sep=([,;\t])[\r\n]*")
"""The line in which Excel names the character between columns."""
ROWS = 20
"""Lines of a csv file that decide on its delimiter."""
BLOCK = 1 << 26
"""Bytes of a csv file that are read at a time."""
AS_UTF8 = "save it as UTF-8 (in Excel: CSV UTF-8; in pandas: encoding='utf-8')"
TAIL_BYTES = 64
"""Bytes at the end of a csv file in which its last quote is searched."""
CSV_MEMORY_FACTOR = 4
"""Memory that reading a csv file takes, in multiples of its size."""
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "None", "null", "NULL")
"""Texts by which files write that there is no value."""
WHOLE_NUMBER = re.compile(r"(-?\d+)\.0*")
"""A whole number as pandas writes it if the column has missing values too."""


def read_table(path: Path, is_parquet: bool) -> "pa.Table":
    """Read a table: from csv, which is UTF-8, with a byte-order mark or without, all texts.

    Raises:
        DataError: the file cannot be read as such, or has two columns of a name.
    """
    import pyarrow as pa  # Imported here because most runs read no table.

    check_is_file(path, "a csv or Parquet file")
    kind = "Parquet" if is_parquet else "csv"
    check_format(path, kind)
    try:
        table = _read_parquet(path) if is_parquet else _read_csv(path)
        names = compose_accents(table.column_names)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8, {_describe_bytes(error)}; {AS_UTF8}") from error
    except (pa.ArrowException, csv.Error) as error:
        raise DataError(
            f"{path} is not a {kind} file: {str(error).splitlines()[0]}; save it again"
        ) from error
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        called = f"the column {twice[0]} twice" if twice[0] else "several columns without a name"
        raise DataError(f"{path} has {called}; remove one")
    columns = [
        check_texts(f"{path}", name, column) for name, column in zip(names, table.columns, strict=True)
    ]
    return pa.table(columns, names=names).replace_schema_metadata(table.schema.metadata)


def check_texts(source: str, name: str, column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Convert a column of a table to a type that can be computed with, and check that texts are UTF-8.

    Raises:
        DataError: a text is not UTF-8.
    """
    import pyarrow as pa

    if pa.types.is_float16(column.type):
        return column.cast(pa.float32())
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    stored = column.type
    if not is_text(stored.value_type if pa.types.is_dictionary(stored) else stored):
        return column
    try:
        for chunk in column.chunks:
            (chunk.dictionary if pa.types.is_dictionary(stored) else chunk).validate(full=True)
    except pa.ArrowInvalid as error:
        # Arrow does not say which row is wrong; only now is the slow search worth it.
        for row, value in enumerate(column):
            try:
                value.as_py()
            except UnicodeDecodeError as unreadable:
                raise DataError(
                    f"{source}: row {row + 1} is not UTF-8 in column {name}, {_describe_bytes(unreadable)}; "
                    f"{AS_UTF8}"
                ) from error
        raise DataError(f"{source}: column {name} is damaged: {error}; save it again") from error
    return column


def is_text(kind: "pa.DataType") -> bool:
    """Check whether values of a type are texts."""
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def find_other_kinds(columns: "Mapping[str, pa.ChunkedArray]") -> dict[str, str]:
    """Find the types of columns that are neither numbers nor texts; dates count as texts."""
    from pyarrow import types

    kinds = {
        name: column.type.value_type if types.is_dictionary(column.type) else column.type
        for name, column in columns.items()
    }
    return {
        name: f"{kind}"
        for name, kind in kinds.items()
        if not (is_text(kind) or types.is_null(kind) or (types.is_primitive(kind) or types.is_decimal(kind)))
    }


def find_index_columns(table: "pa.Table") -> list[str]:
    """Find the columns that pandas has written as the index of the rows."""
    about = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))
    return [name for name in about.get("index_columns", ()) if isinstance(name, str)]


def parse_numbers(column: "pa.ChunkedArray") -> NDArray[np.float64] | None:
    """Parse the values of a column as numbers, NaN where one is missing; None if it has others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_boolean(column.type):
        return None
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        # Unsafe: integers above 2^53 are rounded, where a safe cast would refuse the column.
        cast = column.cast(pa.float64(), safe=False)
    else:
        written = column if is_text(column.type) else column.cast(pa.string())
        try:
            cast = written.cast(pa.float64())
        except pa.ArrowInvalid:
            # Some may stand for no value, or have spaces around them.
            trimmed = pc.utf8_trim_whitespace(written)
            is_missing = pc.is_in(trimmed, pa.array(MISSING, trimmed.type))
            try:
                cast = pc.if_else(is_missing, pa.scalar(None, trimmed.type), trimmed).cast(pa.float64())
            except pa.ArrowInvalid:
                return None
    return np.array(cast.fill_null(float("nan")).to_numpy(), np.float64)


def format_texts(column: "pa.ChunkedArray") -> list[str]:
    """Format the values of a column as texts, empty where one is missing; whole numbers have no point."""
    # Each distinct value is formatted once: columns of a million rows mostly have few.
    encoded = column.combine_chunks().dictionary_encode()
    names = [_format_text(value) for value in encoded.dictionary.to_pylist()]
    return ["" if index is None else names[index] for index in encoded.indices.to_pylist()]


def _read_parquet(path: Path) -> "pa.Table":
    """Read a Parquet file, after a check that its table fits the memory."""
    import pyarrow.parquet as pq

    from fedgrid.parquet_files import check_fits

    with pq.ParquetFile(path) as file:
        check_fits(file, len(file.schema_arrow))
        return file.read(use_threads=False)


def _read_csv(path: Path) -> "pa.Table":
    """Read a csv file, all columns as texts."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    check_memory(path, CSV_MEMORY_FACTOR * (size := path.stat().st_size))
    delimiter, header, skipped = _find_header(path)
    table = arrow.read_csv(
        path,
        # A block has the cells of all columns: in small ones a table of many columns takes long.
        arrow.ReadOptions(use_threads=False, skip_rows=skipped, block_size=max(1, min(size, BLOCK))),
        # An empty line of a file with one column is a missing value.
        arrow.ParseOptions(delimiter=delimiter, ignore_empty_lines=len(header) > 1),
        # UTF-8 is checked by `check_texts`, which finds the row.
        arrow.ConvertOptions(column_types=dict.fromkeys(header, pa.string()), check_utf8=False),
    )
    _check_last_quote(path, table)
    return table


def _check_last_quote(path: Path, table: "pa.Table") -> None:
    """Check that no quote is open at the end of a csv file, where all lines behind it are one text.

    Raises:
        DataError: one is.
    """
    import pyarrow as pa

    if not table.num_rows or not pa.types.is_string(table.columns[-1].type):
        return
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        is_closed = file.read().rstrip().endswith(b'"')
    if b"\n" in bytes(table.columns[-1][-1].as_buffer()) and not is_closed:
        raise DataError(
            f"{path}: row {table.num_rows} has a quote in column {table.column_names[-1]} that nothing "
            'closes before the end of the file; close it; within a text write it twice: "5"" pipe"'
        )


def _find_header(path: Path) -> tuple[str, list[str], int]:
    """Find the delimiter of a csv file, the names of its columns, and the number of lines above these.

    It is what cuts the first rows into as many cells as the header, and into most; Excel writes it in a line
    of its own, `sep=;`.
    """
    # A byte-order mark is skipped. Bytes that are not UTF-8 are refused later, with their row.
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        first = file.readline()
        declared = SEPARATOR.fullmatch(first)
        if not declared:
            file.seek(0)
        lines = list(islice(file, ROWS))
    if declared:
        return declared[1], next(csv.reader(lines, delimiter=declared[1]), []), 1
    used = [mark for mark in DELIMITERS if mark in first] or [DELIMITERS[0]]
    # Of equal ones the first is taken.
    delimiter = max(used, key=lambda mark: _count_columns(lines, mark)) if len(used) > 1 else used[0]
    return delimiter, next(csv.reader(lines, delimiter=delimiter), []), 0


def _count_columns(lines: Sequence[str], delimiter: str) -> int:
    """Count the cells of each line, 0 if not all have as many.

    The last line does not count, which may be cut within quotes.
    """
    try:
        rows = list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        # What stands between its marks is too long for a cell.
        return 0
    numbers = {len(row) for row in rows[:-1] or rows if row}
    return max(numbers) if len(numbers) == 1 else 0


def _format_text(value: Any) -> str:
    """Format a value as text, without spaces around it."""
    text = str(value).strip()
    if text in MISSING:
        return ""
    whole_number = WHOLE_NUMBER.fullmatch(text)
    return (whole_number[1] if int(whole_number[1]) else "0") if whole_number else text


def _describe_bytes(error: UnicodeDecodeError) -> str:
    """Describe the bytes that cannot be read, and what they are in cp1252, as Windows writes."""
    excerpt = bytes(error.object[max(0, error.start - 10) : error.end + 10])
    return f"but has {excerpt!r}, in cp1252 {excerpt.decode('cp1252', 'replace')!r}"
