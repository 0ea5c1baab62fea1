"""The registry of data sets, and how a run loads its images.

The pool of a data set is its official training images (MedMNIST: with the validation images). The default
training settings are those of the OCFL papers (Table 3), except for digits, the user's own images and
MedMNIST: the papers' learning rates for it hardly move the weights, so they are in the `paper` presets only.
The default there is plain Adam at 1e-3, as in MedMNIST's released benchmark code.

Sources: Y. LeCun et al., MNIST; H. Xiao et al., Fashion-MNIST (2017); A. Krizhevsky, CIFAR-10 (2009);
J. Yang et al., MedMNIST v2 (2023), 28x28; E. Alpaydin and C. Kaynak, digits (1998), as in scikit-learn.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedgrid.engine.data import downloads, image_folders, npz_files, readers
from fedgrid.engine.data.images import ImageSet
from fedgrid.engine.data.readers import Pair
from fedgrid.engine.errors import DataError, unknown
from fedgrid.engine.storage.user_paths import absolute, cache
from fedgrid.engine.training.settings import Training


@dataclass(frozen=True)
class Dataset:
    """A data set; its images are read by `load`."""

    name: str
    """A key of `DATASETS`, or `folder:PATH` or `npz:PATH` with an absolute path."""
    title: str
    source: str
    """Origin, one line."""
    num_classes: int
    shape: tuple[int, int, int]
    """Channels, height, width of an image."""
    pool_size: int
    """Number of images in the pool, which is split among the clients."""
    download_mb: int
    """Size of the download in megabytes; 0 if nothing is downloaded."""
    model: str
    """Default model."""
    training: Training
    """Default training settings."""
    read: Callable[[Path], Pair] = field(repr=False, compare=False)
    """Reads `location`; returns (pool, server's test set)."""
    location: str = ""
    """Path for `read`, relative to the data folder; absolute for the user's own images."""
    num_groups: int | None = None
    """Number of groups that the images have themselves, such as writers or domains; None: they have none."""
    files: tuple[str, ...] = ()
    """Required files, relative to the data folder."""
    fetch: downloads.Fetch | None = field(default=None, repr=False, compare=False)
    """Downloads the files into a folder; None if there is no download."""


DIGITS_TRAINING = Training(rounds=15, batch_size=32, optimizer="sgd", learning_rate=0.1)
MNIST_TRAINING = Training(rounds=50, batch_size=32, optimizer="sgd", learning_rate=1e-2)
CIFAR10_TRAINING = Training(rounds=80, batch_size=64, optimizer="sgd", learning_rate=1e-2)
MEDMNIST_TRAINING = Training(rounds=75, batch_size=128, optimizer="adam", learning_rate=1e-3)

DATASETS: dict[str, Dataset] = {
    "digits": Dataset(
        "digits",
        "digits",
        "scikit-learn's load_digits, comes with it; every fifth image of a class is test",
        num_classes=10,
        shape=(1, 8, 8),
        pool_size=1442,
        download_mb=0,
        model="digitnet",
        training=DIGITS_TRAINING,
        read=readers.digits,
    ),
    "mnist": Dataset(
        "mnist",
        "MNIST",
        "torchvision, yann.lecun.com/exdb/mnist",
        num_classes=10,
        shape=(1, 28, 28),
        pool_size=60000,
        download_mb=12,
        model="tinyvgg",
        training=MNIST_TRAINING,
        read=readers.mnist,
        location="MNIST/raw",
        files=tuple(f"MNIST/raw/{name}" for name in readers.MNIST_FILES),
        fetch=downloads.mnist,
    ),
    "fmnist": Dataset(
        "fmnist",
        "Fashion-MNIST",
        "torchvision, github.com/zalandoresearch/fashion-mnist",
        num_classes=10,
        shape=(1, 28, 28),
        pool_size=60000,
        download_mb=31,
        model="tinyvgg",
        training=MNIST_TRAINING,
        read=readers.mnist,
        location="FashionMNIST/raw",
        files=tuple(f"FashionMNIST/raw/{name}" for name in readers.MNIST_FILES),
        fetch=downloads.fmnist,
    ),
    "cifar10": Dataset(
        "cifar10",
        "CIFAR-10",
        "torchvision, www.cs.toronto.edu/~kriz/cifar.html",
        num_classes=10,
        shape=(3, 32, 32),
        pool_size=50000,
        download_mb=171,
        model="resnet34",
        training=CIFAR10_TRAINING,
        read=readers.cifar10,
        files=tuple(f"cifar-10-batches-py/{name}" for name in readers.CIFAR10_FILES),
        fetch=downloads.cifar10,
    ),
    "pathmnist": Dataset(
        "pathmnist",
        "PathMNIST",
        "medmnist, zenodo.org/records/10519652; training and validation images are the pool",
        num_classes=9,
        shape=(3, 28, 28),
        pool_size=100000,
        download_mb=206,
        model="resnet34",
        training=MEDMNIST_TRAINING,
        read=npz_files.read,
        location="pathmnist.npz",
        files=("pathmnist.npz",),
        fetch=downloads.pathmnist,
    ),
    "bloodmnist": Dataset(
        "bloodmnist",
        "BloodMNIST",
        "medmnist, zenodo.org/records/10519652; training and validation images are the pool",
        num_classes=8,
        shape=(3, 28, 28),
        pool_size=13671,
        download_mb=36,
        model="resnet34",
        training=MEDMNIST_TRAINING,
        read=npz_files.read,
        location="bloodmnist.npz",
        files=("bloodmnist.npz",),
        fetch=downloads.bloodmnist,
    ),
}
"""Data sets by name. A new one is an entry here and, for a new format, a reader."""

OWN_FORMATS = {
    "folder": (image_folders, "image folder: train/<class>/* and test/<class>/*, or <group>/<class>/*"),
    "npz": (npz_files, "npz file with MedMNIST's keys"),
}
"""Formats of the user's own images: `folder:PATH` and `npz:PATH`."""


def find(name: str, data_dir: Path) -> Dataset:
    """Return a data set by name. Of a `folder:PATH` or `npz:PATH` only the sizes are read.

    Raises:
        ConfigError: the name is unknown.
        DataError: PATH cannot be read.
    """
    if name in DATASETS:
        return DATASETS[name]
    kind, _, given_path = name.partition(":")
    if kind not in OWN_FORMATS or not given_path:
        raise unknown("dataset", name, [*DATASETS, *(f"{kind}:PATH" for kind in OWN_FORMATS)])
    path = absolute(given_path, "images in")
    reader, source = OWN_FORMATS[kind]
    num_classes, shape, pool_size, num_groups = reader.facts(path)
    return Dataset(
        f"{kind}:{path}",
        path.name,
        source,
        num_classes,
        shape,
        pool_size,
        download_mb=0,
        model="tinyvgg",
        training=MNIST_TRAINING,
        read=reader.read,
        location=str(path),
        num_groups=num_groups,
    )


def load(name: str, data_dir: Path, download: bool = True) -> Pair:
    """Return (pool, server's test set); missing files are downloaded into the data folder first.

    Raises:
        ConfigError: the name is unknown.
        DataError: files are missing and cannot be downloaded, are damaged, or hold other images.
    """
    dataset = find(name, data_dir)
    missing = _missing(dataset, data_dir)
    if missing and not (download and dataset.fetch):
        raise DataError(
            f"{dataset.title}: {data_dir / missing[0]} is missing; put it there, or allow the download of "
            f"{dataset.download_mb} MB, or point FEDGRID_DATA or --data-dir to where it is"
        )
    if missing and dataset.fetch:
        downloads.download(dataset.title, dataset.fetch, dataset.files, data_dir)
    pool, server = dataset.read(data_dir / dataset.location)
    if len(pool) != dataset.pool_size:
        raise DataError(
            f"{dataset.name} in {data_dir} has {len(pool)} images to draw from instead of "
            f"{dataset.pool_size}; replace its files with the original ones"
        )
    for part, image_set in (("training", pool), ("test", server)):
        _check(dataset, part, image_set)
    return pool, server


def is_here(name: str, data_dir: Path) -> bool:
    """Return whether the files of a data set exist; does not check their content."""
    kind, _, path = name.partition(":")
    if kind in OWN_FORMATS and path:
        return Path(path).expanduser().exists()
    return not _missing(find(name, data_dir), data_dir)


def default_data_dir() -> Path:
    """Return FEDGRID_DATA, or fedgrid/data in the user's cache folder.

    Raises:
        ConfigError: the user has no home folder.
    """
    given = os.environ.get("FEDGRID_DATA")
    if given:
        return Path(given).expanduser()
    return cache(instead="FEDGRID_DATA") / "data"


def _missing(dataset: Dataset, data_dir: Path) -> list[str]:
    return [name for name in dataset.files if not (data_dir / name).is_file()]


def _check(dataset: Dataset, part: str, image_set: ImageSet) -> None:
    """Check shape of the images, range of the labels, and that no class is empty."""
    if image_set.images.shape[1:] != dataset.shape:
        raise DataError(
            f"{dataset.name}: {part} images of shape {image_set.images.shape[1:]} where {dataset.shape} "
            "(channels, height, width) was expected; replace them or make all images one size"
        )
    labels, last = image_set.labels, dataset.num_classes - 1
    outside = labels[(labels < 0) | (labels > last)]
    if len(outside):
        raise DataError(
            f"{dataset.name}: label {outside[0]} of a {part} image is no class; allowed: 0 to {last}"
        )
    counts_L = np.bincount(labels, minlength=dataset.num_classes)
    if not counts_L.all():
        empty = int(np.argmin(counts_L))
        raise DataError(
            f"{dataset.name}: class {empty} has no {part} images; add some or leave the class out"
        )
