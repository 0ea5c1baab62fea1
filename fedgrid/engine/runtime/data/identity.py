"""Which images a data set has: a digest of all of them, as they are loaded.

So it is the same for every copy, wherever it lies. Loading takes minutes for large image folders: the digest
is remembered until a file changes.
"""

import os
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import numpy as np

from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.data.images import Pair
from fedgrid.engine.runtime.data.datasets import find, load
from fedgrid.engine.runtime.storage import remembered


def digest_of(pair: Pair) -> str:
    """Return the digest of a data set's images, classes and, if it has them, groups."""
    digest = sha256()
    arrays = (array for part in pair for array in (part.images, part.labels, part.groups))
    for array in (array for array in arrays if array is not None):
        digest.update(f"{array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def load_known(name: str, data_dir: Path) -> tuple[Pair, str]:
    """Load a data set; return it with its digest, which is remembered.

    Raises:
        ConfigError, DataError: as `datasets.load`.
    """
    before = fingerprint(find(name, data_dir), data_dir)
    pair = load(name, data_dir)
    found = digest_of(pair)
    dataset = find(name, data_dir)
    if before == fingerprint(dataset, data_dir):
        remembered.remember_digest(_key(dataset, data_dir), before, found)
    return pair, found


def digest_of_dataset(name: str, data_dir: Path) -> str:
    """Return the digest of a data set; loads it only if its files have changed since that was last done.

    Raises:
        ConfigError, DataError: as `datasets.load`.
    """
    dataset = find(name, data_dir)
    known = remembered.recall_digest(_key(dataset, data_dir), fingerprint(dataset, data_dir))
    return known or load_known(name, data_dir)[1]


def fingerprint(dataset: Dataset, data_dir: Path) -> str:
    """Return a digest of names, sizes, times and inodes of a data set's files; their content is not read."""
    if not (dataset.files or dataset.location):
        return version("scikit-learn")
    return remembered.fingerprint(_files(dataset, data_dir))


def _files(dataset: Dataset, data_dir: Path) -> Iterator[Path]:
    place = data_dir / dataset.location
    if dataset.files:
        yield from (data_dir / name for name in dataset.files)
    elif not place.is_dir():
        yield place
    else:
        for folder, names, files in os.walk(place):
            names.sort()
            yield from (Path(folder, name) for name in sorted(files))


def _key(dataset: Dataset, data_dir: Path) -> str:
    return f"{dataset.name} {(data_dir / dataset.location).absolute()}"
