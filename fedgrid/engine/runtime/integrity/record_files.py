"""The files of a run's records: one a table while it is short, then segments, which the last round joins.

`rounds.parquet`, `clients.parquet` and `timings.parquet` are rewritten in every round until `clients` has
`SEGMENT_ROWS` rows. Later rounds go to segments of about as many rows: `clients-000069.parquet` starts with
round 69. So the cost of saving a round does not grow with the rounds before it. After the last round each
table is written into its one file, the same bytes as if that had been rewritten in every round, and the
segments are deleted.

A reader takes the files in the order of their rounds, and ignores rows of rounds that an earlier file has: a
crash between joining and deleting leaves them. It opens the file without a number last: when a segment is
deleted, that one is whole.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.integrity import mark
from fedgrid.engine.runtime.integrity.files import read_table, stamped
from fedgrid.engine.runtime.storage.atomic import flush, replacing
from fedgrid.engine.runtime.storage.format import DamagedFile
from fedgrid.parquet_files import run_id_of, wrong_value
from fedgrid.record_columns import DONE, declared

SEGMENT_ROWS = 2048
"""Rows of `clients` with which a file is complete: a later round starts the next one."""
GROUP_ROWS = 1 << 20
"""Rows of a Parquet row group, as `pyarrow.parquet.write_table` has them."""
LONGEST = "clients"
SEGMENT = re.compile(r"(rounds|clients|timings)-(\d{6,})\.parquet")

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
"""Table -> the rows of a round."""


class RecordFiles:
    """Reads and writes the records of one run; holds those of the newest file of each table in memory."""

    def __init__(self, folder: Path, schemas: Mapping[str, pa.Schema]) -> None:
        self._folder = folder
        self._run_id = run_id_of(folder)
        self._schemas = schemas
        self._starts: dict[str, list[int]] = {}
        self._has_later_rows = False
        self.begin(1)

    def begin(self, start: int) -> None:
        """Let round `start` begin a file of each table."""
        self._newest_start = dict.fromkeys(self._schemas, start)
        self._newest = {name: schema.empty_table() for name, schema in self._schemas.items()}

    def look(self, listed: mark.Listed) -> tuple[int, dict[str, str]]:
        """Look at what is on disk; files that `listed` has are compared with its checksums.

        Returns:
            The last round that all tables have, without a gap before it; and by the name of a damaged file
            what is wrong with it, in one line.

        Raises:
            UnreadableFile: a file cannot be read at present.
        """
        last: dict[str, int] = {}
        damaged: dict[str, str] = {}
        for table, schema in self._schemas.items():
            last[table], self._starts[table] = 0, []
            for start in _starts(self._folder, table):
                path = self._folder / name_of(table, start)
                try:
                    mark.check(path, listed)
                    rows = _rows_after(_read(path, schema), last[table])
                except (FileNotFoundError, DamagedFile) as error:
                    if isinstance(error, DamagedFile):
                        damaged[path.name] = str(error)
                    break
                if start > last[table] + 1:
                    break
                if len(rows):
                    last[table] = _last_round(rows)
                    self._starts[table].append(start)
        return min(last.values()), damaged

    def go_on_after(self, number: int) -> list[str]:
        """Load the newest files up to a round that `look` has found.

        Returns the segments that have none of these rounds, or none that an earlier file lacks.
        """
        for table, schema in self._schemas.items():
            start = max(start for start in self._starts[table] if start <= number)
            rows = _read(self._folder / name_of(table, start), schema)
            self._newest_start[table] = start
            self._newest[table] = rows.filter(pc.field("round") <= number).combine_chunks()
            # Its file must not end with rows of rounds that are run again, perhaps by other code.
            self._has_later_rows |= len(self._newest[table]) < len(rows)
        needed = {
            name_of(table, start)
            for table, starts in self._starts.items()
            for start in starts
            if start <= number
        }
        return [name for name in segments(self._folder) if name not in needed]

    @property
    def is_full(self) -> bool:
        """Whether the newest files are complete, so that the next round starts others."""
        return len(self._newest[LONGEST]) >= SEGMENT_ROWS

    def add(self, number: int, rows: Rows) -> None:
        """Add the rows of a round, unless they are here."""
        if _last_round(self._newest[LONGEST]) >= number:
            return
        if self.is_full and not self._has_later_rows:
            self.begin(number)
        self._has_later_rows = False
        for table, schema in self._schemas.items():
            new = pa.Table.from_pylist(list(rows[table]), schema=schema)
            self._newest[table] = pa.concat_tables([self._newest[table], new]).combine_chunks()

    def newest(self) -> dict[str, pa.Table]:
        """Return file name -> content of the files with the last round."""
        return {name_of(table, self._newest_start[table]): rows for table, rows in self._newest.items()}

    def join(self, rounds: int) -> tuple[list[str], list[str]]:
        """Write every table of a run with this many rounds into its one file.

        Returns the names of these files, and of the segments, which can be deleted then; without segments
        nothing is written.

        Raises:
            RunError: a round is missing.
        """
        if not (gone := segments(self._folder)):
            return [], []
        names = [name_of(table) for table in self._schemas]
        with replacing(*(self._folder / name for name in names)) as paths:
            for (table, schema), path in zip(self._schemas.items(), paths, strict=True):
                _write(path, _tables(self._folder, table, schema), schema, rounds, self._run_id)
        flush(self._folder)
        return names, gone


def name_of(table: str, start: int = 1) -> str:
    """Return the name of the file of a table that starts with a round."""
    return f"{table}.parquet" if start == 1 else f"{table}-{start:06d}.parquet"


def segments(folder: Path) -> list[str]:
    """Return the names of all segments in a run's folder, the latest rounds first."""
    matches = (match for path in folder.glob("*-*.parquet") if (match := SEGMENT.fullmatch(path.name)))
    return [match[0] for match in sorted(matches, key=lambda match: (-int(match[2]), match[1]))]


def read_records(folder: Path, table: str, schema: pa.Schema) -> pa.Table:
    """Return the records of a run, running or not, with the columns of `schema`.

    Raises:
        FileNotFoundError: it has none.
        NewerFormat, DamagedFile: they cannot be used.
    """
    later = {}
    for start in _starts(folder, table)[1:]:
        with suppress(FileNotFoundError):  # It has been joined.
            later[start] = _read(folder / name_of(table, start), schema)
    tables = [_read(folder / name_of(table), schema)]
    for start, rows in later.items():
        if start <= (last := _last_round(tables[-1])) + 1 and len(new := _rows_after(rows, last)):
            tables.append(new)
    return pa.concat_tables(tables)


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    """Return the rows of one file, as `read_table`; a value that a column cannot have is damage too."""
    rows = read_table(path, schema, run_id_of(path.parent))
    if (why := wrong_value(rows, declared)) is not None:
        raise DamagedFile(path, why)
    return rows


def write_joined(folder: Path, target: Path, schemas: Mapping[str, pa.Schema]) -> list[Path]:
    """Write each table of a run that has segments into one file in another folder; return these files.

    Raises:
        NewerFormat, DamagedFile: a file cannot be used.
    """
    if not segments(folder):
        return []
    paths = [target / name_of(table) for table in schemas]
    for path, (table, schema) in zip(paths, schemas.items(), strict=True):
        rows = stamped(read_records(folder, table, schema), run_id_of(folder))
        pq.write_table(rows, path, write_page_checksum=True)
    return paths


def _starts(folder: Path, table: str) -> list[int]:
    """Return the first rounds of a table's files, ascending, whether or not there is one of round 1.

    Those of a finished run are joined: whatever else lies there is not read.
    """
    if (folder / DONE).exists():
        return [1]
    matches = (SEGMENT.fullmatch(path.name) for path in folder.glob(f"{table}-*.parquet"))
    return [1, *sorted(int(match[2]) for match in matches if match)]


def _tables(folder: Path, table: str, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the records by file: all of a run with thousands of clients would take gigabytes."""
    last = 0
    for start in _starts(folder, table):
        rows = _rows_after(_read(folder / name_of(table, start), schema), last)
        if len(rows):
            last = _last_round(rows)
            yield rows


def _write(path: Path, tables: Iterable[pa.Table], schema: pa.Schema, rounds: int, run_id: str) -> None:
    about = stamped(schema.empty_table(), run_id).schema
    last = 0
    with pq.ParquetWriter(path, about, write_page_checksum=True) as writer:
        for group in _row_groups(tables):
            last = _last_round(group)
            writer.write_table(stamped(group, run_id), row_group_size=GROUP_ROWS)
    if last != rounds:
        raise RunError(
            f"{path.parent}: its records end with round {last} of {rounds}; run the same command again"
        )


def _row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    for table in tables:
        missing = GROUP_ROWS - sum(map(len, waiting))
        while len(table) >= missing:
            waiting.append(table.slice(0, missing))
            yield _join(waiting)
            table, missing = table.slice(missing), GROUP_ROWS
        waiting.append(table)
    if sum(map(len, waiting)):
        yield _join(waiting)


def _join(tables: list[pa.Table]) -> pa.Table:
    """Return the rows of all tables, and empty the list; column by column: memory has no column twice."""
    parts = pa.concat_tables(tables)
    schema = parts.schema
    tables.clear()
    columns = []
    while parts.num_columns:
        columns.append(parts.column(0).combine_chunks())
        parts = parts.remove_column(0)
    return pa.table(columns, schema=schema)


def _rows_after(table: pa.Table, number: int) -> pa.Table:
    return table.filter(pc.field("round") > number) if number else table


def _last_round(table: pa.Table) -> int:
    return pc.max(table["round"]).as_py() or 0
