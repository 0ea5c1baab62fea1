"""What the pages of a Parquet file unpack to, without unpacking them: its end, and the headers of its pages.

Format: https://parquet.apache.org/docs/file-format/, in Thrift's compact protocol
(https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md). It is read here because
pyarrow does not show the headers, and ends the process where it shows the end of some damaged files.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

END = 1 << 22
"""Bytes of the end of a file: 8 KB for a million rows of a run's clients."""
HEADER = 1 << 15
"""Bytes within which a header ends: in ours the least and the greatest text have 4 KB each."""
DEEPEST = 8
"""Structs and lists below one another."""
INT16, INT32, INT64, TEXT, LIST, STRUCT = 4, 5, 6, 8, 9, 12
"""Thrift's types."""
SIZES = {1: 0, 2: 0, 3: 1, 7: 8}
"""Those of which nothing is read (true, false, a byte, a double) -> their bytes behind the type."""
ROWS, GROUPS = (3, INT64), (4, LIST)
"""Number and type of what the end of a file has."""
CHUNKS = (1, LIST)
"""Of a row group."""
ABOUT = (3, STRUCT)
"""Of a chunk: what follows."""
VALUES, PACKED, FIRST_PAGE, DICTIONARY_PAGE = (5, INT64), (7, INT64), (9, INT64), (11, INT64)
KIND, PAGE_UNPACKED, PAGE_PACKED = (1, INT32), (2, INT32), (3, INT32)
"""Of a page's header."""
DICTIONARY = 2
"""Kind of a page."""
OWN = {0: (5, STRUCT), DICTIONARY: (7, STRUCT), 3: (8, STRUCT)}
"""Kind -> what only such a page has."""
PAGE_VALUES = (1, INT32)
"""Of that."""
ENCODING = {0: (2, INT32), DICTIONARY: (2, INT32), 3: (4, INT32)}
"""Kind -> how its values are written, in that."""
PLAIN, REFERENCES = (0, 3), (2, 8)
"""Encodings that fedgrid writes: values, and numbers of entries of the dictionary. Others may unpack to any
size: of a text, for example, what differs from the one before."""

Fields = dict[tuple[int, int], Any]
"""Number and type -> value."""


class BadPages(ValueError):
    """A file is not as fedgrid writes it."""


@dataclass(frozen=True)
class Chunk:
    """A column in a group of rows."""

    place: int
    end: int
    """Behind its last page."""
    values: int
    """Nulls and empty lists too."""


@dataclass(frozen=True)
class Page:
    """A page, as its header says."""

    is_dictionary: bool
    refers: bool
    """Whether its values are numbers of entries of the dictionary."""
    unpacked: int
    """Bytes, not compressed."""
    values: int


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
    """Return the struct at a place, and the place behind it; a field that it has twice is an error."""
    fields: Fields = {}
    number, numbers = 0, set()
    while head := data[place]:
        place += 1
        if head > 15:
            number += head >> 4
        else:
            number, place = _number(data, place, INT16)
        if number in numbers:
            raise ValueError
        numbers.add(number)
        kind = head & 15
        fields[number, kind], place = _value(data, place, kind, depth - 1)
    return fields, place + 1


def _value(data: bytes, place: int, kind: int, depth: int) -> tuple[Any, int]:
    """Return a value of a type, None if it is not needed, and the place behind it."""
    if kind in (INT16, INT32, INT64):
        return _number(data, place, kind)
    if kind == TEXT:
        size, place = _unsigned(data, place)
        return None, place + size
    if kind == STRUCT and depth:
        return _struct(data, place, depth)
    if kind == LIST and depth:
        size, kind, place = data[place] >> 4, data[place] & 15, place + 1
        if size == 15:
            size, place = _unsigned(data, place)
        if not SIZES.get(kind, 1):
            raise ValueError  # There are no lists of true and false in the end of a file.
        found = []
        for _ in range(size):
            value, place = _value(data, place, kind, depth - 1)
            found.append(value)
        return found, place
    return None, place + SIZES[kind]


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
