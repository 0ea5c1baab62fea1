"""Reads Parquet files that may come from somebody else: a small one may unpack to more than the memory.

A page may hold one value a billion times in a few bytes, or gigabytes of zeros, compressed. What Arrow
allocates follows from the header of each page. The end of the file states sizes, too, but Arrow does not hold
the pages to it. So the headers (`parquet_pages`) are read before the pages.
"""

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedgrid.parquet_pages import BadPages, Chunk, layout, pages_of
from fedgrid.regular_files import LARGEST_TABLE, check_regular

SHARE = 4
"""To read a table takes three times its size."""
CONTAINER = Path("/sys/fs/cgroup/memory.max")
"""In a container: the bytes that it may use, or `max`."""
VALUE, ENTRY = 8, 16
"""Bytes of a value, and of an entry of a dictionary beside its text."""


class TooLarge(OSError):
    """A table would take more memory than this machine can spare."""


def read_parquet(path: Path, choose: Callable[[pa.Schema], Sequence[str]]) -> pa.Table:
    """Return those columns of a file that `choose` returns, given its schema, which has one level.

    Raises:
        FileNotFoundError: there is no such file.
        TooLarge: these columns would take more than a quarter of the memory.
        OSError, pa.ArrowException, UnicodeDecodeError, BadPages: it is no regular file, or not as written.
    """
    check_regular(path, LARGEST_TABLE)
    # Not `pq.read_table`, which takes twice as long for the short tables of most runs.
    with path.open("rb") as data, pq.ParquetFile(path, page_checksum_verification=True) as file:
        schema = file.schema_arrow
        names = choose(schema)
        rows, groups = layout(data)
        if any(len(group) != len(schema) for group in groups):
            raise BadPages("it has other columns than were written")
        chunks = [
            (name, chunk)
            for group in groups
            for name, chunk in zip(schema.names, group, strict=True)
            if name in names
        ]
        size, copies = _sizes(data, chunks, [name for name in names if _is_text(schema.field(name).type)])
        check_fits(size)
        if size + copies.total() <= memory() // SHARE:
            found = file.read(names, use_threads=False)
        else:
            found = _with_equal_texts(path, list(copies), names, size)
    _check_whole(found, rows, chunks)
    return found


def check_fits(size: int) -> None:
    """Check that a table of this many bytes can be read.

    Raises:
        TooLarge: it cannot.
    """
    if size > memory() // SHARE:
        raise TooLarge(
            f"it would take {size / 1e9:,.1f} GB of memory, more than a quarter of {memory() / 1e9:,.1f} GB"
        )


def memory() -> int:
    """Return the bytes of memory of this machine, or those that its container may use."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):
        found = min(found, int(CONTAINER.read_text()))
    return found


def _sizes(
    data: BinaryIO, chunks: Sequence[tuple[str, Chunk]], texts: Collection[str]
) -> tuple[int, Counter[str]]:
    """Return the bytes that chunks take; and, by column of texts, what copies of equal ones may add."""
    size, copies = 0, Counter[str]()
    for name, chunk in chunks:
        longest = 0
        for page in pages_of(data, chunk):
            size += max(page.unpacked, page.values * (ENTRY if page.is_dictionary else VALUE))
            if page.is_dictionary:
                longest = page.unpacked
            elif page.refers and name in texts:
                copies[name] += page.values * longest
    return size, copies


def _with_equal_texts(path: Path, texts: list[str], names: Sequence[str], size: int) -> pa.Table:
    """Return the columns of a file, of which equal texts are read once first: that tells how long all are."""
    with pq.ParquetFile(path, read_dictionary=texts, page_checksum_verification=True) as file:
        found = file.read(names, use_threads=False)
    check_fits(size + sum(_length(chunk) for name in texts for chunk in found[name].chunks))
    for name in texts:
        place, kind = found.column_names.index(name), found.schema.field(name).type.value_type
        found = found.set_column(place, pa.field(name, kind), found[name].cast(kind))
    return found


def _length(texts: pa.DictionaryArray) -> int:
    lengths = pc.binary_length(texts.dictionary).cast(pa.int64()).take(texts.indices)
    return int(pc.sum(lengths).as_py() or 0)


def _check_whole(found: pa.Table, rows: int, chunks: Iterable[tuple[str, Chunk]]) -> None:
    """Check that a table has as many rows, and values in its lists, as the end of the file says."""
    if len(found) != rows:
        raise BadPages("it has fewer values than were written")
    written = Counter[str]()
    for name, chunk in chunks:
        written[name] += chunk.values
    for field in found.schema:
        if pa.types.is_list(field.type) and _places(found[field.name]) != written[field.name]:
            raise BadPages(f"column {field.name} has fewer values than were written")


def _places(lists: pa.ChunkedArray) -> int:
    """Return the number of values that Parquet counts: one of a list that is empty or null."""
    lengths = pc.list_value_length(lists).fill_null(0)
    return int(pc.sum(pc.max_element_wise(lengths, 1)).as_py() or 0)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))
