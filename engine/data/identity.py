"""Which images a data set has: a digest of all of them, and of when their files last changed.

The digest is of the images as they are loaded, so it is the same for every copy, wherever it lies. Loading
takes minutes for large image folders. For files that have not changed since, by size, times and inode, a
digest is remembered in the user's cache.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import numpy as np

from fedgrid.engine.data.dataset import Dataset
from fedgrid.engine.data.datasets import find, load
from fedgrid.engine.data.readers import Pair
from fedgrid.engine.errors import FedgridError
from fedgrid.engine.format import seal, unseal
from fedgrid.engine.storage.atomic import write_text
from fedgrid.engine.storage.user_paths import cache_folder

FOLDER = "images"
FILES, IMAGES = "files", "images"


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
    after = fingerprint(dataset, data_dir)
    if before == after:
        # The digest is only remembered to save time: a cache that cannot be written costs nothing else.
        with suppress(OSError, FedgridError):
            place = _place(dataset, data_dir)
            place.parent.mkdir(parents=True, exist_ok=True)
            write_text(place, seal({FILES: after, IMAGES: found}))
    return pair, found


def digest_of_dataset(name: str, data_dir: Path) -> str:
    """Return the digest of a data set; loads it only if its files have changed since that was last done.

    Raises:
        ConfigError, DataError: as `datasets.load`.
    """
    dataset = find(name, data_dir)
    # Whatever is wrong with what is remembered, the images themselves are right.
    with suppress(OSError, FedgridError, KeyError):
        known = unseal(_place(dataset, data_dir))
        if known[FILES] == fingerprint(dataset, data_dir):
            return str(known[IMAGES])
    return load_known(name, data_dir)[1]


def fingerprint(dataset: Dataset, data_dir: Path) -> str:
    """Return a digest of names, sizes, times and inodes of a data set's files; their content is not read."""
    digest = sha256()
    for path in _files(dataset, data_dir):
        try:
            about = path.stat()
            line = f"{path} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns} {about.st_ino}\n"
        except FileNotFoundError:
            line = f"{path} missing\n"
        digest.update(line.encode())
    return digest.hexdigest() if dataset.files or dataset.location else version("scikit-learn")


def _files(dataset: Dataset, data_dir: Path) -> Iterator[Path]:
    place = data_dir / dataset.location
    if dataset.files:
        yield from (data_dir / name for name in dataset.files)
    elif dataset.location and not place.is_dir():
        yield place
    elif dataset.location:
        for folder, names, files in os.walk(place):
            names.sort()
            yield from (Path(folder, name) for name in sorted(files))


def _place(dataset: Dataset, data_dir: Path) -> Path:
    """Return the file in which the digest of a data set is remembered."""
    key = sha256(f"{dataset.name} {data_dir.absolute()}".encode()).hexdigest()[:16]
    return cache_folder() / FOLDER / f"{key}.json"
