"""Checksums of files, and Parquet files whose metadata say the format and which columns were written."""

from collections import Counter
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedgrid.engine.format import FORMAT, METADATA, DamagedFile, NewerFormat, check_format, of_read
from fedgrid.regular_files import LARGEST_TABLE, check_regular

COLUMNS = "fedgrid_columns"
"""Checksum of the columns' names: Parquet's own checksums do not cover them."""


def stamped(table: pa.Table) -> pa.Table:
    """Return a table with the metadata that its file is to have."""
    return table.replace_schema_metadata({METADATA: str(FORMAT), COLUMNS: _digest(table.column_names)})


def read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """Return the records in a file with the columns of `schema`; one that the file lacks is null.

    Raises:
        FileNotFoundError: there is no such file.
        NewerFormat: a newer fedgrid wrote it, by its format or by a column that `schema` lacks.
        DamagedFile: it is not what was written.
    """
    try:
        check_regular(path, LARGEST_TABLE)
        # Not `pq.read_table`, which takes twice as long for the short tables of most runs.
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read(use_threads=False)
            missing = _incomplete(table, file.metadata)
        names = table.column_names
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise of_read(path, error) from error
    about = table.schema.metadata or {}
    found = about.get(METADATA.encode())
    check_format(None if found is None else found.decode("ascii", "replace"), path)
    if about.get(COLUMNS.encode()) != _digest(names).encode():
        raise DamagedFile(path, "its columns differ from those written")
    if missing is not None:
        raise DamagedFile(path, f"{missing} fewer values than were written")
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise NewerFormat(path, f"column {unknown[0]}")
    for column in schema.names:
        if column not in names:
            table = table.append_column(column, pa.nulls(len(table), schema.field(column).type))
    table = table.select(schema.names)
    if not table.schema.equals(schema):
        raise DamagedFile(path, "its columns have other types than those written")
    # The cast drops what Parquet adds to the columns' metadata: written again, they are the same bytes.
    return table.cast(schema)


def _incomplete(table: pa.Table, about: pq.FileMetaData) -> str | None:
    """Return what does not have as many rows, or values in its lists, as the end of the file says.

    How many values a page has stands before the page, where Parquet's own checksums do not cover it.
    """
    if len(table) != about.num_rows:
        return "it has"
    written = Counter[str]()
    for group in map(about.row_group, range(about.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            written[column.path_in_schema.partition(".")[0]] += column.num_values
    lists = (field.name for field in table.schema if pa.types.is_list(field.type))
    return next((f"column {name} has" for name in lists if _places(table[name]) != written[name]), None)


def _places(lists: pa.ChunkedArray) -> int:
    """Return the number of values that Parquet counts: one of a list that is empty or null."""
    lengths = pc.list_value_length(lists).fill_null(0)
    return int(pc.sum(pc.max_element_wise(lengths, 1)).as_py() or 0)


def checksum(path: Path, largest: int = LARGEST_TABLE) -> str:
    """Return the SHA-256 sum of a file's bytes.

    Raises:
        OSError: it cannot be read, or has more than `largest` bytes.
    """
    check_regular(path, largest)
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _digest(names: list[str]) -> str:
    return sha256("\n".join(names).encode()).hexdigest()
