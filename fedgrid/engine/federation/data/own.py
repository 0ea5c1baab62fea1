"""Data sets of plugins: a function reads them, and their facts are known once it has been called."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.data.images import ImageSet, Pair
from fedgrid.engine.federation.data.precision import (
    OVERFLOW_HELP,
    cast_parts,
    check_tokens,
    find_overflow,
)
from fedgrid.engine.federation.errors import DataError, FedgridError, find_plugin_file, find_plugin_line
from fedgrid.engine.federation.inputs import DTYPES, Inputs
from fedgrid.engine.federation.plugin_calls import plugin_call_context
from fedgrid.engine.federation.seeds import make_generator
from fedgrid.engine.federation.training.settings import Training

DIMENSIONS = {"uint8": (4,), "float32": (2, 3, 4), "int64": (2,)}
"""Number of dimensions that an array of examples may have, by its type."""


@dataclass(frozen=True, eq=False)
class OwnDataset:
    """A data set of a plugin, listed in its `DATASETS`.

    Two objects are two data sets, even with equal fields: they may be of two versions of the plugin.

    Args:
        name: name in configurations.
        title: name in tables and figures.
        source: origin, one line.
        read: reads or makes the data set.
        files: required files. Default: none.
        class_names: names of the classes. Default: numbers only.
        bibtex: BibTeX of its papers. Default: none.

    Example:
        >>> import fedgrid
        >>> import numpy as np
        >>> def read(folder):
        ...     rng = np.random.default_rng(0)
        ...     rows, labels = rng.normal(size=(20, 3)), np.arange(20) % 2
        ...     return fedgrid.ImageSet(rows[5:], labels[5:]), fedgrid.ImageSet(rows[:5], labels[:5])
        >>> dataset = fedgrid.OwnDataset("blobs", title="blobs", source="drawn at random", read=read)
        >>> pool, test = dataset.read(None)
        >>> dataset.name, len(pool), len(test)
        ('blobs', 15, 5)
    """

    name: str
    """Name in configurations, as in `dataset: blobs`."""
    title: str
    """What tables and figures call it."""
    source: str
    """Origin, one line."""
    read: Callable[[Path], Pair] = field(repr=False)
    """Reads or makes the data set. Called with the data folder as a process first needs the examples; returns
    (pool, server's test set). It may draw from the global generators, which are seeded alike for every run.
    """
    files: tuple[str, ...] = ()
    """Required files, relative to the data folder."""
    class_names: tuple[str, ...] = ()
    """Names of the classes, by their numbers; empty: they have numbers only."""
    bibtex: str = field(default="", repr=False)
    """BibTeX entries of its papers, separated by blank lines, which `fedgrid cite` prints."""

    def entry(self) -> Dataset:
        """Build the registry's entry.

        `runtime.data.datasets.find_dataset` fills in what is known only after reading. Called by fedgrid as
        the plugin is loaded.
        """
        return Dataset(
            self.name,
            self.title,
            self.source,
            # Placeholders up to `training`: facts, model and training follow from the examples.
            num_classes=0,
            inputs=Inputs("numbers", ()),
            pool_size=0,
            model="",
            training=Training(rounds=1, batch_size=1, optimizer="sgd", learning_rate=1),
            read=partial(_read_once, self),
            class_names=self.class_names,
            files=self.files,
            is_own=True,
            bibtex=self.bibtex,
        )


# One data set alone, since it may take most of the memory.
@lru_cache(maxsize=1)
def _read_once(own: OwnDataset, folder: Path) -> Pair:
    """Read a plugin's data set, once a process unless it has several such data sets."""
    place = find_plugin_file(own.read)
    try:
        # Seed 0 and not the run's: all runs share the data set, and the process keeps one copy.
        with plugin_call_context(own, "read", make_generator(0, "own read")):
            pool, test = own.read(folder)
    except FedgridError:
        raise
    except Exception as error:
        # Whatever the plugin's code raises.
        cause = f"{type(error).__name__}: {error}"
        raise DataError(f"{find_plugin_line(error) or place}data set {own.name}: {cause}") from error
    try:
        pair = _convert_pair(pool, test)
    except DataError as error:
        raise DataError(f"{place}data set {own.name}: {error}") from error
    # Tokens of the test set may be larger than those of the pool, and a model has one embedding for both.
    tokens = [part for part in pair if part.inputs.kind == "tokens"]
    vocabulary_size = max(
        (max(part.vocabulary, int(part.images.max(initial=0)) + 1) for part in tokens), default=0
    )
    return replace(pair[0], vocabulary=vocabulary_size), replace(pair[1], vocabulary=vocabulary_size)


def _convert_pair(*given: object) -> Pair:
    """Convert pool and test set of a plugin to the types in which examples are stored.

    Raises:
        DataError: they cannot be converted.
    """
    sets = [_convert_set(one) for one in given]
    arrays = cast_parts([one.images for one in sets], 1)
    for array in arrays:
        if (place := find_overflow(array)) is not None:
            raise DataError(
                f"row {place[0]} has a number in column {place[1]} that is too large; {OVERFLOW_HELP}"
            )
    pool, test = (replace(one, images=array) for one, array in zip(sets, arrays, strict=True))
    return pool, test


def _convert_set(given: object) -> ImageSet:
    """Convert a set to the types in which examples are stored, but for the precision of floats."""
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
    groups = given.groups if given.groups is None else _check_numbers("groups", given.groups, len(images))
    names = given.group_names
    if groups is not None and not names:
        names = tuple(map(str, range(1 + int(groups.max(initial=0)))))
    subjects = given.subjects
    if subjects is not None:
        subjects = _check_numbers("subjects", subjects, len(images))
    labels = _check_numbers("labels", labels, len(images))
    return replace(given, images=images, labels=labels, groups=groups, group_names=names, subjects=subjects)


def _check_numbers(what: str, given: object, length: int) -> NDArray[np.int64]:
    """Check that labels, groups or subjects are whole numbers, shape (length,), and convert them to int64."""
    numbers = np.asarray(given)
    if numbers.dtype.kind not in "iu" or numbers.shape != (length,):
        raise DataError(
            f"{what} of type {numbers.dtype} and shape {numbers.shape}; expected whole numbers from 0, shape "
            f"({length},)"
        )
    return numbers.astype(np.int64, copy=False)
