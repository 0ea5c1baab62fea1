"""The data sets of runs, the registry's or the user's own: where they are, how they load, their digest.

The digest covers all images as they are loaded, so it is the same for every copy, wherever it lies. Loading
takes minutes for large image folders: the digest is stored until a file changes.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from fedgrid.engine.federation.data import image_folders, names, readers
from fedgrid.engine.federation.data.dataset import Dataset, check_images
from fedgrid.engine.federation.data.files import check_memory, release_memory
from fedgrid.engine.federation.data.images import Pair
from fedgrid.engine.federation.data.published.facts import REFUSED
from fedgrid.engine.federation.data.registry import DATASETS, find_defaults
from fedgrid.engine.federation.errors import ConfigError, DataError, unknown_name_error
from fedgrid.engine.runtime.data import arrow_folders, hub, own_images
from fedgrid.engine.runtime.data.own_data import find_facts, read_examples
from fedgrid.engine.runtime.data.own_images import OWN_FORMATS
from fedgrid.engine.runtime.storage import user_files
from fedgrid.engine.runtime.storage.user_files import find_user_cache, make_absolute

READER = 3
"""Version of how files become images: digests of what another one has read are not used."""
ROWS = 1 << 16
"""Rows of an array that are digested at a time."""
MAKERS = ("scikit-learn", "numpy", "scipy")
"""Packages that data sets without files come from, or are drawn and filtered by."""


def find_dataset(name: str, data_dir: Path) -> Dataset:
    """Find a data set by name, or the user's own by its path or by what a run calls it.

    Of the images in a file or folder only sizes and digests of the files are read.

    Raises:
        ConfigError, DataError: the name is unknown, PATH cannot be read.
    """
    if name in DATASETS:
        return _measure_dataset(DATASETS[name], data_dir)
    kind, _, given_path = name.partition(":")
    if kind not in OWN_FORMATS or not given_path:
        if (reason := REFUSED.get(name.partition("-")[0])) is not None:
            raise ConfigError(f"dataset {name} of MedMNIST: {reason}", ("dataset",))
        listed = [entry.name for entry in DATASETS.values() if entry.is_listed]
        raise unknown_name_error(
            "dataset", name, [*listed, *(f"{kind}:PATH" for kind in OWN_FORMATS)], ALSO_CALLED
        )
    name, path, mark = _locate_own(name)
    named = names.parse_hub_name(name)
    called = f"{names.HUB}:{named[0]}" if named else ""
    facts = find_facts(kind, path, mark, called)
    # The user's own data have no defaults of their own, so they get those of their kind of inputs.
    model, training = find_defaults(facts.inputs)
    if not names.is_content_name(name):
        name = own_images.name_by_digest(kind, path, mark, list_files(kind, path))
    return Dataset(
        name,
        named[0] if named else path.name,
        OWN_FORMATS[kind],
        model=model,
        training=training,
        read=partial(read_examples, kind, mark, called),
        location=str(path),
        **vars(facts),
        may_lack_classes=kind in (*names.TABLES, names.HUB),
    )


def list_files(kind: str, place: Path) -> list[Path]:
    """List the files of the user's own data at a place: those read in a folder, or the file itself."""
    if kind == names.HUB:
        return arrow_folders.list_arrow_files(place)
    return image_folders.list_files(place) if place.is_dir() else [place]


def name_by_content(value: Any, data_dir: Path) -> Any:
    """Replace the user's own images in a value, such as an encoder's public set, by their names with digests.

    Raises:
        ConfigError, DataError: as `find_dataset`.
    """
    if isinstance(value, Mapping):
        return {key: name_by_content(inner, data_dir) for key, inner in value.items()}
    is_own = isinstance(value, str) and value.partition(":")[0] in OWN_FORMATS and ":" in value
    return find_dataset(value, data_dir).name if is_own else value


def load_dataset(name: str, data_dir: Path, download: bool = True) -> Pair:
    """Load (pool, server's test set); missing files are downloaded into the data folder first.

    Raises:
        ConfigError: the name is unknown.
        DataError: files are missing and cannot be downloaded, are damaged, or hold other images, or more than
            this machine's memory.
    """
    dataset = find_dataset(name, data_dir)
    if dataset.fetch:
        # Before the download, which may take an hour.
        check_memory(dataset.name, dataset.num_bytes)
    if not (download and dataset.fetch):
        _check_files(dataset, data_dir)
    elif _list_missing(dataset, data_dir):
        readers.download_files(dataset.title, dataset.fetch, dataset.files, data_dir)
    pool, server = dataset.read(data_dir / dataset.location)
    if len(pool) != dataset.pool_size:
        raise DataError(
            f"{dataset.name} in {data_dir} has {len(pool)} images to draw from instead of "
            f"{dataset.pool_size}; replace its files with the original ones"
        )
    for part, image_set in (("training", pool), ("test", server)):
        check_images(dataset, part, image_set)
    return pool, server


def is_here(name: str, data_dir: Path) -> bool:
    """Check whether the files of a data set exist, without their content."""
    kind, _, path = name.partition(":")
    if kind in OWN_FORMATS and path:
        return _locate_own(name)[1].exists()
    return not _list_missing(DATASETS.get(name) or find_dataset(name, data_dir), data_dir)


ALSO_CALLED = {
    **dict.fromkeys(("fashion-mnist", "fashion_mnist", "fashionmnist", "fashion"), "fmnist"),
    **dict.fromkeys(("cifar", "cifar-10", "cifar_10"), "cifar10"),
    **dict.fromkeys(("cifar-100", "cifar_100"), "cifar100"),
    "emnist": "emnist-balanced",
}
"""Name of each data set by what others call it, in small letters, for messages."""


def default_data_dir() -> Path:
    """Find FEDGRID_DATA, or fedgrid/data in the user's cache folder.

    Raises:
        ConfigError: the user has no home folder, or there can be no such folder.
    """
    given = os.environ.get("FEDGRID_DATA")
    return (
        check_image_folder(given, "FEDGRID_DATA")
        if given
        else find_user_cache(instead="FEDGRID_DATA") / "data"
    )


def check_image_folder(given: Path | str, what: str = "--data-dir") -> Path:
    """Make the path of the folder of images that a user names absolute, and check it.

    Raises:
        ConfigError: there can be no such folder.
    """
    folder = make_absolute(given, what)
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{what} {folder} is a file; name a folder for the images")
    return folder


def _measure_dataset(dataset: Dataset, data_dir: Path) -> Dataset:
    """Add the sizes of a data set's file, if these vary and the file is here.

    Raises:
        DataError: it is a plugin's, and cannot be read.
    """
    if dataset.is_own:
        _check_files(dataset, data_dir)
        # Only the plugin's code can tell the sizes, so all of it is read.
        pool, test = dataset.read(data_dir)
        model, training = find_defaults(pool.inputs)
        return replace(
            dataset,
            num_classes=1 + int(max(pool.labels.max(initial=0), test.labels.max(initial=0))),
            inputs=pool.inputs,
            pool_size=len(pool),
            model=model,
            training=training,
            num_groups=len(pool.group_names) or None,
        )
    if not dataset.sizes_vary or _list_missing(dataset, data_dir):
        return dataset
    facts = find_facts("npz", data_dir / dataset.location, "")
    return replace(dataset, pool_size=facts.pool_size, num_groups=facts.num_groups)


def _locate_own(name: str) -> tuple[str, Path, str]:
    """Find name, path and mark of the user's own data; those of the hub have the name of a run."""
    path = None
    if names.parse_hub_name(name):
        name, path = hub.locate_dataset(name)
    given, mark = names.split_mark(names.strip_digest(name).partition(":")[2])
    if path is None:
        path = (
            own_images.require_place(name)
            if names.is_content_name(name)
            else make_absolute(given, "images in")
        )
    return name, path, mark


def _list_missing(dataset: Dataset, data_dir: Path) -> list[str]:
    """List the files of a data set that are missing."""
    return [name for name in dataset.files if not (data_dir / name).is_file()]


def _check_files(dataset: Dataset, data_dir: Path) -> None:
    """Check that the files of a data set are here.

    Raises:
        DataError: one is missing.
    """
    for name in _list_missing(dataset, data_dir):
        ways = ["put it there", "set FEDGRID_DATA or --data-dir to its folder"]
        if dataset.fetch or dataset.made_by:
            download = f"allow the download of {dataset.download_mb} MB"
            ways.insert(1, f"make it with `{dataset.made_by}`" if dataset.made_by else download)
        raise DataError(f"{dataset.title}: {data_dir / name} is missing; {', or '.join(ways)}")


def digest_pair(pair: Pair) -> str:
    """Compute the digest of a data set's images, classes and, if it has them, groups and clients."""
    digest = sha256()
    arrays = [array for part in pair for array in (part.images, part.labels, part.groups)]
    if (assigned := pair[0].assigned) is not None:
        arrays += [np.array(assigned.group_K), *assigned.held_K]
    for array in (array for array in arrays if array is not None):
        digest.update(f"{array.dtype.str} {array.shape}\n".encode())
        for start in range(0, len(array), ROWS):
            digest.update(np.ascontiguousarray(array[start : start + ROWS]).data)
            # Images of a mapped file would otherwise stay in memory, all of them, just for the digest.
            release_memory(array)
    return digest.hexdigest()


def load_with_digest(name: str, data_dir: Path) -> tuple[Pair, str]:
    """Load a data set; return it with its digest, which is stored.

    Raises:
        ConfigError, DataError: as `datasets.load_dataset`.
    """
    before = fingerprint_dataset(find_dataset(name, data_dir), data_dir)
    pair = load_dataset(name, data_dir)
    digest = digest_pair(pair)
    dataset = find_dataset(name, data_dir)
    # A file that changed while it was read has a digest of neither content.
    if before and before == fingerprint_dataset(dataset, data_dir):
        user_files.store_digest(_make_key(dataset, data_dir), before, digest)
    return pair, digest


def find_dataset_digest(name: str, data_dir: Path) -> str:
    """Find the digest of a data set; load it only if its files have changed since that was last done.

    Raises:
        ConfigError, DataError: as `datasets.load_dataset`.
    """
    dataset = find_dataset(name, data_dir)
    digest = user_files.load_stored_digest(
        _make_key(dataset, data_dir), fingerprint_dataset(dataset, data_dir)
    )
    return digest or load_with_digest(name, data_dir)[1]


def fingerprint_dataset(dataset: Dataset, data_dir: Path) -> str:
    """Compute a digest of names, sizes, times and inodes of a data set's files; their content is not read.

    Empty for a plugin's: no file shows whether what its code makes has changed.
    """
    if dataset.is_own:
        return ""
    if not (dataset.files or dataset.location):
        return " ".join(map(version, MAKERS))
    files = [data_dir / name for name in dataset.files]
    kind = dataset.name.partition(":")[0]
    return user_files.fingerprint_files(files or list_files(kind, Path(dataset.location)))


def _make_key(dataset: Dataset, data_dir: Path) -> str:
    """Build the key under which a data set's digest is stored."""
    return f"{dataset.name} {(data_dir / dataset.location).absolute()} {READER}"
