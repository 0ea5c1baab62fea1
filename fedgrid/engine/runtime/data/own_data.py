"""Formats of the user's own data: what is known of what lies at a path."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data import image_folders, names, npz_files
from fedgrid.engine.federation.data.images import Assigned, Pair
from fedgrid.engine.federation.data.tables.columns import Options, Table
from fedgrid.engine.federation.data.tables.examples import Examples, examples
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import Sizes
from fedgrid.engine.runtime.data.tables import numbers, read_table, texts

Fact = TypeVar("Fact")


@dataclass(frozen=True)
class OwnData:
    """What is known of the user's own data before they are used."""

    sizes: Sizes
    read: Callable[[Path], Pair]
    class_names: tuple[str, ...] = ()
    assigned: Assigned | None = None
    notes: tuple[str, ...] = ()


def own_data(kind: str, path: Path, mark: str) -> OwnData:
    """Return what is known of data in one of `OWN_FORMATS`; `mark` is as in `names.place_and_mark`.

    Raises:
        ConfigError, DataError: the mark is not of this format, or the data cannot be read.
    """
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
        return OwnData(sizes, npz_files.read_images, assigned=assigned)
    if share is not None:
        sizes = image_folders.facts_drawn(path, share, size)
        drawn = partial(image_folders.read_drawn, share=share, size=size)
        return OwnData(sizes, drawn, image_folders.class_names(path))
    scaled = partial(image_folders.read_images, size=size)
    return OwnData(image_folders.facts(path, size), scaled, image_folders.class_names(path))


def of_file(path: Path, facts: Callable[[Path], Fact]) -> Fact:
    """Return what `facts` knows of a file, which each run asks for; it is read again once it is replaced."""
    fact: Fact = _fact(facts, path, _stamp(path))
    return fact


def _stamp(path: Path) -> tuple[int, int]:
    """Return what is new once a file is replaced."""
    if not path.is_file():
        return 0, 0
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=8)
def _fact(facts: Callable[[Path], Any], path: Path, stamp: tuple[int, int]) -> Any:
    return facts(path)


@lru_cache(maxsize=8)
def _drawn_npz(path: Path, share: float, stamp: tuple[int, int]) -> OwnData:
    """Return what is known of an npz file without a test part, without its examples."""
    pool, test = npz_files.read_drawn(path, share)
    num_classes = 1 + int(max(part.labels.max() for part in (pool, test)))
    sizes = (num_classes, pool.inputs, len(pool), len(pool.group_names) or None)
    return OwnData(sizes, partial(npz_files.read_drawn, share=share), assigned=pool.assigned)


@lru_cache(maxsize=8)
def _table(path: Path, kind: str, options: Options, stamp: tuple[int, int]) -> OwnData:
    """Return what is known of a table, without its rows."""
    read = _examples(kind, options, path)
    pool, test = read.pair
    num_groups = len(pool.group_names) or None
    sizes = (len(read.class_names), pool.inputs, len(pool), num_groups)
    return OwnData(sizes, partial(_read_table, kind, options), read.class_names, pool.assigned, read.notes)


def _read_table(kind: str, options: Options, path: Path) -> Pair:
    return _examples(kind, options, path).pair


def _examples(kind: str, options: Options, path: Path) -> Examples:
    table = read_table(path, kind == "parquet")

    def as_numbers(name: str) -> NDArray[np.float64] | None:
        return numbers(table[name])

    def as_texts(name: str) -> list[str]:
        return texts(table[name])

    return examples(Table(table.column_names, as_numbers, as_texts), options)
