"""Data sets of plugins: a function reads them, and the rest is known once it has been called."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.data.images import ImageSet, Pair
from fedgrid.engine.federation.data.precision import (
    LARGEST,
    cast_alike,
    check_tokens,
    find_beyond,
)
from fedgrid.engine.federation.errors import DataError, FedgridError, in_plugin, plugin_of
from fedgrid.engine.federation.inputs import DTYPES, Inputs
from fedgrid.engine.federation.own_code import own_code
from fedgrid.engine.federation.seeds import generator
from fedgrid.engine.federation.training.settings import Training

DIMENSIONS = {"uint8": (4,), "float32": (2, 3, 4), "int64": (2,)}
"""Of an array of examples."""


@dataclass(frozen=True, eq=False)
class OwnDataset:
    """A data set of a plugin. Two objects are two data sets: of two versions of the plugin, say."""

    name: str
    title: str
    """What tables and figures call it."""
    source: str
    """Origin, one line."""
    read: Callable[[Path], Pair] = field(repr=False)
    """Reads or makes it, given the data folder; returns (pool, server's test set)."""
    files: tuple[str, ...] = ()
    """Required files, relative to the data folder."""
    class_names: tuple[str, ...] = ()
    """By the classes' numbers; empty: they have numbers only."""
    bibtex: str = field(default="", repr=False)
    """Entries of its papers, apart by blank lines, which `fedgrid cite` prints."""

    def entry(self) -> Dataset:
        """Return what the registry has of it; `runtime.data.datasets.find` fills in what is not known yet."""
        return Dataset(
            self.name,
            self.title,
            self.source,
            num_classes=0,
            inputs=Inputs("numbers", ()),
            pool_size=0,
            model="",
            training=Training(rounds=1, batch_size=1, optimizer="sgd", learning_rate=1),
            read=partial(_read, self),
            class_names=self.class_names,
            files=self.files,
            is_own=True,
            bibtex=self.bibtex,
        )


@lru_cache(maxsize=1)
def _read(own: OwnDataset, folder: Path) -> Pair:
    """Return what a plugin reads: once a process, unless it has several such data sets."""
    place = plugin_of(own.read)
    try:
        with own_code(own, "read", generator(0, "own read")):
            pool, test = own.read(folder)
    except FedgridError:
        raise
    except Exception as error:
        # Whatever the plugin's code raises.
        cause = f"{type(error).__name__}: {error}"
        raise DataError(f"{in_plugin(error) or place}data set {own.name}: {cause}") from error
    try:
        pair = _stored(pool, test)
    except DataError as error:
        raise DataError(f"{place}data set {own.name}: {error}") from error
    tokens = [part for part in pair if part.inputs.kind == "tokens"]
    most = max((max(part.vocabulary, int(part.images.max(initial=0)) + 1) for part in tokens), default=0)
    return replace(pair[0], vocabulary=most), replace(pair[1], vocabulary=most)


def _stored(*given: object) -> Pair:
    """Return what a plugin has read, pool and test set, with the types in which they are kept.

    Raises:
        DataError: they cannot be.
    """
    sets = [_typed(one) for one in given]
    arrays = cast_alike([one.images for one in sets], 1)
    for array in arrays:
        if (place := find_beyond(array)) is not None:
            raise DataError(f"row {place[0]} has a number in column {place[1]} that is too large; {LARGEST}")
    pool, test = (replace(one, images=array) for one, array in zip(sets, arrays, strict=True))
    return pool, test


def _typed(given: object) -> ImageSet:
    """Return a set with the types in which it is kept, but for the precision of floats."""
    if not isinstance(given, ImageSet):
        raise DataError(f"read returned a {type(given).__name__}; expected two ImageSets")
    images, labels = np.asarray(given.images), np.asarray(given.labels)
    stored = np.dtype(np.float32) if images.dtype.kind == "f" else images.dtype
    if stored not in DTYPES.values() or images.ndim not in DIMENSIONS[stored.name]:
        raise DataError(
            f"examples of type {images.dtype} and shape {images.shape}; expected pixels as uint8, shape "
            "(N, channels, height, width), numbers as float32, shape (N, columns) or (N, channels, length), "
            "or tokens as int64, shape (N, length)"
        )
    if images.dtype == np.int64:
        check_tokens("an array", images.astype(np.int64, copy=False))
    if not np.isfinite(images).all():
        row = int(np.argmin(np.isfinite(images).reshape(len(images), -1).all(axis=1)))
        raise DataError(f"row {row} has a value that is missing or infinite; fill it in")
    groups = given.groups if given.groups is None else _numbers("groups", given.groups, len(images))
    names = given.group_names
    if groups is not None and not names:
        names = tuple(map(str, range(1 + int(groups.max(initial=0)))))
    subjects = given.subjects
    if subjects is not None:
        subjects = _numbers("subjects", subjects, len(images))
    labels = _numbers("labels", labels, len(images))
    return replace(given, images=images, labels=labels, groups=groups, group_names=names, subjects=subjects)


def _numbers(what: str, given: object, length: int) -> NDArray[np.int64]:
    numbers = np.asarray(given)
    if numbers.dtype.kind not in "iu" or numbers.shape != (length,):
        raise DataError(
            f"{what} of type {numbers.dtype} and shape {numbers.shape}; expected whole numbers from 0, shape "
            f"({length},)"
        )
    return numbers.astype(np.int64, copy=False)
