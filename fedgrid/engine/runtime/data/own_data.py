"""Formats of the user's own data: what is known of what lies at a path."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fedgrid.engine.federation.data import image_folders, names, npz_files
from fedgrid.engine.federation.data.images import Assigned, Pair
from fedgrid.engine.federation.data.tables.asked import Asked
from fedgrid.engine.federation.data.tables.columns import NUMBERS, TEXTS, Bools, Options, Table
from fedgrid.engine.federation.data.tables.encodings import encode
from fedgrid.engine.federation.data.tables.examples import Examples, examples
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import Sizes
from fedgrid.engine.runtime.data import arrow_folders
from fedgrid.engine.runtime.data.tables import index_of, numbers, others_in, read_table, texts
from fedgrid.engine.runtime.storage.user_files import fingerprint

if TYPE_CHECKING:
    import pyarrow as pa

Fact = TypeVar("Fact")


@dataclass(frozen=True)
class OwnData:
    """What is known of the user's own data before they are used."""

    sizes: Sizes
    read: Callable[[Path], Pair]
    class_names: tuple[str, ...] = ()
    assigned: Assigned | None = None
    notes: tuple[str, ...] = ()


def own_data(kind: str, path: Path, mark: str, called: str = "") -> OwnData:
    """Return what is known of data in one of `OWN_FORMATS`; `mark` is as in `names.place_and_mark`.

    Messages call them by their path, or, those of the hub, as they are `called`.

    Raises:
        ConfigError, DataError: the mark is not of this format, or the data cannot be read.
    """
    _check_spelling(path)
    _check_options(f"{path}{mark}")
    if kind == names.HUB:
        asked = Asked.of(called or f"{path}", mark, is_on_hub=bool(called))
        return _table(path, kind, asked, fingerprint(arrow_folders.files(path)))
    size, options = names.size_and_options(mark)
    if size and kind != "folder":
        raise ConfigError(f"{path}{mark}: only folders are scaled; leave out {mark}", ("dataset",))
    if kind in names.TABLES:
        return _table(path, kind, Options.of(f"{path}", options), _stamp(path))
    share = names.only_share(f"{path}", options)
    if kind == "npz" and share is not None:
        return _drawn_npz(path, share, _stamp(path))
    if kind == "npz":
        sizes, assigned = of_file(path, npz_files.facts), of_file(path, npz_files.assigned_in)
        return OwnData(sizes, npz_files.read_images, assigned=assigned, notes=_without_client(path, assigned))
    if share is not None:
        sizes = image_folders.facts_drawn(path, share, size)
        drawn = partial(image_folders.read_drawn, share=share, size=size)
        return OwnData(sizes, drawn, image_folders.class_names(path))
    scaled = partial(image_folders.read_images, size=size)
    return OwnData(image_folders.facts(path, size), scaled, image_folders.class_names(path))


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
    _, mark = names.place_and_mark(given)
    values: dict[str, str] = {}
    for item in mark.removeprefix("#").split(",") if mark else ():
        key, equals, _ = item.partition("=")
        key = key if equals else "SIZE"
        if key != names.DROP and values.setdefault(key, item) != item:
            raise ConfigError(
                f"{given}: {values[key]} and {item} contradict each other; leave one of the two out",
                ("dataset",),
            )


def of_file(path: Path, facts: Callable[[Path], Fact]) -> Fact:
    """Return what `facts` knows of a file, which each run asks for; it is read again once it is replaced."""
    fact: Fact = _fact(facts, path, _stamp(path))
    return fact


def _stamp(path: Path) -> str:
    """Return what is new once a file is replaced."""
    return fingerprint([path]) if path.is_file() else ""


@lru_cache(maxsize=8)
def _fact(facts: Callable[[Path], Any], path: Path, stamp: str) -> Any:
    return facts(path)


@lru_cache(maxsize=8)
def _drawn_npz(path: Path, share: float, stamp: str) -> OwnData:
    """Return what is known of an npz file without a test part, without its examples."""
    pool, test = npz_files.read_drawn(path, share)
    num_classes = 1 + int(max(part.labels.max() for part in (pool, test)))
    sizes = (num_classes, pool.inputs, len(pool), len(pool.group_names) or None)
    notes = _without_client(path, pool.assigned)
    return OwnData(sizes, partial(npz_files.read_drawn, share=share), assigned=pool.assigned, notes=notes)


def _without_client(path: Path, assigned: Assigned | None) -> tuple[str, ...]:
    """Return a note on the examples of an npz file whose client is an empty text, if there are any."""
    count = 0 if assigned is None else (assigned.num_rows or 0) - sum(map(len, assigned.held_K))
    return (f"{path}: nobody has {count} examples, which have no client",) if count else ()


@lru_cache(maxsize=8)
def _table(path: Path, kind: str, options: Options | Asked, stamp: str) -> OwnData:
    """Return what is known of a table, without its rows."""
    about = _examples(kind, options, path, without_rows=True)
    pool, _ = about.pair
    sizes = (len(about.class_names), about.inputs, len(pool), len(pool.group_names) or None)
    read = partial(_read_table, kind, options)
    return OwnData(sizes, read, about.class_names, pool.assigned, about.notes)


def _read_table(kind: str, options: Options | Asked, path: Path) -> Pair:
    return _examples(kind, options, path).pair


def _examples(kind: str, options: Options | Asked, path: Path, *, without_rows: bool = False) -> Examples:
    if isinstance(options, Asked):
        return _saved(path, options, without_rows=without_rows)
    table = _table_of(read_table(path, kind == "parquet"))
    return examples(table, options, without_rows=without_rows)


def _table_of(read: "pa.Table") -> Table:
    columns = dict(zip(read.column_names, read.columns, strict=True))
    return Table(
        [*columns],
        lambda name: numbers(columns[name]),
        lambda name: texts(columns[name]),
        lambda is_left_R: _table_of(read.filter(is_left_R)),
        others_in(columns),
        lambda name, row: str(columns[name][row].as_py() or ""),
        index_of(read),
    )


def _saved(folder: Path, asked: Asked, *, without_rows: bool) -> Examples:
    """Return what the package `datasets` has saved in a folder."""
    options, splits = asked.table, arrow_folders.splits_in(folder)
    held, tested = asked.splits(list(splits))
    chosen = (*held, *tested)
    stored, lengths = arrow_folders.read_splits(options.source, [splits[split] for split in chosen])
    options = replace(options, parts=tuple(zip(chosen, lengths, strict=True)))
    asked = replace(asked, table=options)
    is_test_R = np.repeat([False] * len(held) + [True] * len(tested), lengths) if tested else None
    read = examples(_table_saved(asked, stored, is_test_R), options, without_rows=without_rows)
    if unread := ", ".join(split for split in splits if split not in chosen):
        return replace(read, notes=(*read.notes, f"{options.source}: not read: split {unread}"))
    return read


def _table_saved(asked: Asked, stored: "pa.Table", is_test_R: Bools | None) -> Table:
    columns = arrow_folders.columns_of(asked.table.source, stored)

    def take(is_left_R: Bools) -> Table:
        options = replace(asked.table, numbers_R=1 + np.flatnonzero(is_left_R))
        left_R = None if is_test_R is None else is_test_R[is_left_R]
        return _table_saved(replace(asked, table=options), stored.filter(is_left_R), left_R)

    return Table(
        list(columns),
        lambda name: columns[name].numbers(),
        lambda name: columns[name].texts(),
        take,
        {name: column.kind for name, column in columns.items() if column.kind not in (TEXTS, NUMBERS)},
        classes={name: column.classes for name, column in columns.items() if column.classes},
        is_test_R=is_test_R,
        encode=partial(encode, asked, columns, stored.num_rows),
    )
