"""Checksums of files, and Parquet files whose metadata say the format and which columns were written."""

from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fedgrid.engine.format import FORMAT, METADATA, DamagedFile, NewerFormat, check_format

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
        # Not `pq.read_table`, which takes twice as long for the short tables of most runs.
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read(use_threads=False)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise DamagedFile(path, str(error).splitlines()[0]) from error
    about = table.schema.metadata or {}
    found = about.get(METADATA.encode())
    check_format(None if found is None else found.decode("ascii", "replace"), path)
    if about.get(COLUMNS.encode()) != _digest(table.column_names).encode():
        raise DamagedFile(path, "its columns are others than were written")
    unknown = [name for name in table.column_names if name not in schema.names]
    if unknown:
        raise NewerFormat(path, f"column {unknown[0]}")
    for column in schema.names:
        if column not in table.column_names:
            table = table.append_column(column, pa.nulls(len(table), schema.field(column).type))
    table = table.select(schema.names)
    if not table.schema.equals(schema):
        raise DamagedFile(path, "its columns have other types than were written")
    # The cast drops what Parquet adds to the columns' metadata: written again, they are the same bytes.
    return table.cast(schema)


def checksum(path: Path) -> str:
    """Return the SHA-256 sum of a file's bytes.

    Raises:
        OSError: it cannot be read.
    """
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _digest(names: list[str]) -> str:
    return sha256("\n".join(names).encode()).hexdigest()
