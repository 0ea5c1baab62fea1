"""Tables in Parquet: whether their columns are those of this code, and tables that stand alone.

A run's tables are listed in its manifest with their checksums. A table that nothing lists, such as that of an
imported grid, carries its own: of its pages, by Parquet, and of its columns' names.
"""

from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.runtime.storage.format import (
    METADATA,
    DamagedFile,
    OtherVersion,
    check_format,
    read_errors,
)
from fedgrid.parquet_files import read_parquet

COLUMNS = "fedgrid_columns"
"""Key of the checksum of the columns' names: Parquet's own checksums do not cover them."""


def encode_parquet(table: pa.Table) -> bytes:
    """Encode a table, `stamp_table`, as a file with checksums."""
    data = BytesIO()
    pq.write_table(stamp_table(table), data, write_page_checksum=True)
    return data.getvalue()


def stamp_table(table: pa.Table) -> pa.Table:
    """Add the metadata that the file of a table is to have."""
    return table.replace_schema_metadata({METADATA: str(FORMAT), COLUMNS: _digest_names(table.column_names)})


def read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """Read the rows of a file that stands alone, with the columns of `schema`; see `fit_columns`.

    Raises:
        FileNotFoundError: there is no such file.
        OtherVersion: another fedgrid wrote it, by its format or by a column that `schema` lacks.
        UnreadableFile: the disk does not give it, or it would take too much memory.
        DamagedFile: it is not what was written.
    """

    def check_columns(stored: pa.Schema) -> list[str]:
        """Check the file's metadata, and choose all of its columns."""
        about = stored.metadata or {}
        version = about.get(METADATA.encode())
        check_format(None if version is None else version.decode("ascii", "replace"), path)
        if about.get(COLUMNS.encode()) != _digest_names(stored.names).encode():
            raise DamagedFile(path, "its columns differ from those written")
        return list(stored.names)

    with read_errors(path), path.open("rb") as data:
        table = read_parquet(data, check_columns)
    return fit_columns(path, table, schema)


def fit_columns(path: Path, table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Fit the rows of a file to the columns of `schema`; one that the file lacks is null.

    Raises:
        OtherVersion: it has a column that `schema` lacks.
        DamagedFile: its columns have other types.
    """
    unknown = [name for name in table.column_names if name not in schema.names]
    if unknown:
        raise OtherVersion(path, f"column {unknown[0]}")
    if len(set(table.column_names)) < table.num_columns or any(
        schema.field(column.name).type != column.type for column in table.schema
    ):
        raise DamagedFile(path, "its columns have other types than those written")
    for column in schema.names:
        if column not in table.column_names:
            table = table.append_column(column, pa.nulls(len(table), schema.field(column).type))
    # The cast drops what Parquet adds to the columns' metadata: written again, they are the same bytes.
    return table.select(schema.names).cast(schema)


def _digest_names(names: list[str]) -> str:
    """Compute the checksum of columns' names."""
    return sha256("\n".join(names).encode()).hexdigest()
