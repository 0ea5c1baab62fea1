"""The records of a run: one table while they are short, then segments, which the last round joins.

A write of rounds leaves each table in a new file, `clients-000001-000007-1a2b3c4d.parquet` with rounds 1 to 7
and part of its checksum, in place of the file that ended with the round before. Once `clients` has
`SEGMENT_ROWS` rows, its file is complete, and later rounds begin another one. So the cost of saving a round
does not grow with the rounds before it. With the last round each table is written into one file,
`clients.parquet`, the same bytes whatever the files before were.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.integrity.tables import fit_columns
from fedgrid.engine.runtime.storage.format import DamagedFile, read_errors
from fedgrid.engine.runtime.storage.storage import Content
from fedgrid.manifest import (
    SEGMENT,
    Manifest,
    read_segment,
    read_segments,
)
from fedgrid.parquet_files import find_wrong_value
from fedgrid.record_columns import find_column

SEGMENT_ROWS = 2048
"""Rows of `clients` with which a file is complete: a later round starts the next one."""
GROUP_ROWS = 1 << 20
"""Rows of a Parquet row group, as `pyarrow.parquet.write_table` has them."""
LONGEST_TABLE = "clients"
"""The table with most rows, which decides when the files of all tables are complete."""

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
"""The rows of a round by table."""


class Records:
    """The records of a run that goes on; holds those of the newest file of each table in memory."""

    def __init__(self, folder: Path, schemas: Mapping[str, pa.Schema]) -> None:
        self._folder = folder
        self._schemas = schemas
        self.begin_files(1)

    def begin_files(self, start: int) -> None:
        """Begin a file of each table with round `start`."""
        self._start = start
        self._newest = {name: schema.empty_table() for name, schema in self._schemas.items()}

    def hold_tables(self, tables: Mapping[str, pa.Table]) -> None:
        """Take rows, from round 1 on, as those of the newest files."""
        self.begin_files(1)
        self._newest = {name: tables[name].combine_chunks() for name in self._schemas}

    def resume_after(self, manifest: Manifest, number: int) -> None:
        """Load the newest files that a manifest lists, up to a round."""
        starts = [
            start for start in map(parse_start, manifest.list_segments(LONGEST_TABLE)) if start <= number
        ]
        self.begin_files(starts[-1])
        for table, schema in self._schemas.items():
            [name] = [each for each in manifest.list_segments(table) if parse_start(each) == self._start]
            rows = _read_file(self._folder, manifest, name, schema)
            self._newest[table] = rows.filter(pc.field("round") <= number).combine_chunks()

    @property
    def is_full(self) -> bool:
        """Whether the newest files are complete, so that the next round starts others."""
        return len(self._newest[LONGEST_TABLE]) >= SEGMENT_ROWS

    def add_round(self, number: int, rows: Rows) -> None:
        """Add the rows of a round, unless they are here."""
        if _find_last_round(self._newest[LONGEST_TABLE]) >= number:
            return
        if self.is_full:
            self.begin_files(number)
        for table, schema in self._schemas.items():
            new = pa.Table.from_pylist(list(rows[table]), schema=schema)
            # One chunk: the bytes of a Parquet file depend on how its rows are chunked, and files of a
            # resumed run must be those of an uninterrupted one.
            self._newest[table] = pa.concat_tables([self._newest[table], new]).combine_chunks()

    def list_earlier_files(self, manifest: Manifest) -> list[str]:
        """List the files of a manifest with earlier rounds than the newest file."""
        return [name for table in self._schemas for name in self._list_earlier(manifest, table)]

    def build_newest_files(self) -> dict[str, bytes]:
        """Build the files with the last round, by name."""
        files = {}
        for table, rows in self._newest.items():
            content = encode_table(rows)
            rounds = f"{self._start:06d}-{_find_last_round(rows):06d}"
            files[f"{table}-{rounds}-{sha256(content).hexdigest()[:8]}.parquet"] = content
        return files

    def build_joined_files(self, manifest: Manifest, rounds: int) -> dict[str, Content]:
        """Build a file of each table with all records of a run with this many rounds, by name.

        `manifest` is of before the newest file. To write a file raises RunError if a round is missing.
        """
        return {
            f"{table}.parquet": partial(self._write_joined, table, manifest, rounds)
            for table in self._schemas
        }

    def _write_joined(self, table: str, manifest: Manifest, rounds: int, path: Path) -> None:
        """Write all records of a table into one file.

        Raises:
            RunError: a round is missing.
        """
        last = 0
        with pq.ParquetWriter(path, self._schemas[table]) as writer:
            for group in _iterate_row_groups(self._read_tables(table, manifest)):
                last = _find_last_round(group)
                writer.write_table(group, row_group_size=GROUP_ROWS)
        if last != rounds:
            raise RunError(
                f"{path.parent}: its records end with round {last} of {rounds}; run the same command again"
            )

    def _read_tables(self, table: str, manifest: Manifest) -> Iterator[pa.Table]:
        """Yield the records by file: all of a run with thousands of clients would take gigabytes."""
        for name in self._list_earlier(manifest, table):
            yield _read_file(self._folder, manifest, name, self._schemas[table])
        yield self._newest[table]

    def _list_earlier(self, manifest: Manifest, table: str) -> list[str]:
        """List the files of one table with earlier rounds than the newest."""
        return [name for name in manifest.list_segments(table) if parse_start(name) < self._start]


def encode_table(table: pa.Table) -> bytes:
    """Encode a table as the bytes of a file."""
    data = BytesIO()
    pq.write_table(table, data)
    return data.getvalue()


def parse_start(name: str) -> int:
    """Parse the first round in a file of records from its name; 1 for a finished run's."""
    segment = SEGMENT.fullmatch(name)
    return int(segment[2]) if segment else 1


def read_records(folder: Path, table: str, schema: pa.Schema) -> pa.Table:
    """Read the records of a run, running or not, with the columns of `schema`.

    Raises:
        FileNotFoundError: it has none.
        OtherVersion, DamagedFile, UnreadableFile: they cannot be used.
    """
    with read_errors(folder):
        rows = read_segments(
            folder, table, lambda manifest, name: _read_fitted(folder, manifest, name, schema)
        )
        if rows is None:
            raise FileNotFoundError(folder / f"{table}.parquet")
        return rows


def write_joined_tables(folder: Path, target: Path, schemas: Mapping[str, pa.Schema]) -> list[Path]:
    """Write each table of a run that is not finished into one file in another folder; return these files.

    Raises:
        FileNotFoundError: it has no records.
        OtherVersion, DamagedFile, UnreadableFile: a file cannot be used.
    """
    paths = []
    for table, schema in schemas.items():
        rows = read_records(folder, table, schema)
        paths.append(target / f"{table}.parquet")
        pq.write_table(rows, paths[-1])
    return paths


def _read_file(folder: Path, manifest: Manifest, name: str, schema: pa.Schema) -> pa.Table:
    """Read the rows of one file with the columns of `schema`; raises as `read_records`."""
    with read_errors(folder / name):
        return _read_fitted(folder, manifest, name, schema)


def _read_fitted(folder: Path, manifest: Manifest, name: str, schema: pa.Schema) -> pa.Table:
    """Read the rows of one file, fit them to `schema`, and check that values are possible.

    Raises:
        DamagedFile: a value is not.
    """
    rows = fit_columns(
        folder / name, read_segment(folder, manifest, name, lambda stored: stored.names), schema
    )
    if (problem := find_wrong_value(rows, find_column)) is not None:
        raise DamagedFile(folder / name, problem)
    return rows


def _find_last_round(rows: pa.Table) -> int:
    """Find the number of the last round of a table, 0 if it is empty."""
    return pc.max(rows["round"]).as_py() or 0


def _iterate_row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield rows in groups of `GROUP_ROWS`, however they are split into tables."""
    waiting: list[pa.Table] = []
    for table in tables:
        missing = GROUP_ROWS - sum(map(len, waiting))
        # Groups of a fixed size make the joined file the same bytes, whatever the files before were.
        while len(table) >= missing:
            waiting.append(table.slice(0, missing))
            yield _concat_rows(waiting)
            table, missing = table.slice(missing), GROUP_ROWS
        waiting.append(table)
    if sum(map(len, waiting)):
        yield _concat_rows(waiting)


def _concat_rows(tables: list[pa.Table]) -> pa.Table:
    """Concatenate the rows of all tables, and empty the list.

    Column by column, so that no column is in memory twice.
    """
    parts = pa.concat_tables(tables)
    schema = parts.schema
    tables.clear()
    columns = []
    while parts.num_columns:
        columns.append(parts.column(0).combine_chunks())
        parts = parts.remove_column(0)
    return pa.table(columns, schema=schema)
