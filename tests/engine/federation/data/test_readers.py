"""Reading the published data sets' files, and the one-line errors for damaged ones."""

import os
import pickle
import struct
import urllib.error
from functools import partial
from hashlib import md5

import numpy as np
import pytest

from fedgrid.engine.federation.data import readers
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.errors import DataError


class TestDownload:
    FILES = ("SET/raw/a", "SET/raw/b")

    def test_downloaded_files_arrive_together(self, tmp_path):
        def fetch(folder):
            (folder / "SET" / "raw").mkdir(parents=True)
            for name in (*self.FILES, "SET/raw/a.gz"):
                (folder / name).write_text(name)

        readers.download_files("Set", fetch, self.FILES, tmp_path / "new")
        assert sorted(path.name for path in (tmp_path / "new").rglob("*") if path.is_file()) == ["a", "b"]

    @pytest.mark.parametrize(
        "error",
        [
            urllib.error.URLError(OSError("no route to host")),
            RuntimeError("Error downloading a.gz:\nTried there, got:\nno route to host"),
        ],
    )
    def test_failed_download_leaves_no_files(self, tmp_path, error):
        def fetch(folder):
            (folder / "SET" / "raw").mkdir(parents=True)
            (folder / "SET" / "raw" / "a").write_text("half")
            raise error

        with pytest.raises(DataError) as caught:
            readers.download_files("Set", fetch, self.FILES, tmp_path)
        message = str(caught.value)
        assert message.startswith(f"Set could not be downloaded into {tmp_path} (")
        assert "no route to host" in message
        assert message.endswith("put these files there: SET/raw/a, SET/raw/b")
        assert "\n" not in message
        assert list(tmp_path.iterdir()) == []

    def test_data_folder_that_cannot_be_created_is_named(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(DataError, match="Set could not be downloaded into .*file/data"):
            readers.download_files("Set", lambda folder: None, self.FILES, tmp_path / "file" / "data")

    @pytest.mark.parametrize(
        "fetch",
        [
            *(partial(readers.fetch_torchvision, name) for name in ("MNIST", "CIFAR10")),
            *(partial(readers.fetch_medmnist, "pathmnist", "_64"), readers.fetch_svhn),
        ],
    )
    def test_torchvision_errors_are_reported_in_one_line(self, tmp_path, monkeypatch, fetch):
        from torchvision.datasets import utils

        def no_network(*args, **kwargs):
            raise urllib.error.URLError("no route to host")

        monkeypatch.setattr(utils.urllib.request, "urlopen", no_network)
        with pytest.raises(DataError, match=r"Set could not be downloaded .*no route to host.*: x$"):
            readers.download_files("Set", fetch, ("x",), tmp_path)
        assert list(tmp_path.iterdir()) == []


def idx(array):
    """Return the bytes of a file of MNIST's format."""
    header = struct.pack(f">BBBB{array.ndim}i", 0, 0, 8, array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


@pytest.fixture
def raw(tmp_path):
    """Three training images and one test image of 2x3 pixels, in MNIST's layout."""
    for name, count, first in (("train", 3, 0), ("t10k", 1, 100)):
        images = np.arange(first, first + 6 * count).reshape(count, 2, 3)
        (tmp_path / f"{name}-images-idx3-ubyte").write_bytes(idx(images))
        (tmp_path / f"{name}-labels-idx1-ubyte").write_bytes(idx(np.arange(count)[::-1]))
    return tmp_path


class TestDigits:
    def test_every_fifth_image_of_each_class_is_test(self, tmp_path):
        """Class counts of scikit-learn's digits are 178 182 177 183 181 182 181 179 174 180; a fifth, rounded
        down, is test."""
        pool, server = readers.read_digits(tmp_path)
        assert np.bincount(server.labels).tolist() == [35, 36, 35, 36, 36, 36, 36, 35, 34, 36]
        assert np.bincount(pool.labels).tolist() == [143, 146, 142, 147, 145, 146, 145, 144, 140, 144]
        assert pool.images.shape == (1442, 1, 8, 8)
        assert pool.images.dtype == np.uint8
        assert (pool.images.min(), pool.images.max()) == (0, 255)


class TestMnist:
    def test_images_and_labels(self, raw):
        pool, server = readers.read_mnist(raw)
        assert pool.images.shape == (3, 1, 2, 3)
        assert pool.images[2, 0].tolist() == [[12, 13, 14], [15, 16, 17]]
        assert pool.labels.tolist() == [2, 1, 0]
        assert pool.labels.dtype == np.int64
        assert server.images.ravel().tolist() == [100, 101, 102, 103, 104, 105]

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("train-images", idx(np.zeros((3, 2, 3)))[:-4], "is damaged .* 30 bytes instead of 34; delete"),
            ("t10k-labels", b"", "is damaged .* does not start like an idx file"),
            ("t10k-labels", b"<html>not found</html>", "is damaged .* does not start like an idx file"),
            ("train-labels", idx(np.zeros(2)), "is damaged .* 2 labels for 3 images"),
            ("train-labels", None, "cannot be read: No such file"),
        ],
        ids=["truncated", "empty", "a page", "too few labels", "missing"],
    )
    def test_damaged_file_is_named(self, raw, name, content, message):
        [path] = raw.glob(f"{name}-*")
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(DataError, match=f"{path.name} {message}"):
            readers.read_mnist(raw)


class TestEmnist:
    @pytest.mark.parametrize(("split", "first"), [("digits", 0), ("letters", 1)])
    def test_images_are_upright_and_classes_count_from_0(self, tmp_path, split, first):
        """Files have an image's columns one after the other; the first letter has the label 1."""
        upright = np.arange(12).reshape(2, 2, 3)
        for part in ("train", "test"):
            name = f"emnist-{split}-{part}"
            (tmp_path / f"{name}-images-idx3-ubyte").write_bytes(idx(upright.transpose(0, 2, 1)))
            (tmp_path / f"{name}-labels-idx1-ubyte").write_bytes(idx(np.array([first, first + 5])))
        for part in readers.read_emnist(split, tmp_path):
            assert part.images[:, 0].tolist() == upright.tolist()
            assert part.labels.tolist() == [0, 5]

    def test_entries_have_torchvisions_files_and_classes(self, monkeypatch, tmp_path):
        from torchvision.datasets import EMNIST

        monkeypatch.setattr(EMNIST, "_check_exists", lambda self: True)
        monkeypatch.setattr(EMNIST, "_load_data", lambda self: ((), ()))
        for split in EMNIST.splits:
            entry = DATASETS[f"emnist-{split}"]
            assert list(entry.class_names) == [
                name for name in EMNIST.classes_split_dict[split] if name != "N/A"
            ]
            parts = [EMNIST(tmp_path, split, train=is_train) for is_train in (True, False)]
            files = [file for part in parts for file in (part.images_file, part.labels_file)]
            assert [str(tmp_path / file) for file in entry.files] == files


def write_cifar(monkeypatch, kind, folder, parts, labels_key, names_key):
    """Write batches of one-colour images: all pixels of an image of label y are (y, 50 + y, 100 + y)."""

    def save(name, content):
        data = pickle.dumps(content)
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
        return [name, md5(data).hexdigest()]

    for attribute, batches in parts.items():
        held = []
        for name, labels in batches.items():
            images = [np.repeat(np.array([0, 50, 100], np.uint8) + label, 1024) for label in labels]
            held.append(save(name, {"data": np.stack(images), labels_key: labels}))
        monkeypatch.setattr(kind, attribute, held)
    name, checksum = save(kind.meta["filename"], {names_key: [str(label) for label in range(100)]})
    monkeypatch.setattr(kind, "meta", {"filename": name, "key": names_key, "md5": checksum})


class TestCifar:
    @pytest.fixture
    def ten(self, tmp_path, monkeypatch):
        """One image a batch, whose label is the batch's number; the test image has label 6."""
        from torchvision.datasets import CIFAR10

        training = {f"data_batch_{number}": [number] for number in range(1, 6)}
        parts = {"train_list": training, "test_list": {"test_batch": [6]}}
        write_cifar(monkeypatch, CIFAR10, tmp_path / "cifar-10-batches-py", parts, "labels", "label_names")
        return tmp_path

    @pytest.fixture
    def hundred(self, tmp_path, monkeypatch):
        """Two training images and a test image; the fine classes are 99, 7 and 3."""
        from torchvision.datasets import CIFAR100

        parts = {"train_list": {"train": [99, 7]}, "test_list": {"test": [3]}}
        folder = tmp_path / "cifar-100-python"
        write_cifar(monkeypatch, CIFAR100, folder, parts, "fine_labels", "fine_label_names")
        return tmp_path

    def test_images_and_labels_of_five_batches(self, ten):
        pool, server = readers.read_cifar("CIFAR10", ten)
        assert pool.images.shape == (5, 3, 32, 32)
        assert pool.images[4, :, 0, 0].tolist() == [5, 55, 105]
        assert pool.labels.tolist() == [1, 2, 3, 4, 5]
        assert server.images[0, :, 31, 31].tolist() == [6, 56, 106]

    def test_images_and_fine_classes(self, hundred):
        pool, server = readers.read_cifar("CIFAR100", hundred)
        assert pool.images.shape == (2, 3, 32, 32)
        assert pool.images[1, :, 31, 0].tolist() == [7, 57, 107]
        assert pool.labels.tolist() == [99, 7]
        assert (server.labels.tolist(), server.images[0, :, 0, 0].tolist()) == ([3], [3, 53, 103])

    def test_truncated_batch_is_reported_as_damaged(self, ten):
        os.truncate(ten / "cifar-10-batches-py" / "data_batch_3", 100)
        with pytest.raises(DataError, match="data_batch_3 is damaged or incomplete: its MD5 sum is not"):
            readers.read_cifar("CIFAR10", ten)

    def test_files_are_those_that_torchvision_reads(self):
        from torchvision.datasets import CIFAR100, SVHN

        listed = [*CIFAR100.train_list, *CIFAR100.test_list, [CIFAR100.meta["filename"]]]
        assert [name for name, *_ in listed] == list(readers.CIFAR100_FILES)
        assert [SVHN.split_list[part][1] for part in ("train", "test")] == list(readers.SVHN_FILES)


class TestSvhn:
    @pytest.fixture
    def folder(self, tmp_path, monkeypatch):
        """Matlab's order: rows, columns, channels, images; the digit 0 has the label 10."""
        from scipy.io import savemat
        from torchvision.datasets import SVHN

        split_list = {}
        for part, digits in (("train", [10, 1, 9]), ("test", [4, 10])):
            images = np.zeros((32, 32, 3, len(digits)), np.uint8)
            images[2, 5, 1] = digits
            file = tmp_path / f"{part}_32x32.mat"
            savemat(file, {"X": images, "y": np.array(digits, np.uint8)[:, None]})
            split_list[part] = ["", file.name, md5(file.read_bytes()).hexdigest()]
        monkeypatch.setattr(SVHN, "split_list", split_list)
        return tmp_path

    def test_images_and_digits(self, folder):
        pool, server = readers.read_svhn(folder)
        assert pool.images.shape == (3, 3, 32, 32)
        assert pool.images[:, 1, 2, 5].tolist() == [10, 1, 9]
        assert pool.images.sum() == 20
        assert (pool.labels.tolist(), pool.labels.dtype) == ([0, 1, 9], np.int64)
        assert server.labels.tolist() == [4, 0]

    def test_changed_file_is_reported_as_damaged_before_it_is_opened(self, folder):
        (folder / "test_32x32.mat").write_bytes(b"MATLAB 5.0")
        with pytest.raises(DataError, match="test_32x32.mat is damaged .* its MD5 sum is not"):
            readers.read_svhn(folder)
