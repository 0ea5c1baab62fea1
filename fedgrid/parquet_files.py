"""Reads Parquet files that may come from somebody else: a small one may unpack to more than the memory.

A page may hold one value a billion times in a few bytes, or gigabytes of zeros, compressed. What Arrow
allocates follows from the header of each page. The end of the file states sizes, too, but Arrow does not hold
the pages to it. So the headers are read before the pages, here, as pyarrow does not show them, and ends the
process where it shows the end of some damaged files. Format: https://parquet.apache.org/docs/file-format/, in
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md.
"""

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SHARE = 4
"""To read a table takes three times its size."""
CONTAINER = Path("/sys/fs/cgroup/memory.max")
"""In a container: the bytes that it may use, or `max`."""
VALUE, ENTRY = 8, 16
"""Bytes of a value, and of an entry of a dictionary beside its text."""
END, HEADER = 1 << 22, 1 << 15
"""Bytes of the end of a file (8 KB for a million rows of a run's clients), and within which a header ends
(in ours the least and the greatest text have 4 KB each)."""
DEEPEST = 8
"""Structs and lists below one another."""
INT16, INT32, INT64, TEXT, LIST, STRUCT = 4, 5, 6, 8, 9, 12
"""Thrift's types."""
SIZES = {1: 0, 2: 0, 3: 1, 7: 8}
"""Those of which nothing is read (true, false, a byte, a double) -> their bytes behind the type."""
ROWS, GROUPS, CHUNKS, ABOUT = 3 << 4 | INT64, 4 << 4 | LIST, 1 << 4 | LIST, 3 << 4 | STRUCT
"""Keys of fields: number and type. Of the end of a file, of a row group, of a chunk."""
VALUES, PACKED, FIRST_PAGE, DICTIONARY_PAGE = (number << 4 | INT64 for number in (5, 7, 9, 11))
"""What a chunk is about."""
KIND, PAGE_UNPACKED, PAGE_PACKED = (number << 4 | INT32 for number in (1, 2, 3))
"""Of a page's header."""
DICTIONARY = 2
OWN = {0: 5 << 4 | STRUCT, DICTIONARY: 7 << 4 | STRUCT, 3: 8 << 4 | STRUCT}
"""Kind of a page -> what only such a page has: the number of its values, and their encoding."""
PAGE_VALUES, ENCODING = 1 << 4 | INT32, {0: 2 << 4 | INT32, DICTIONARY: 2 << 4 | INT32, 3: 4 << 4 | INT32}
PLAIN, REFERENCES = (0, 3), (2, 8)
"""Encodings that fedgrid writes: values, and numbers of entries of the dictionary. Others may unpack to any
size: of a text, for example, what differs from the one before."""

Fields = dict[int, Any]


class TooLarge(OSError):
    """A table would take more memory than this machine can spare."""


class BadPages(ValueError):
    """A file is not as fedgrid writes it."""


@dataclass(frozen=True)
class Chunk:
    """A column in a group of rows; `values` counts nulls and empty lists too."""

    place: int
    end: int
    values: int


@dataclass(frozen=True)
class Page:
    """A page, as its header says; `unpacked` are its bytes when it is not compressed."""

    is_dictionary: bool
    refers: bool  # Its values are numbers of entries of the dictionary.
    unpacked: int
    values: int


def read_parquet(path: Path, choose: Callable[[pa.Schema], Sequence[str]]) -> pa.Table:
    """Return those columns of a file that `choose` returns, given its schema, which has one level.

    Raises:
        FileNotFoundError: there is no such file.
        TooLarge: these columns would take more than a quarter of the memory.
        OSError, pa.ArrowException, UnicodeDecodeError, BadPages: it is no regular file, or not as written.
    """
    # Not `pq.read_table`, which takes twice as long for the short tables of most runs.
    with path.open("rb") as data, pq.ParquetFile(path, page_checksum_verification=True) as file:
        schema = file.schema_arrow
        names = choose(schema)
        rows, groups = layout(data)
        if any(len(group) != len(schema) for group in groups):
            raise BadPages("it has other columns than were written")
        columns = (zip(schema.names, group, strict=True) for group in groups)
        chunks = [(name, chunk) for group in columns for name, chunk in group if name in names]
        size, copies = _sizes(data, chunks, [name for name in names if _is_text(schema.field(name).type)])
        check_fits(size)
        if size + copies.total() <= memory() // SHARE:
            found = file.read(names, use_threads=False)
        else:
            found = _with_equal_texts(path, list(copies), names, size)
    _check_whole(found, rows, chunks)
    return found


def check_fits(size: int) -> None:
    """Check that a table of this many bytes can be read; a `TooLarge` says that it cannot."""
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


def layout(file: BinaryIO) -> tuple[int, list[list[Chunk]]]:
    """Return the number of rows, and by group of rows its chunks in the order of the columns.

    Raises:
        BadPages: the end of the file is not as it is written.
    """
    try:
        behind = file.seek(-8, os.SEEK_END)
        size = int.from_bytes(file.read(4), "little")
        if size > min(END, behind):
            raise ValueError
        file.seek(behind - size)
        end, _ = _struct(file.read(size), 0, DEEPEST)
        groups = [[_chunk(each[ABOUT]) for each in group[CHUNKS]] for group in end[GROUPS]]
        return end[ROWS], groups
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise BadPages("its end is not as it was written") from error


def pages_of(file: BinaryIO, chunk: Chunk) -> Iterator[Page]:
    """Yield those pages of a chunk that Arrow reads.

    Raises:
        BadPages: they are none that fedgrid writes, or have other numbers of values than the chunk.
    """
    place, values = chunk.place, 0
    while values < chunk.values:
        if not 0 <= place < chunk.end:
            raise BadPages("a page is not where its column is")
        file.seek(place)
        try:
            page, length = _page(file.read(min(HEADER, chunk.end - place)))
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise BadPages("a page has another header than was written") from error
        place += length
        values += 0 if page.is_dictionary else page.values
        yield page
    if values != chunk.values or place > chunk.end:
        raise BadPages("the pages of a column have other sizes than were written")


def _chunk(about: Fields) -> Chunk:
    """Return where the pages of a chunk are, as Arrow finds them."""
    place = about[FIRST_PAGE]
    if (dictionary := about.get(DICTIONARY_PAGE, 0)) > 0:
        place = min(place, dictionary)
    return Chunk(place, place + about[PACKED], about[VALUES])


def _page(data: bytes) -> tuple[Page, int]:
    """Return the page that begins with these bytes, and its length with its header."""
    header, length = _struct(data, 0, DEEPEST)
    kind, unpacked, packed = header[KIND], header[PAGE_UNPACKED], header[PAGE_PACKED]
    own = header[OWN[kind]]
    values, encoding = own[PAGE_VALUES], own[ENCODING[kind]]
    if encoding not in PLAIN + REFERENCES or min(unpacked, packed, values) < 0:
        raise ValueError
    return Page(kind == DICTIONARY, encoding in REFERENCES, unpacked, values), length + packed


def _struct(data: bytes, place: int, depth: int) -> tuple[Fields, int]:
    """Return the struct at a place, and the place behind it; its numbers must ascend, so none is there twice.

    Thousands of fields are read of each run: numbers and texts of less than 128 take no further call.
    """
    fields: Fields = {}
    number = 0
    while head := data[place]:
        place += 1
        before = number
        if head > 15:
            number += head >> 4
        else:
            number, place = _number(data, place, INT16)
        kind = head & 15
        if number <= before:
            raise ValueError
        if kind == TEXT and (size := data[place]) < 128:
            place += size + 1
        elif kind in (INT64, INT32) and (value := data[place]) < 128:
            fields[number << 4 | kind] = (value >> 1) ^ -(value & 1)
            place += 1
        else:
            fields[number << 4 | kind], place = _value(data, place, kind, depth - 1)
    return fields, place + 1


def _value(data: bytes, place: int, kind: int, depth: int) -> tuple[Any, int]:
    """Return a value of a type, None if it is not needed, and the place behind it."""
    if kind == STRUCT and depth:
        return _struct(data, place, depth)
    if kind in (INT16, INT32, INT64):
        return _number(data, place, kind)
    if kind == TEXT:
        size, place = _unsigned(data, place)
        return None, place + size
    if kind != LIST or not depth:
        return None, place + SIZES[kind]
    size, kind, place = data[place] >> 4, data[place] & 15, place + 1
    if size == 15:
        size, place = _unsigned(data, place)
    if size > len(data) or not SIZES.get(kind, 1):  # There are no lists of true and false in a file's end.
        raise ValueError
    found = []
    for _ in range(size):
        value, place = _value(data, place, kind, depth - 1)
        found.append(value)
    return found, place


def _number(data: bytes, place: int, kind: int) -> tuple[int, int]:
    value, place = _unsigned(data, place)
    if value >> (64 if kind == INT64 else 32):
        raise ValueError
    return (value >> 1) ^ -(value & 1), place


def _unsigned(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := data[place]) & 128:
        value |= (byte & 127) << shift
        shift, place = shift + 7, place + 1
    return value | byte << shift, place + 1
