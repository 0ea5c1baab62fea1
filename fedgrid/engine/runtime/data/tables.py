"""Tables that a user gives as csv or Parquet; what is wrong with a file is said in one line."""

import csv
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrid.engine.federation.data.files import check_is_file
from fedgrid.engine.federation.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET = ".parquet"
"""The suffix of a Parquet file; any other is read as csv."""
WHOLE = re.compile(r"(\d+)\.0*")
"""A whole number as pandas writes it if the column has missing values too."""


def read_table(path: Path) -> "pa.Table":
    """Return a table: of csv, which has commas and is UTF-8, with a byte-order mark or without, all texts.

    Raises:
        DataError: the file cannot be read as such, or has two columns of a name.
    """
    import pyarrow as pa  # Imported here because most runs read no table.

    check_is_file(path, "a csv or Parquet file")
    kind = "Parquet" if path.suffix == PARQUET else "csv"
    try:
        table = _read_parquet(path) if kind == "Parquet" else _read_csv(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    except (pa.ArrowException, UnicodeDecodeError, csv.Error) as error:
        cause = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error).splitlines()[0]
        raise DataError(f"{path} is not a {kind} file: {cause}; save it again") from error
    names = table.column_names
    if twice := [name for name in names if names.count(name) > 1]:
        raise DataError(f"{path} has the column {twice[0]} twice; remove one")
    return table


def texts(column: "pa.ChunkedArray") -> list[str]:
    """Return the values of a column as texts, empty where one is missing; whole numbers have no point."""
    encoded = column.combine_chunks().dictionary_encode()
    names = [_text(value) for value in encoded.dictionary.to_pylist()]
    return ["" if index is None else names[index] for index in encoded.indices.to_pylist()]


def _read_parquet(path: Path) -> "pa.Table":
    import pyarrow.parquet as pq

    from fedgrid.parquet_files import check_fits

    with pq.ParquetFile(path) as file:
        check_fits(file, len(file.schema_arrow))
        return file.read(use_threads=False)


def _read_csv(path: Path) -> "pa.Table":
    import pyarrow as pa
    from pyarrow import csv as arrow

    with path.open(encoding="utf-8-sig", newline="") as file:
        header = next(csv.reader(file), [])
    if len(header) == 1 and (other := re.search("[;\t]", header[0])):
        name = {";": "semicolons", "\t": "tabs"}[other[0]]
        raise DataError(f"{path}: its columns are parted by {name}; save it with commas")
    return arrow.read_csv(
        path,
        arrow.ReadOptions(use_threads=False),
        # An empty line of a file with one column is a missing value.
        arrow.ParseOptions(ignore_empty_lines=len(header) > 1),
        arrow.ConvertOptions(column_types=dict.fromkeys(header, pa.string())),
    )


def _text(value: Any) -> str:
    text = "" if value is None or value != value else str(value).strip()
    whole = WHOLE.fullmatch(text)
    return whole[1] if whole else text
