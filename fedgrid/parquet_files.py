"""Reads Parquet files, which may come from somebody else: what they declare must fit into the memory."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from errno import ENOMEM
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SHARE = 4
"""To read a table takes three times its size."""
CONTAINER = Path("/sys/fs/cgroup/memory.max")
"""In a container: the bytes that it may use, or `max`."""
VALUE = 8
"""Bytes of a value in memory; a page may hold one value a billion times in a few bytes."""


class BadTable(ValueError):
    """A file is no table as it was written."""


def read_parquet(data: BinaryIO, choose: Callable[[pa.Schema], Sequence[str]]) -> pa.Table:
    """Return those columns of an open file that `choose` returns, given its schema, which has one level.

    Raises:
        OSError: it cannot be read, or declares more than a quarter of the memory.
        BadTable: it is not as written.
    """
    try:
        return _read(data, choose)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise BadTable(str(error).splitlines()[0]) from error


def check_fits(file: pq.ParquetFile, num_columns: int) -> None:
    """Check that so many columns of a table fit into a quarter of the memory, by the sizes that it declares.

    Raises:
        OSError: they do not.
    """
    groups = [file.metadata.row_group(index) for index in range(file.num_row_groups)]
    size = sum(max(group.total_byte_size, VALUE * group.num_rows * num_columns) for group in groups)
    if size > memory() // SHARE:
        raise OSError(
            ENOMEM,
            f"it would take {size / 1e9:,.1f} GB of memory, more than a quarter of {memory() / 1e9:,.1f} GB",
        )


def memory() -> int:
    """Return the bytes of memory of this machine, or those that its container may use."""
    size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):
        size = min(size, int(CONTAINER.read_text()))
    return size


def _read(data: BinaryIO, choose: Callable[[pa.Schema], Sequence[str]]) -> pa.Table:
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
            if _list_values(table[field.name]) != written:
                raise BadTable(f"column {field.name} has fewer values than were written")
    return table


def _list_values(lists: pa.ChunkedArray) -> int:
    """Return the number of values that Parquet counts: one of a list that is empty or null."""
    lengths = pc.list_value_length(lists).fill_null(0)
    return int(pc.sum(pc.max_element_wise(lengths, 1)).as_py() or 0)
