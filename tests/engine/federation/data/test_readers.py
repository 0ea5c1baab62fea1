"""Reading the published data sets' files, and the one-line errors for damaged ones."""

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

        readers.download("Set", fetch, self.FILES, tmp_path / "new")
        assert sorted(path.name for path in (tmp_path / "new").rglob("*") if path.is_file()) == ["a", "b"]

    @pytest.mark.parametrize(
        "error",
        [
            urllib.error.URLError(OSError("no route to host")),
            RuntimeError("Error downloading a.gz:\nTried there, got:\nno route to host"),
            TimeoutError("no route to host"),
        ],
    )
    def test_failed_download_leaves_no_files(self, tmp_path, error):
        def fetch(folder):
            (folder / "SET" / "raw").mkdir(parents=True)
            (folder / "SET" / "raw" / "a").write_text("half")
            raise error

        with pytest.raises(DataError) as caught:
            readers.download("Set", fetch, self.FILES, tmp_path)
        message = str(caught.value)
        assert message.startswith(f"Set could not be downloaded into {tmp_path} (")
        assert "no route to host" in message
        assert message.endswith("put these files there: SET/raw/a, SET/raw/b")
        assert "\n" not in message
        assert list(tmp_path.iterdir()) == []

    def test_data_folder_that_cannot_be_created_is_named(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(DataError, match="Set could not be downloaded into .*file/data"):
            readers.download("Set", lambda folder: None, self.FILES, tmp_path / "file" / "data")

    @pytest.mark.parametrize(
        "fetch",
        [
            *(
                partial(readers.fetch_torchvision, name)
                for name in ("MNIST", "FashionMNIST", "CIFAR10", "CIFAR100")
            ),
            *(partial(readers.fetch_medmnist, "pathmnist", "_64"), readers.fetch_svhn),
        ],
    )
    def test_torchvision_errors_are_reported_in_one_line(self, tmp_path, monkeypatch, fetch):
        from torchvision.datasets import utils

        def no_network(*args, **kwargs):
            raise urllib.error.URLError("no route to host")

        monkeypatch.setattr(utils.urllib.request, "urlopen", no_network)
        with pytest.raises(DataError, match=r"Set could not be downloaded .*no route to host.*: x$"):
            readers.download("Set", fetch, ("x",), tmp_path)
        assert list(tmp_path.iterdir()) == []


def write_idx(path, array):
    header = struct.pack(f">BBBB{array.ndim}i", 0, 0, 8, array.ndim, *array.shape)
    path.write_bytes(header + array.astype(np.uint8).tobytes())


@pytest.fixture
def raw(tmp_path):
    """Three training images and one test image of 2x3 pixels, in MNIST's layout."""
    for name, count, first in (("train", 3, 0), ("t10k", 1, 100)):
        write_idx(
            tmp_path / f"{name}-images-idx3-ubyte", np.arange(first, first + 6 * count).reshape(count, 2, 3)
        )
        write_idx(tmp_path / f"{name}-labels-idx1-ubyte", np.arange(count)[::-1])
    return tmp_path


class TestDigits:
    def test_every_fifth_image_of_each_class_is_test(self, tmp_path):
        """Class counts of scikit-learn's digits are 178 182 177 183 181 182 181 179 174 180; a fifth, rounded
        down, is test."""
        pool, server = readers.digits(tmp_path)
        assert np.bincount(server.labels).tolist() == [35, 36, 35, 36, 36, 36, 36, 35, 34, 36]
        assert np.bincount(pool.labels).tolist() == [143, 146, 142, 147, 145, 146, 145, 144, 140, 144]
        assert pool.images.shape == (1442, 1, 8, 8)
        assert pool.images.dtype == np.uint8
        assert (pool.images.min(), pool.images.max()) == (0, 255)


class TestMnist:
    def test_images_and_labels(self, raw):
        pool, server = readers.mnist(raw)
        assert pool.images.shape == (3, 1, 2, 3)
        assert pool.images[2, 0].tolist() == [[12, 13, 14], [15, 16, 17]]
        assert pool.labels.tolist() == [2, 1, 0]
        assert pool.labels.dtype == np.int64
        assert server.images.ravel().tolist() == [100, 101, 102, 103, 104, 105]

    def test_truncated_file_is_reported_as_damaged(self, raw):
        file = raw / "train-images-idx3-ubyte"
        file.write_bytes(file.read_bytes()[:-4])
        with pytest.raises(
            DataError, match=r"train-images-idx3-ubyte is damaged .* 30 bytes instead of 34; delete"
        ):
            readers.mnist(raw)

    @pytest.mark.parametrize("content", [b"", b"<html>not found</html>"])
    def test_file_of_another_format_is_refused(self, raw, content):
        (raw / "t10k-labels-idx1-ubyte").write_bytes(content)
        with pytest.raises(
            DataError, match="t10k-labels-idx1-ubyte is damaged .* does not start like an idx file"
        ):
            readers.mnist(raw)

    def test_number_of_labels_must_be_that_of_images(self, raw):
        write_idx(raw / "train-labels-idx1-ubyte", np.zeros(2))
        with pytest.raises(DataError, match="train-labels-idx1-ubyte is damaged .* 2 labels for 3 images"):
            readers.mnist(raw)

    def test_missing_file_is_named(self, raw):
        (raw / "train-labels-idx1-ubyte").unlink()
        with pytest.raises(DataError, match="train-labels-idx1-ubyte cannot be read: No such file"):
            readers.mnist(raw)


class TestEmnist:
    @pytest.mark.parametrize(("split", "first"), [("digits", 0), ("letters", 1)])
    def test_images_are_upright_and_classes_count_from_0(self, tmp_path, split, first):
        """Files have an image's columns one after the other; the first letter has the label 1."""
        upright = np.arange(12).reshape(2, 2, 3)
        for part in ("train", "test"):
            name = f"emnist-{split}-{part}"
            write_idx(tmp_path / f"{name}-images-idx3-ubyte", upright.transpose(0, 2, 1))
            write_idx(tmp_path / f"{name}-labels-idx1-ubyte", np.array([first, first + 5]))
        for part in readers.emnist(split, tmp_path):
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


class TestCifar10:
    @pytest.fixture
    def batches(self, tmp_path, monkeypatch):
        """One image a batch: all pixels of image b are (b, 50 + b, 100 + b), its label is b."""
        from torchvision.datasets import CIFAR10

        def save(name, content):
            data = pickle.dumps(content)
            (tmp_path / "cifar-10-batches-py").mkdir(exist_ok=True)
            (tmp_path / "cifar-10-batches-py" / name).write_bytes(data)
            return [name, md5(data).hexdigest()]

        def batch(number):
            planes = [np.full(1024, plane + number, np.uint8) for plane in (0, 50, 100)]
            return {"data": np.concatenate(planes)[None], "labels": [number]}

        monkeypatch.setattr(CIFAR10, "train_list", [save(f"data_batch_{n}", batch(n)) for n in range(1, 6)])
        monkeypatch.setattr(CIFAR10, "test_list", [save("test_batch", batch(6))])
        name, checksum = save("batches.meta", {"label_names": list("abcdefghij")})
        monkeypatch.setattr(CIFAR10, "meta", {"filename": name, "key": "label_names", "md5": checksum})
        return tmp_path

    def test_images_and_labels(self, batches):
        pool, server = readers.cifar("CIFAR10", batches)
        assert pool.images.shape == (5, 3, 32, 32)
        assert pool.images[4, :, 0, 0].tolist() == [5, 55, 105]
        assert pool.labels.tolist() == [1, 2, 3, 4, 5]
        assert server.images[0, :, 31, 31].tolist() == [6, 56, 106]

    def test_truncated_batch_is_reported_as_damaged(self, batches):
        file = batches / "cifar-10-batches-py" / "data_batch_3"
        file.write_bytes(file.read_bytes()[:100])
        with pytest.raises(DataError, match="data_batch_3 is damaged or incomplete: its MD5 sum is not"):
            readers.cifar("CIFAR10", batches)


class TestCifar100:
    @pytest.fixture
    def batches(self, tmp_path, monkeypatch):
        """Two training images and a test image; the fine classes are 99, 7 and 3, the coarse ones 0."""
        from torchvision.datasets import CIFAR100

        def save(name, content):
            data = pickle.dumps(content)
            (tmp_path / "cifar-100-python").mkdir(exist_ok=True)
            (tmp_path / "cifar-100-python" / name).write_bytes(data)
            return [name, md5(data).hexdigest()]

        def batch(*fine):
            images = [np.repeat(np.array([0, 50, 100], np.uint8) + label, 1024) for label in fine]
            return {"data": np.stack(images), "fine_labels": list(fine), "coarse_labels": [0] * len(fine)}

        monkeypatch.setattr(CIFAR100, "train_list", [save("train", batch(99, 7))])
        monkeypatch.setattr(CIFAR100, "test_list", [save("test", batch(3))])
        names = {"fine_label_names": [str(label) for label in range(100)], "coarse_label_names": ["0"]}
        name, checksum = save("meta", names)
        monkeypatch.setattr(CIFAR100, "meta", {"filename": name, "key": "fine_label_names", "md5": checksum})
        return tmp_path

    def test_images_and_fine_classes(self, batches):
        pool, server = readers.cifar("CIFAR100", batches)
        assert pool.images.shape == (2, 3, 32, 32)
        assert pool.images[1, :, 31, 0].tolist() == [7, 57, 107]
        assert pool.labels.tolist() == [99, 7]
        assert (server.labels.tolist(), server.images[0, :, 0, 0].tolist()) == ([3], [3, 53, 103])

    def test_changed_file_is_reported_as_damaged(self, batches):
        file = batches / "cifar-100-python" / "train"
        file.write_bytes(file.read_bytes()[::-1])
        with pytest.raises(DataError, match="cifar-100-python/train is damaged .* its MD5 sum is not"):
            readers.cifar("CIFAR100", batches)

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
        pool, server = readers.svhn(folder)
        assert pool.images.shape == (3, 3, 32, 32)
        assert pool.images[:, 1, 2, 5].tolist() == [10, 1, 9]
        assert pool.images.sum() == 20
        assert (pool.labels.tolist(), pool.labels.dtype) == ([0, 1, 9], np.int64)
        assert server.labels.tolist() == [4, 0]

    def test_changed_file_is_reported_as_damaged_before_it_is_opened(self, folder):
        (folder / "test_32x32.mat").write_bytes(b"MATLAB 5.0")
        with pytest.raises(DataError, match="test_32x32.mat is damaged .* its MD5 sum is not"):
            readers.svhn(folder)
