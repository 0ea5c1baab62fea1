"""What shows that files are as they were written: checksums, and the metadata of Parquet files.

The metadata of a Parquet file say its format, its run, and which columns were written.
"""

from __future__ import annotations

from hashlib import file_digest, sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.runtime.storage.format import (
    METADATA,
    DamagedFile,
    NewerFormat,
    check_format,
    check_run,
    read_errors,
)
from fedgrid.parquet_files import read_parquet
from fedgrid.record_columns import RUN

if TYPE_CHECKING:
    pass

COLUMNS = "fedgrid_columns"
"""Checksum of the columns' names: Parquet's own checksums do not cover them."""


def parquet_bytes(table: pa.Table, run_id: str = "") -> bytes:
    """Return a table, `stamped`, as a file with checksums."""
    data = BytesIO()
    pq.write_table(stamped(table, run_id), data, write_page_checksum=True)
    return data.getvalue()


def stamped(table: pa.Table, run_id: str = "") -> pa.Table:
    """Return a table with the metadata that its file is to have, those of its run too if it has one."""
    about = {METADATA: str(FORMAT), COLUMNS: _digest(table.column_names)}
    return table.replace_schema_metadata(about | ({RUN: run_id} if run_id else {}))


def read_table(path: Path, schema: pa.Schema, run_id: str = "") -> pa.Table:
    """Return the records in a file with the columns of `schema`; one that the file lacks is null.

    With `run_id`, a file of another run is damage.

    Raises:
        FileNotFoundError: there is no such file.
        NewerFormat: a newer fedgrid wrote it, by its format or by a column that `schema` lacks.
        UnreadableFile: the disk does not give it, or it would take too much memory.
        DamagedFile: it is not what was written.
    """

    def written(stored: pa.Schema) -> list[str]:
        _check_schema(path, stored, schema, run_id)
        return list(stored.names)

    with read_errors(path), path.open("rb") as data:
        table = read_parquet(data, written)
    for column in schema.names:
        if column not in table.column_names:
            table = table.append_column(column, pa.nulls(len(table), schema.field(column).type))
    # The cast drops what Parquet adds to the columns' metadata: written again, they are the same bytes.
    return table.select(schema.names).cast(schema)


def _check_schema(path: Path, stored: pa.Schema, schema: pa.Schema, run_id: str) -> None:
    about = stored.metadata or {}
    version = about.get(METADATA.encode())
    check_format(None if version is None else version.decode("ascii", "replace"), path)
    if run_id:
        check_run(path, about.get(RUN.encode(), b"").decode("ascii", "replace"), run_id)
    if about.get(COLUMNS.encode()) != _digest(stored.names).encode():
        raise DamagedFile(path, "its columns differ from those written")
    unknown = [name for name in stored.names if name not in schema.names]
    if unknown:
        raise NewerFormat(path, f"column {unknown[0]}")
    if len(set(stored.names)) < len(stored) or any(
        schema.field(column.name).type != column.type for column in stored
    ):
        raise DamagedFile(path, "its columns have other types than those written")


def checksum(path: Path) -> str:
    """Return the SHA-256 sum of the bytes of a file.

    Raises:
        FileNotFoundError: there is no such file.
        UnreadableFile: the disk does not give it.
    """
    with read_errors(path), path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def read_checksums(path: Path) -> dict[str, str]:
    """Return file -> checksum, as a file in the format of sha256sum lists them.

    Raises:
        FileNotFoundError, UnreadableFile, DamagedFile: as `checksum`, or it is not in that format.
    """
    with read_errors(path):
        lines = path.read_bytes().splitlines()
    try:
        return {name: digest for digest, name in (line.decode().split() for line in lines)}
    except ValueError as error:
        raise DamagedFile(path, "it is not in the format of sha256sum") from error


def _digest(names: list[str]) -> str:
    return sha256("\n".join(names).encode()).hexdigest()
