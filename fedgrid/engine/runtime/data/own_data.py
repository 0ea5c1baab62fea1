"""The user's own data, by their format: the facts about what lies at a path, and how it is read.

Opening data begins to read them: a folder's list and its first image, an npz file's labels, all of a table.
That gives the facts, which the process stores until a file changes; reading the examples goes on from there.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedgrid.engine.federation.data import names
from fedgrid.engine.federation.data.dataset import DataSource, Facts
from fedgrid.engine.federation.data.image_folders import open_folder
from fedgrid.engine.federation.data.images import Pair
from fedgrid.engine.federation.data.npz_files import open_npz
from fedgrid.engine.federation.data.tables.columns import TEXTS, Bools, Column, Table
from fedgrid.engine.federation.data.tables.examples import open_table
from fedgrid.engine.federation.data.tables.options import TableOptions
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.data import arrow_folders
from fedgrid.engine.runtime.data.tables import (
    find_index_columns,
    find_other_kinds,
    format_texts,
    parse_numbers,
    read_table,
)
from fedgrid.engine.runtime.storage.user_files import fingerprint_files

if TYPE_CHECKING:
    import pyarrow as pa


FOLDER = "folder"
"""The format in which each image is a file."""


def find_facts(kind: str, path: Path, mark: str, called: str = "") -> Facts:
    """Find the facts about data in one of `OWN_FORMATS`.

    Args:
        kind: The format.
        path: Where they are.
        mark: The options after the path, as in `names.split_mark`.
        called: What messages call them: those of the hub by their name; by default their path.

    Raises:
        ConfigError, DataError: the mark is not of this format, or the data cannot be read.
    """
    _check_spelling(path)
    _check_options(f"{path}{mark}")
    if kind == FOLDER:
        # What there would be to remember takes as long to check: a list of its files.
        return _open_source(kind, path, mark, called)[0]
    return _find_facts_once(kind, path, mark, called, _make_stamp(kind, path))


def read_examples(kind: str, mark: str, called: str, path: Path) -> Pair:
    """Read the examples of such data, pool and server's test set; raises what `find_facts` raises.

    Args:
        kind: The format.
        mark: The options after the path.
        called: What messages call them.
        path: Where they are.
    """
    if kind == FOLDER:
        return _open_source(kind, path, mark, called)[1]()
    _, read = _open_source_once(kind, path, mark, called, _make_stamp(kind, path))
    # It holds a whole table, which nobody needs twice.
    _open_source_once.cache_clear()
    return read()


def _make_stamp(kind: str, path: Path) -> str:
    """Compute what is new once a file is replaced."""
    return fingerprint_files(arrow_folders.list_arrow_files(path) if kind == names.HUB else [path])


@lru_cache(maxsize=8)
def _find_facts_once(kind: str, path: Path, mark: str, called: str, stamp: str) -> Facts:
    """Find the facts about data, or take those of an earlier call for the same files."""
    return _open_source_once(kind, path, mark, called, stamp)[0]


@lru_cache(maxsize=1)
def _open_source_once(kind: str, path: Path, mark: str, called: str, stamp: str) -> DataSource:
    """Open data, or take them from the last call: facts are needed first, then the examples."""
    return _open_source(kind, path, mark, called)


def _open_source(kind: str, path: Path, mark: str, called: str) -> DataSource:
    """Open data by their format; return their facts, and what reads the examples."""
    if kind == names.HUB:
        options = TableOptions.from_mark(called or f"{path}", mark, is_saved=True, is_on_hub=bool(called))
        return _open_saved(path, options)
    size, given = names.parse_mark(mark)
    if size and kind != FOLDER:
        raise ConfigError(f"{path}{mark}: only folders are scaled; leave out {mark}", ("dataset",))
    if kind in names.TABLES:
        options = TableOptions.from_mark(f"{path}", mark)
        stored = read_table(path, kind == "parquet")
        return open_table(_make_table(stored, _read_plain, find_index_columns(stored)), options)
    share = names.parse_sole_share(f"{path}", given)
    return open_npz(path, share) if kind == "npz" else open_folder(path, size, share)


def _check_spelling(path: Path) -> None:
    """Check that what follows a path is not meant as options, and written so that they are none.

    Raises:
        ConfigError: there is nothing at the path, but something without all from a `#` on.
    """
    place, mark, rest = f"{path}".partition("#")
    if mark and not path.exists() and Path(place).exists():
        raise ConfigError(
            f"{place}: '#{rest}' are no options; expected items such as label=y or 64x64, with commas and no "
            "spaces between them, and no comma in a name",
            ("dataset",),
        )


def _check_options(given: str) -> None:
    """Check that each option behind the path of a data set is given once; `drop` may be repeated.

    Raises:
        ConfigError: an option, or a size, has two values.
    """
    _, mark = names.split_mark(given)
    values: dict[str, str] = {}
    for item in mark.removeprefix("#").split(",") if mark else ():
        key, equals, _ = item.partition("=")
        key = key if equals else "SIZE"
        if key != names.DROP and values.setdefault(key, item) != item:
            raise ConfigError(
                f"{given}: {values[key]} and {item} contradict each other; leave one of the two out",
                ("dataset",),
            )


def _make_table(
    stored: "pa.Table",
    read_columns: Callable[["pa.Table"], Mapping[str, Column]],
    index: Collection[str] = (),
    is_test_R: Bools | None = None,
) -> Table:
    """Make a table of stored rows, whose columns are read when they are needed.

    Args:
        stored: The rows.
        read_columns: Reads the columns of rows.
        index: Names of the columns that pandas wrote as the index.
        is_test_R: Which rows are test rows; None: a split decides.
    """

    def filter_rows(is_left_R: Bools) -> Table:
        """Make the table of some rows."""
        left_R = None if is_test_R is None else is_test_R[is_left_R]
        return _make_table(stored.filter(is_left_R), read_columns, index, left_R)

    return Table(read_columns(stored), filter_rows, index, is_test_R)


def _read_plain(stored: "pa.Table") -> dict[str, Column]:
    """Read the columns of a csv or Parquet file: numbers, texts, or what nothing learns from."""
    columns = dict(zip(stored.column_names, stored.columns, strict=True))
    others = find_other_kinds(columns)
    return {
        name: Column(
            others.get(name, TEXTS),
            partial(format_texts, column),
            partial(parse_numbers, column),
            partial(_read_text, column),
        )
        for name, column in columns.items()
    }


def _read_text(column: "pa.ChunkedArray", row: int) -> str:
    """Read a cell as text."""
    return str(column[row].as_py() or "")


def _open_saved(folder: Path, options: TableOptions) -> DataSource:
    """Open what the package `datasets` has saved in a folder."""
    splits = arrow_folders.find_splits(folder)
    held, tested = options.choose_splits(list(splits))
    chosen = (*held, *tested)
    stored, lengths = arrow_folders.read_splits(options.source, [splits[split] for split in chosen])
    options = replace(options, parts=tuple(zip(chosen, lengths, strict=True)))
    is_test_R = np.repeat([False] * len(held) + [True] * len(tested), lengths) if tested else None
    read_columns = partial(arrow_folders.read_columns, options.source)
    facts, read = open_table(_make_table(stored, read_columns, is_test_R=is_test_R), options)
    if unread := ", ".join(split for split in splits if split not in chosen):
        facts = replace(facts, notes=(*facts.notes, f"{options.source}: not read: split {unread}"))
    return facts, read
