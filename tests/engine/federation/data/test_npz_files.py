"""Reading npz files with MedMNIST's keys, and the one-line errors for unsuitable ones.

More of them: tests/helpers/bad_inputs.py.
"""

import numpy as np
import pytest

from fedgrid.engine.federation.data import files, npz_files
from fedgrid.engine.federation.errors import DataError
from fedgrid.engine.federation.inputs import image_inputs

PARTS = ("train", "val", "test")


def facts(path):
    """Return classes, what an image is, size of the pool, groups."""
    known, _ = npz_files.open_npz(path)
    return known.num_classes, known.inputs, known.pool_size, known.num_groups


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


class TestNpz:
    def test_the_pool_is_train_and_val(self, save_npz):
        pool, server = npz_files.read_images(save_npz())
        assert pool.images.shape == (3, 3, 2, 2)
        assert pool.images[0, 0].tolist() == [[0, 3], [6, 9]], "channel 0 of the first image"
        assert pool.images[2].tolist() == np.full((3, 2, 2), 7).tolist()
        assert pool.labels.tolist() == [0, 1, 1]
        assert server.labels.tolist() == [0]
        assert facts(save_npz()) == (2, image_inputs(3, 2, 2), 3, None)

    def test_val_is_optional_and_labels_may_be_flat(self, save_npz):
        pool, _ = npz_files.read_images(
            save_npz(val_images=None, val_labels=None, train_labels=np.array([1, 0]))
        )
        assert pool.labels.tolist() == [1, 0]

    def test_grey_images_have_one_channel(self, save_npz):
        grey = {
            f"{part}_images": np.zeros((n, 4, 5), np.uint8)
            for part, n in (("train", 2), ("val", 1), ("test", 1))
        }
        path = save_npz(**grey)
        assert npz_files.read_images(path)[0].images.shape == (3, 1, 4, 5)
        assert facts(path) == (2, image_inputs(1, 4, 5), 3, None)

    def test_many_images_are_read_when_they_are_used(self, tmp_path, monkeypatch):
        """Those of one channel, in the order of the file; memory that is given back has the same bytes."""
        grey = np.arange(60, dtype=np.uint8).reshape(5, 3, 4)
        path = tmp_path / "own.npz"
        labels = {"train_labels": np.arange(5) % 2, "test_labels": np.arange(4) % 2}
        np.savez(path, train_images=grey, test_images=np.asfortranarray(grey[1:]), **labels)
        monkeypatch.setattr(npz_files, "LARGE", 1)
        pool, server = npz_files.read_images(path)
        assert isinstance(pool.images.base, np.memmap)
        for _ in range(2):
            assert pool.images[:, 0].tolist() == grey.tolist()
            files.release_memory(pool.images)
        assert server.images[:, 0].tolist() == grey[1:].tolist()
        content = bytearray(path.read_bytes())
        content[content.find(grey.tobytes())] ^= 1
        path.write_bytes(content)
        with pytest.raises(DataError, match="own.npz is damaged"):
            npz_files.read_images(path)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"val_labels": None}, "has no 'val_labels'"),
            ({"train_images": np.zeros((2, 2, 2, 3))}, "numbers of 2x2x3 and images of 3x2x2 pixels"),
            (
                {"train_images": np.zeros((2, 2, 2, 2, 3), np.uint8)},
                r"of shape \(2, 2, 2, 2, 3\) are not images",
            ),
            (
                {"val_images": np.zeros((1, 5, 2, 3), np.uint8)},
                r"different sizes: .*3x2x2.* and .*3x5x2",
            ),
            ({"train_labels": np.array([0.0, 1.0])}, "train_labels is float64 .* expected one whole number"),
            ({"train_labels": np.zeros((2, 3), int)}, r"train_labels is int64 of shape \(2, 3\)"),
            ({"train_labels": np.array([0])}, "1 labels for 2 images"),
            ({"train_labels": np.array([0, {}], object)}, r"train_labels has Python objects.*\.tolist"),
        ],
    )
    def test_unsuitable_arrays_are_refused(self, save_npz, changes, message):
        with pytest.raises(DataError, match=message):
            npz_files.read_images(save_npz(**changes))

    @pytest.mark.parametrize(
        ("train", "val", "test"),
        [([7, 30], [7], [30]), (["f0_1", "f2_9"], ["f0_1"], ["f2_9"])],
    )
    def test_groups_are_numbered_in_the_order_of_their_numbers_or_names(self, save_npz, train, val, test):
        groups = {
            f"{part}_group": np.array(group) for part, group in zip(PARTS, (train, val, test), strict=True)
        }
        path = save_npz(**groups)
        pool, server = npz_files.read_images(path)
        assert pool.groups.tolist() == [0, 1, 0]
        assert server.groups.tolist() == [1]
        assert pool.group_names == server.group_names == tuple(map(str, train))
        assert facts(path) == (2, image_inputs(3, 2, 2), 3, 2)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"test_group": None}, "has no 'test_group'; give each image a group: train_group, val_group"),
            (
                {"train_group": np.array([0])},
                r"train_group is int64 of shape \(1,\); expected a whole number",
            ),
            ({"train_group": np.array([0.5, 1])}, "train_group is float64"),
            ({"test_group": np.array([5])}, "group '5' of test_group has no training images"),
        ],
    )
    def test_unsuitable_groups_are_refused(self, save_npz, changes, message):
        groups = {"train_group": np.array([0, 1]), "val_group": np.array([1]), "test_group": np.array([0])}
        with pytest.raises(DataError, match=message):
            facts(save_npz(**(groups | changes)))

    def test_flipped_bytes_are_reported_as_damaged(self, save_npz):
        path = save_npz()
        data = bytearray(path.read_bytes())
        for position in range(data.index(b"train_labels.npy") + 40, len(data) // 2):
            data[position] ^= 0xFF
        path.write_bytes(data)
        with pytest.raises(DataError, match=r"own\.npz is damaged or incomplete"):
            facts(path)

    def test_missing_file_is_named(self, tmp_path):
        with pytest.raises(DataError, match=r"x\.npz is missing"):
            npz_files.read_images(tmp_path / "x.npz")
