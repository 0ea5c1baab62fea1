"""Reading images: what comes out, and the one line that says what is wrong."""

import io
import pickle
import struct
import urllib.error
from hashlib import md5

import numpy as np
import pytest
from PIL import Image

from fedgrid.engine.data import downloads, image_folders, npz_files, readers
from fedgrid.engine.errors import DataError


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


@pytest.fixture
def save_npz(tmp_path):
    def save(**changes):
        """Two 2x2 colour training images, one val and one test image; a change of None leaves a key out."""
        arrays = {
            "train_images": np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3),
            "train_labels": np.array([[0], [1]], np.uint8),
            "val_images": np.full((1, 2, 2, 3), 7, np.uint8),
            "val_labels": np.array([[1]], np.uint8),
            "test_images": np.zeros((1, 2, 2, 3), np.uint8),
            "test_labels": np.array([[0]], np.uint8),
            **changes,
        }
        path = tmp_path / "own.npz"
        np.savez_compressed(path, **{key: array for key, array in arrays.items() if array is not None})
        return path

    return save


@pytest.fixture
def folder(tmp_path):
    """Classes ape and bee with two training images and a test image each, 3 wide and 2 high, grey."""
    for part, count in (("train", 2), ("test", 1)):
        for label, name in enumerate(("ape", "bee")):
            (tmp_path / part / name).mkdir(parents=True)
            for number in range(count):
                pixels = np.full((2, 3), 10 * label + number, np.uint8)
                Image.fromarray(pixels).save(tmp_path / part / name / f"{number}.png")
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
            DataError, match="t10k-labels-idx1-ubyte is damaged .* does not begin like an idx file"
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
        pool, server = readers.cifar10(batches)
        assert pool.images.shape == (5, 3, 32, 32)
        assert pool.images[4, :, 0, 0].tolist() == [5, 55, 105]
        assert pool.labels.tolist() == [1, 2, 3, 4, 5]
        assert server.images[0, :, 31, 31].tolist() == [6, 56, 106]

    def test_truncated_batch_is_reported_as_damaged(self, batches):
        file = batches / "cifar-10-batches-py" / "data_batch_3"
        file.write_bytes(file.read_bytes()[:100])
        with pytest.raises(DataError, match="data_batch_3 is damaged or incomplete: its MD5 sum is not"):
            readers.cifar10(batches)


class TestNpz:
    def test_the_pool_is_train_and_val(self, save_npz):
        pool, server = npz_files.read(save_npz())
        assert pool.images.shape == (3, 3, 2, 2)
        assert pool.images[0, 0].tolist() == [[0, 3], [6, 9]], "channel 0 of the first image"
        assert pool.images[2].tolist() == np.full((3, 2, 2), 7).tolist()
        assert pool.labels.tolist() == [0, 1, 1]
        assert server.labels.tolist() == [0]

    def test_val_is_optional_and_labels_may_be_flat(self, save_npz):
        pool, _ = npz_files.read(save_npz(val_images=None, val_labels=None, train_labels=np.array([1, 0])))
        assert pool.labels.tolist() == [1, 0]

    def test_grey_images_have_one_channel(self, save_npz):
        grey = {
            f"{part}_images": np.zeros((n, 4, 5), np.uint8)
            for part, n in (("train", 2), ("val", 1), ("test", 1))
        }
        path = save_npz(**grey)
        assert npz_files.read(path)[0].images.shape == (3, 1, 4, 5)
        assert npz_files.facts(path) == (2, (1, 4, 5), 3)

    def test_facts_are_classes_shape_and_pool_size(self, save_npz):
        assert npz_files.facts(save_npz()) == (2, (3, 2, 2), 3)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"test_labels": None}, "has no 'test_labels'; expected train_images, train_labels"),
            ({"val_labels": None}, "has no 'val_labels'"),
            ({"train_images": np.zeros((2, 2, 2, 3))}, "train_images is float64; save images as uint8"),
            (
                {"train_images": np.zeros((2, 2, 2, 2, 3), np.uint8)},
                r"of shape \(2, 2, 2, 2, 3\) are not images",
            ),
            (
                {"val_images": np.zeros((1, 5, 2, 3), np.uint8)},
                r"different sizes: \(3, 2, 2\) and \(3, 5, 2\)",
            ),
            ({"train_labels": np.array([0.0, 1.0])}, "train_labels is float64 .* expected one whole number"),
            ({"train_labels": np.zeros((2, 3), int)}, r"train_labels is int64 of shape \(2, 3\)"),
            ({"train_labels": np.array([0])}, "1 labels for 2 images"),
            ({"train_labels": np.array([0, {}], object)}, "cannot be read as an npz file of plain arrays"),
        ],
    )
    def test_unsuitable_arrays_are_refused(self, save_npz, changes, message):
        with pytest.raises(DataError, match=message):
            npz_files.read(save_npz(**changes))

    @pytest.mark.parametrize("label", [-1, 1_000_000_000])
    def test_labels_out_of_range_are_refused(self, save_npz, label):
        with pytest.raises(DataError, match=f"label {label} found; number the classes 0, 1, 2"):
            npz_files.facts(save_npz(train_labels=np.array([0, label])))

    @pytest.mark.parametrize("look", [npz_files.read, npz_files.facts])
    def test_truncated_file_is_reported_as_damaged(self, save_npz, look):
        path = save_npz()
        path.write_bytes(path.read_bytes()[:-50])
        with pytest.raises(DataError, match=r"own\.npz is damaged or incomplete"):
            look(path)

    @pytest.mark.parametrize("look", [npz_files.read, npz_files.facts])
    def test_flipped_bytes_are_reported_as_damaged(self, save_npz, look):
        path = save_npz()
        data = bytearray(path.read_bytes())
        for position in range(data.index(b"train_labels.npy") + 40, len(data) // 2):
            data[position] ^= 0xFF
        path.write_bytes(data)
        with pytest.raises(DataError, match=r"own\.npz is damaged or incomplete"):
            look(path)

    @pytest.mark.parametrize("content", [b"", b"hello", b"\x93NUMPY"])
    def test_file_of_another_format_is_reported_as_damaged(self, tmp_path, content):
        (tmp_path / "x.npz").write_bytes(content)
        with pytest.raises(DataError, match=r"x\.npz is damaged or incomplete"):
            npz_files.read(tmp_path / "x.npz")

    def test_npy_file_is_reported_as_damaged(self, tmp_path):
        buffer = io.BytesIO()
        np.save(buffer, np.zeros(3))
        (tmp_path / "x.npz").write_bytes(buffer.getvalue())
        with pytest.raises(DataError, match=r"x\.npz is damaged or incomplete"):
            npz_files.read(tmp_path / "x.npz")

    def test_missing_file_is_named(self, tmp_path):
        with pytest.raises(DataError, match=r"x\.npz is missing"):
            npz_files.read(tmp_path / "x.npz")


class TestImageFolder:
    def test_classes_are_numbered_by_name(self, folder):
        pool, server = image_folders.read(folder)
        assert pool.labels.tolist() == [0, 0, 1, 1]
        assert pool.labels.dtype == np.int64
        assert pool.images.shape == (4, 1, 2, 3)
        assert pool.images[:, 0, 0, 0].tolist() == [0, 1, 10, 11]
        assert server.images[:, 0, 0, 0].tolist() == [0, 10]

    def test_facts_are_classes_shape_and_pool_size(self, folder):
        assert image_folders.facts(folder) == (2, (1, 2, 3), 4)

    def test_grey_images_among_colour_images_get_three_channels(self, folder):
        pixels = np.broadcast_to(np.array([200, 100, 50], np.uint8), (2, 3, 3))
        Image.fromarray(pixels.copy()).save(folder / "train" / "ape" / "0.png")
        pool, _ = image_folders.read(folder)
        assert pool.images.shape == (4, 3, 2, 3)
        assert pool.images[:2, :, 0, 0].tolist() == [[200, 100, 50], [1, 1, 1]]

    def test_hidden_files_are_no_images(self, folder):
        (folder / "train" / "ape" / ".DS_Store").write_bytes(b"x")
        (folder / "train" / ".cache").mkdir()
        assert image_folders.facts(folder) == (2, (1, 2, 3), 4)

    def test_colour_image_among_grey_ones_is_refused(self, folder):
        Image.new("RGB", (3, 2)).save(folder / "train" / "bee" / "1.png")
        with pytest.raises(
            DataError, match=r"bee/1\.png is colour 3x2, the first image is grey 3x2; make all"
        ):
            image_folders.read(folder)

    def test_images_of_different_sizes_are_refused(self, folder):
        Image.new("L", (4, 2)).save(folder / "test" / "bee" / "0.png")
        with pytest.raises(DataError, match=r"bee/0\.png is grey 4x2, the first image is grey 3x2"):
            image_folders.read(folder)

    def test_sixteen_bits_per_pixel_are_refused(self, folder):
        Image.fromarray(np.zeros((2, 3), np.uint16)).save(folder / "train" / "ape" / "0.png")
        with pytest.raises(DataError, match="pixels of mode I;16; save it with 8 bits"):
            image_folders.facts(folder)

    def test_truncated_image_is_reported_as_damaged(self, folder):
        file = folder / "train" / "bee" / "0.png"
        file.write_bytes(file.read_bytes()[:45])
        with pytest.raises(DataError, match=r"bee/0\.png is damaged or incomplete"):
            image_folders.read(folder)

    def test_file_that_is_no_image_is_named(self, folder):
        (folder / "train" / "bee" / "notes.txt").write_text("hello")
        with pytest.raises(DataError, match=r"notes\.txt is not an image that PIL reads"):
            image_folders.read(folder)

    def test_empty_class_is_named(self, folder):
        (folder / "train" / "cat").mkdir()
        with pytest.raises(DataError, match="class 'cat' has no images in .*train/cat"):
            image_folders.facts(folder)

    def test_class_without_test_images_is_named(self, folder):
        (folder / "test" / "bee" / "0.png").unlink()
        with pytest.raises(DataError, match="class 'bee' has no images in .*test/bee"):
            image_folders.facts(folder)

    def test_class_without_training_folder_is_named(self, folder):
        (folder / "test" / "dog").mkdir()
        with pytest.raises(DataError, match="test/dog is a class without a folder in .*train"):
            image_folders.facts(folder)

    def test_missing_train_folder_is_named(self, tmp_path):
        with pytest.raises(DataError, match="train is missing; an image folder has train/<class>"):
            image_folders.facts(tmp_path)

    def test_train_folder_without_classes_is_refused(self, tmp_path):
        (tmp_path / "train").mkdir()
        (tmp_path / "test").mkdir()
        with pytest.raises(DataError, match="train has no class folders"):
            image_folders.facts(tmp_path)


class TestDownload:
    FILES = ("SET/raw/a", "SET/raw/b")

    def test_downloaded_files_arrive_together(self, tmp_path):
        def fetch(folder):
            (folder / "SET" / "raw").mkdir(parents=True)
            for name in (*self.FILES, "SET/raw/a.gz"):
                (folder / name).write_text(name)

        downloads.download("Set", fetch, self.FILES, tmp_path / "new")
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
            downloads.download("Set", fetch, self.FILES, tmp_path)
        message = str(caught.value)
        assert message.startswith(f"Set could not be downloaded into {tmp_path} (")
        assert "no route to host" in message
        assert message.endswith("put there yourself: SET/raw/a, SET/raw/b")
        assert "\n" not in message
        assert list(tmp_path.iterdir()) == []

    def test_data_folder_that_cannot_be_created_is_named(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(DataError, match="Set could not be downloaded into .*file/data"):
            downloads.download("Set", lambda folder: None, self.FILES, tmp_path / "file" / "data")

    @pytest.mark.parametrize(
        "fetch", [downloads.mnist, downloads.fmnist, downloads.cifar10, downloads.pathmnist]
    )
    def test_torchvision_errors_are_reported_in_one_line(self, tmp_path, monkeypatch, fetch):
        from torchvision.datasets import utils

        def no_network(*args, **kwargs):
            raise urllib.error.URLError("no route to host")

        monkeypatch.setattr(utils.urllib.request, "urlopen", no_network)
        with pytest.raises(DataError, match=r"Set could not be downloaded .*no route to host.*: x$"):
            downloads.download("Set", fetch, ("x",), tmp_path)
        assert list(tmp_path.iterdir()) == []
