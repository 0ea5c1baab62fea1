"""Readers of the published data sets' files, each of which returns (pool, server's test set), and downloads.

The data folder never holds incomplete files. A reader raises a DataError for a file that is missing or
damaged. `datasets.load_dataset` checks that the images are the expected ones.

Shapes: N images.
"""

import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPException
from importlib import import_module
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.files import damaged_file_error
from fedgrid.engine.federation.data.images import ImageSet, Pair
from fedgrid.engine.federation.errors import DataError

MNIST_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
CIFAR10_FILES = (*(f"data_batch_{batch}" for batch in range(1, 6)), "test_batch", "batches.meta")
CIFAR100_FILES = ("train", "test", "meta")
SVHN_FILES = ("train_32x32.mat", "test_32x32.mat")


def read_digits(_: Path) -> Pair:
    """Read scikit-learn's 1797 digits of 8x8 pixels, grey values 0..16 stretched to 0..255.

    They have no official test set: every fifth image of each class, in scikit-learn's order, is used.
    """
    rows = _load_sklearn_digits()
    images = np.rint(rows[:, :-1].reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)
    all_digits = ImageSet(images, rows[:, -1].astype(np.int64))
    is_test = np.zeros(len(all_digits), bool)
    for label in range(10):
        is_test[np.flatnonzero(all_digits.labels == label)[4::5]] = True
    return all_digits.take(np.flatnonzero(~is_test)), all_digits.take(np.flatnonzero(is_test))


def _load_sklearn_digits() -> NDArray[np.float64]:
    """Load one row an image, its 64 pixels and its class, from the file that `load_digits` reads.

    Importing `sklearn.datasets` takes a second and a half, so it is imported only if the file lies elsewhere.
    """
    spec = find_spec("sklearn")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        file = Path(folder) / "datasets" / "data" / "digits.csv.gz"
        if file.is_file():
            return np.loadtxt(file, delimiter=",")
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return np.column_stack([bunch.data, bunch.target])


def read_mnist(raw: Path) -> Pair:
    """Read the four uncompressed idx files of MNIST or Fashion-MNIST in the folder `raw`."""
    return _read_idx_pair(raw, MNIST_FILES)


def list_emnist_files(split: str) -> tuple[str, ...]:
    """List the names of the files of a split of EMNIST, in the order of `MNIST_FILES`."""
    parts = ("train-images-idx3", "train-labels-idx1", "test-images-idx3", "test-labels-idx1")
    return tuple(f"emnist-{split}-{part}-ubyte" for part in parts)


def read_emnist(split: str, raw: Path) -> Pair:
    """Read a split of EMNIST like `read_mnist`; its images are stored transposed, its letters count from
    1.
    """
    first = 1 if split == "letters" else 0
    pool, server = (
        ImageSet(np.ascontiguousarray(part.images.swapaxes(2, 3)), part.labels - first)
        for part in _read_idx_pair(raw, list_emnist_files(split))
    )
    return pool, server


def read_svhn(folder: Path) -> Pair:
    """Read the two Matlab files of SVHN, cropped digits; none is opened before its checksum is verified."""
    from torchvision.datasets import SVHN

    parts = ("train", "test")
    for part in parts:
        _, name, md5 = SVHN.split_list[part]
        _check_md5(folder / name, md5)
    pool, server = (
        ImageSet(np.ascontiguousarray(held.data), np.asarray(held.labels, np.int64))
        for held in (SVHN(folder, split=part) for part in parts)
    )
    return pool, server


def read_cifar(name: str, data_dir: Path) -> Pair:
    """Read torchvision's CIFAR10, or CIFAR100 with its fine classes.

    The files are pickles: none is opened before its checksum is verified.
    """
    # Imported here because it takes seconds that other data sets do not need.
    kind: Any = getattr(import_module("torchvision.datasets"), name)
    checksums = [*kind.train_list, *kind.test_list, [kind.meta["filename"], kind.meta["md5"]]]
    for name, md5 in checksums:
        _check_md5(data_dir / kind.base_folder / name, md5)
    parts = (kind(data_dir, train=train) for train in (True, False))
    pool, server = (
        ImageSet(np.ascontiguousarray(part.data.transpose(0, 3, 1, 2)), np.array(part.targets, np.int64))
        for part in parts
    )
    return pool, server


def _check_md5(file: Path, md5: str) -> None:
    """Check the MD5 sum of a file that is read by code which trusts it."""
    from torchvision.datasets.utils import check_integrity

    if not check_integrity(file, md5):
        raise damaged_file_error(file, f"its MD5 sum is not {md5}")


def _read_idx_pair(raw: Path, names: Sequence[str]) -> Pair:
    """Read training and test set from four idx files, named in the order of `MNIST_FILES`."""
    train_images, train_labels, test_images, test_labels = (raw / name for name in names)
    return _read_idx_set(train_images, train_labels), _read_idx_set(test_images, test_labels)


def _read_idx_set(images_file: Path, labels_file: Path) -> ImageSet:
    """Read one set from its file of images and its file of labels."""
    images, labels = _read_idx(images_file, 3), _read_idx(labels_file, 1)
    if len(images) != len(labels):
        raise damaged_file_error(labels_file, f"{len(labels)} labels for {len(images)} images")
    return ImageSet(images[:, None], labels.astype(np.int64))


def _read_idx(file: Path, num_dims: int) -> NDArray[np.uint8]:
    """Read an idx file: bytes 0, 0, 8, number of dimensions; sizes as big-endian int32; the data."""
    try:
        data = np.fromfile(file, np.uint8)
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}; expected an idx file there") from error
    header = 4 * (1 + num_dims)
    # Sizes are compared before the array is shaped, so that a broken download is named as such.
    if len(data) < header or data[:4].tolist() != [0, 0, 8, num_dims]:
        raise damaged_file_error(
            file, f"it does not start like an idx file of bytes in {num_dims} dimensions"
        )
    shape = data[4:header].view(">u4").tolist()
    if len(data) != header + prod(shape):
        raise damaged_file_error(file, f"{len(data)} bytes instead of {header + prod(shape)}")
    return data[header:].reshape(shape)


def fetch_torchvision(name: str, folder: Path, **options: str) -> None:
    """Fetch a data set of torchvision into a folder.

    Args:
        name: name of its class, such as `MNIST`.
        folder: where the files go.
        options: further arguments of the class.
    """
    getattr(import_module("torchvision.datasets"), name)(folder, download=True, **options)


def fetch_svhn(folder: Path) -> None:
    """Fetch SVHN, without its extra images, into the folder `SVHN`."""
    from torchvision.datasets import SVHN

    for part in ("train", "test"):
        SVHN(folder / "SVHN", split=part, download=True)


def fetch_medmnist(name: str, size: str, folder: Path) -> None:
    """Fetch an npz file of MedMNIST; its own downloader hides every error, even a keyboard interrupt.

    Args:
        name: title of the set in lower case.
        size: what the package's keys end in: empty for 28 pixels, else as `_64`.
        folder: where the file goes.
    """
    from medmnist import INFO
    from torchvision.datasets.utils import download_url

    url, md5 = (INFO[name][f"{what}{size}"] for what in ("url", "MD5"))
    download_url(url, folder, filename=f"{name}{size}.npz", md5=md5)


def download_files(title: str, fetch: Callable[[Path], None], files: tuple[str, ...], data_dir: Path) -> None:
    """Download into a temporary folder, and move the files into `data_dir` once all of them are complete.

    Args:
        title: what messages call the data set.
        fetch: downloads the files into a folder.
        files: the required files, relative to that folder and to `data_dir`.
        data_dir: the data folder; it is created if needed.

    Raises:
        DataError: no network, a wrong checksum, or `data_dir` cannot be written.
    """
    is_new = not data_dir.exists()
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        # Below `data_dir`, so that `os.replace` stays on one file system and is atomic: an interrupted
        # download leaves nothing that looks complete.
        with tempfile.TemporaryDirectory(prefix=".download-", dir=data_dir) as folder:
            with _download_context():
                fetch(Path(folder))
            for name in files:
                (data_dir / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(Path(folder) / name, data_dir / name)
    # torchvision raises RuntimeError for a wrong checksum and if no mirror answers.
    except (OSError, RuntimeError, EOFError, HTTPException) as error:
        cause = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"{title} could not be downloaded into {data_dir}{', a new folder' if is_new else ''} ({cause}); "
            "check the network and --data-dir and try again, or put these files there: "
            f"{', '.join(files)}"
        ) from error


@contextlib.contextmanager
def _download_context() -> Iterator[None]:
    """Set a timeout for silent servers, and print progress to stderr, as stdout may be read by programs."""
    before = socket.getdefaulttimeout()
    # Downloaders of torchvision and MedMNIST take no timeout; only the process-wide default reaches them.
    socket.setdefaulttimeout(60.0)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        socket.setdefaulttimeout(before)
