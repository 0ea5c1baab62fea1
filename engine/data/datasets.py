"""The registry of data sets, and how a run loads its images.

The pool of a data set is its official training images (MedMNIST: with the validation images). The default
training settings are those of the OCFL papers (Table 3), except for digits, the user's own images and
MedMNIST: the papers' learning rates for it hardly move the weights, so they are in the `paper` presets only.
The default there is plain Adam at 1e-3, as in MedMNIST's released benchmark code.

CIFAR-100, SVHN and FEMNIST are not in those papers: their model and training are of FLIS and of Prigent et
al., who use them.

Sources: Y. LeCun et al., MNIST; H. Xiao et al., Fashion-MNIST (2017); A. Krizhevsky, CIFAR-10 (2009);
J. Yang et al., MedMNIST v2 (2023), 28x28; Y. Netzer et al., SVHN (2011); S. Caldas et al., LEAF (2018);
E. Alpaydin and C. Kaynak, digits (1998), as in scikit-learn.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from fedgrid.engine.data import downloads, image_folders, npz_files, readers
from fedgrid.engine.data.dataset import Dataset, Sizes, check_images
from fedgrid.engine.data.readers import Pair
from fedgrid.engine.data.resizing import mark, place_and_size
from fedgrid.engine.errors import ConfigError, DataError, unknown
from fedgrid.engine.storage.user_paths import absolute, cache
from fedgrid.engine.training.settings import Training

DIGITS_TRAINING = Training(rounds=15, batch_size=32, optimizer="sgd", learning_rate=0.1)
MNIST_TRAINING = Training(rounds=50, batch_size=32, optimizer="sgd", learning_rate=1e-2)
CIFAR10_TRAINING = Training(rounds=80, batch_size=64, optimizer="sgd", learning_rate=1e-2)
MEDMNIST_TRAINING = Training(rounds=75, batch_size=128, optimizer="adam", learning_rate=1e-3)
FLIS_TRAINING = Training(
    rounds=200, local_epochs=10, batch_size=10, optimizer="sgd", learning_rate=1e-2, momentum=0.5
)
FEMNIST_TRAINING = Training(rounds=500, batch_size=32, optimizer="adam", learning_rate=1e-3)

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
    "cifar100": Dataset(
        "cifar100",
        "CIFAR-100",
        "torchvision, www.cs.toronto.edu/~kriz/cifar.html; the fine classes",
        num_classes=100,
        shape=(3, 32, 32),
        pool_size=50000,
        download_mb=169,
        model="resnet9",
        training=FLIS_TRAINING.model_copy(update={"rounds": 150}),
        read=readers.cifar100,
        files=tuple(f"cifar-100-python/{name}" for name in readers.CIFAR100_FILES),
        fetch=downloads.cifar100,
    ),
    "svhn": Dataset(
        "svhn",
        "SVHN",
        "torchvision, ufldl.stanford.edu/housenumbers; without its extra images",
        num_classes=10,
        shape=(3, 32, 32),
        pool_size=73257,
        download_mb=246,
        model="lenet5",
        training=FLIS_TRAINING,
        read=readers.svhn,
        location="SVHN",
        files=tuple(f"SVHN/{name}" for name in readers.SVHN_FILES),
        fetch=downloads.svhn,
    ),
    "femnist": Dataset(
        "femnist",
        "FEMNIST",
        "LEAF, leaf.cmu.edu; made by `fedgrid convert femnist`; every tenth image of a writer is test",
        num_classes=62,
        shape=(1, 28, 28),
        pool_size=726_000,
        download_mb=0,
        model="lenet5-tanh",
        training=FEMNIST_TRAINING,
        read=npz_files.read,
        location="femnist.npz",
        num_groups=3550,
        files=("femnist.npz",),
        facts=npz_files.facts,
        made_by="fedgrid convert femnist SOURCE",
    ),
}
"""Data sets by name. A new one is an entry here and, for a new format, a reader."""

OWN_FORMATS = {
    "folder": (image_folders, "image folder: train/<class>/* and test/<class>/*, or <group>/<class>/*"),
    "npz": (npz_files, "npz file with MedMNIST's keys"),
}
"""Formats of the user's own images: `folder:PATH`, `folder:PATH#WIDTHxHEIGHT` and `npz:PATH`."""
SHIPPED = "@"
"""Begins the PATH of images that `fedgrid submit` has sent with a job: its name says what is in them."""
SHIPPED_FOLDER = Path(__file__).parents[3] / "images"
"""Where they lie: beside the code, which travels with the job too."""


def find(name: str, data_dir: Path) -> Dataset:
    """Return a data set by name. Of a file or folder whose content is not known only the sizes are read.

    Raises:
        ConfigError, DataError: the name is unknown, PATH cannot be read.
    """
    if name in DATASETS:
        return _measured(DATASETS[name], data_dir)
    kind, _, given_path = name.partition(":")
    if kind not in OWN_FORMATS or not given_path:
        raise unknown("dataset", name, [*DATASETS, *(f"{kind}:PATH" for kind in OWN_FORMATS)])
    path = _own(given_path)
    if given_path.startswith(SHIPPED) and not path.exists():
        raise DataError(
            f"{name}: these images came with a job; `fedgrid submit` it again from the machine that has "
            "them, or name their place as an absolute path"
        )
    reader, source = OWN_FORMATS[kind]
    place, size = place_and_size(given_path)
    if size and reader is not image_folders:
        raise ConfigError(f"{name}: only folders are scaled; leave out {mark(size)}", ("dataset",))
    scaled = {"size": size} if size else {}
    num_classes, shape, pool_size, num_groups = reader.facts(path, **scaled)
    return Dataset(
        f"{kind}:{place if given_path.startswith(SHIPPED) else path}{mark(size)}",
        path.name,
        source,
        num_classes,
        shape,
        pool_size,
        download_mb=0,
        model="tinyvgg",
        training=MNIST_TRAINING,
        read=partial(reader.read, **scaled),
        location=str(path),
        num_groups=num_groups,
        class_names=image_folders.class_names(path) if reader is image_folders else (),
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
        download_it = f"allow the download of {dataset.download_mb} MB"
        otherwise = f"make it with `{dataset.made_by}`" if dataset.made_by else download_it
        raise DataError(
            f"{dataset.title}: {data_dir / missing[0]} is missing; put it there, or {otherwise}, "
            "or point FEDGRID_DATA or --data-dir to where it is"
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
        check_images(dataset, part, image_set)
    return pool, server


def is_here(name: str, data_dir: Path) -> bool:
    """Return whether the files of a data set exist; does not check their content."""
    kind, _, path = name.partition(":")
    if kind in OWN_FORMATS and path:
        return _own(path).exists()
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


def _measured(dataset: Dataset, data_dir: Path) -> Dataset:
    """Return a data set with the sizes of its file, if these vary and the file is here."""
    if dataset.facts is None or _missing(dataset, data_dir):
        return dataset
    path = data_dir / dataset.location
    stat = path.stat()
    _, _, pool_size, num_groups = _sizes(dataset.facts, path, (stat.st_mtime_ns, stat.st_size))
    return replace(dataset, pool_size=pool_size, num_groups=num_groups)


@lru_cache(maxsize=8)
def _sizes(facts: Callable[[Path], Sizes], path: Path, stamp: tuple[int, int]) -> Sizes:
    """Return the sizes of a file, which each run asks for; `stamp` is new once the file is replaced."""
    return facts(path)


def _own(given: str) -> Path:
    """Return the place of the user's own images."""
    given = place_and_size(given)[0]
    if given.startswith(SHIPPED):
        return SHIPPED_FOLDER / given.removeprefix(SHIPPED)
    return absolute(given, "images in")


def _missing(dataset: Dataset, data_dir: Path) -> list[str]:
    return [name for name in dataset.files if not (data_dir / name).is_file()]
