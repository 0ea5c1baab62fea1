"""Reading image folders, and the one-line errors for unsuitable ones."""

import os
import shutil
from unicodedata import normalize

import numpy as np
import pytest
from PIL import Image

from fedgrid.engine.federation.data import image_folders, names
from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.federation.inputs import pixels
from fedgrid.engine.runtime.data import datasets, own_images


def facts(folder, size=None, share=None):
    """Return classes, what an image is, size of the pool, groups."""
    known, _ = image_folders.open_folder(folder, size, share)
    return known.num_classes, known.inputs, known.pool_size, known.num_groups


def read_images(folder, size=None):
    return image_folders.open_folder(folder, size)[1]()


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


class TestImageFolder:
    def test_classes_are_numbered_by_name(self, folder):
        pool, server = read_images(folder)
        assert pool.labels.tolist() == [0, 0, 1, 1]
        assert pool.labels.dtype == np.int64
        assert pool.images.shape == (4, 1, 2, 3)
        assert pool.images[:, 0, 0, 0].tolist() == [0, 1, 10, 11]
        assert server.images[:, 0, 0, 0].tolist() == [0, 10]

    def test_facts_are_classes_shape_and_pool_size(self, folder):
        assert facts(folder) == (2, pixels(1, 2, 3), 4, None)

    def test_grey_images_among_colour_images_get_three_channels(self, folder):
        pixels = np.broadcast_to(np.array([200, 100, 50], np.uint8), (2, 3, 3))
        Image.fromarray(pixels.copy()).save(folder / "train" / "ape" / "0.png")
        pool, _ = read_images(folder)
        assert pool.images.shape == (4, 3, 2, 3)
        assert pool.images[:2, :, 0, 0].tolist() == [[200, 100, 50], [1, 1, 1]]

    def test_hidden_files_are_no_images(self, folder):
        (folder / "train" / "ape" / ".DS_Store").write_bytes(b"x")
        (folder / "train" / ".cache").mkdir()
        assert facts(folder) == (2, pixels(1, 2, 3), 4, None)

    def test_files_that_systems_leave_are_no_images(self, folder):
        (folder / "train" / "ape" / "Thumbs.db").write_bytes(b"x")
        (folder / "test" / "bee" / "desktop.ini").write_bytes(b"x")
        (folder / "train" / "__MACOSX").mkdir()
        assert facts(folder) == (2, pixels(1, 2, 3), 4, None)
        assert len(read_images(folder)[0].images) == 4

    def test_grey_images_among_colour_ones_are_counted_and_one_named(self, folder):
        assert image_folders.notes(folder) == []
        Image.new("RGB", (3, 2)).save(folder / "train" / "ape" / "0.png")
        [note] = image_folders.notes(folder)
        assert note.startswith(f"5 of 6 images in {folder} are grey, as {folder / 'train' / 'ape' / '1.png'}")

    def test_animations_are_named(self, folder):
        frames = [Image.new("L", (3, 2), number) for number in range(2)]
        frames[0].save(folder / "test" / "bee" / "0.png", save_all=True, append_images=frames[1:])
        [note] = image_folders.notes(folder)
        assert note.startswith(f"1 of 6 images in {folder} have several frames, as {folder}/test/bee/0.png: ")

    def test_images_of_val_join_those_of_train(self, folder):
        (folder / "val" / "bee").mkdir(parents=True)
        Image.new("L", (3, 2), 99).save(folder / "val" / "bee" / "0.png")
        assert facts(folder) == (2, pixels(1, 2, 3), 5, None)
        assert read_images(folder)[0].images[:, 0, 0, 0].tolist() == [0, 1, 10, 11, 99]
        assert folder / "val" / "bee" / "0.png" in image_folders.files(folder)
        (folder / "val" / "cow").mkdir()
        with pytest.raises(DataError, match="val/cow is a class without a folder in .*train"):
            facts(folder)

    @pytest.mark.parametrize("mode", ["LA", "RGBA", "P", "L", "RGB"])
    def test_ink_in_the_alpha_channel_is_seen_on_white(self, folder, mode):
        """Black everywhere; of three columns the first is opaque, the second half, the third transparent."""
        path = folder / "train" / "ape" / "0.png"
        if mode in ("LA", "RGBA"):
            image = Image.new(mode, (3, 2))
            image.putalpha(Image.fromarray(np.array([[255, 127, 0]] * 2, np.uint8)))
            image.save(path)
        else:
            image = Image.fromarray(np.array([[0, 1, 2]] * 2, np.uint8)).convert(mode)
            image.save(path, transparency=2 if mode != "RGB" else (2, 2, 2))
        for part in ("train", "test"):
            for place in (folder / part).glob("*/*.png"):
                if place != path:
                    Image.new("L" if mode in ("L", "LA") else "RGB", (3, 2)).save(place)
        row = read_images(folder)[0].images[0, 0, 0].tolist()
        assert row == ([0, 128, 255] if mode in ("LA", "RGBA") else [0, 1, 255])

    def test_image_is_turned_as_its_orientation_says(self, folder):
        """Orientation 6: turned by 90 degrees to the right to be looked at."""
        upright = np.array([[10, 20, 30], [40, 50, 60]], np.uint8)
        image = Image.fromarray(np.rot90(upright).copy())
        exif = image.getexif()
        exif[0x0112] = 6
        image.save(folder / "train" / "ape" / "0.png", exif=exif)
        assert read_images(folder)[0].images[0, 0].tolist() == upright.tolist()

    @pytest.mark.parametrize("place", ["train/ape", "train"])
    def test_name_that_is_not_utf_8_is_refused(self, folder, place):
        (folder / place / os.fsdecode(b"\xe9")).mkdir()
        with pytest.raises(DataError, match="train.*the name is not UTF-8; rename it"):
            facts(folder)

    def test_one_class_is_refused(self, folder):
        for part in ("train", "test"):
            shutil.rmtree(folder / part / "bee")
        with pytest.raises(DataError, match="train has one class, ape; an image folder has train/<class>"):
            facts(folder)

    def test_layout_of_tiny_imagenet_is_refused_and_named(self, tmp_path):
        """Read as groups, its 200 classes would be groups of one class."""
        for part in ("train", "test"):
            for name in ("n01443537", "n01629819"):
                (tmp_path / part / name / "images").mkdir(parents=True)
                Image.new("L", (3, 2)).save(tmp_path / part / name / "images" / "0.png")
        with pytest.raises(DataError, match="one class, images; if the folders above images are the classes"):
            facts(tmp_path)

    def test_classes_are_named_by_their_folders(self, folder):
        assert image_folders.open_folder(folder)[0].class_names == ("ape", "bee")

    def test_colour_image_among_grey_ones_is_refused(self, folder):
        Image.new("RGB", (3, 2)).save(folder / "train" / "bee" / "1.png")
        with pytest.raises(
            DataError, match=r"bee/1\.png is colour 3x2, the first image is grey 3x2; make all"
        ):
            read_images(folder)

    def test_images_of_different_sizes_are_refused(self, folder):
        Image.new("L", (4, 2)).save(folder / "test" / "bee" / "0.png")
        with pytest.raises(DataError, match=r"bee/0\.png is grey 4x2, the first image is grey 3x2"):
            read_images(folder)

    def test_images_of_different_sizes_are_scaled_to_the_size_behind_the_path(self, folder):
        """Plain images stay plain; of a row 0 0 90 90 half the size is 0 90, each the mean of two."""
        wide = np.array([[0, 0, 90, 90]] * 2, np.uint8)
        Image.fromarray(wide).save(folder / "test" / "bee" / "0.png")
        pool, server = read_images(folder, (2, 1))
        assert pool.images.shape == (4, 1, 1, 2)
        assert pool.images[:, 0, 0, 0].tolist() == [0, 1, 10, 11]
        assert server.images[1].ravel().tolist() == pytest.approx([0, 90], abs=13)
        assert facts(folder, (2, 1)) == (2, pixels(1, 1, 2), 4, None)

    def test_scaled_folder_is_a_data_set_of_its_own(self, folder):
        digest = own_images.digest_of(folder, image_folders.files(folder))
        small = datasets.find(f"folder:{folder}#2x1", folder)
        assert (small.name, small.inputs.shape) == (f"folder:{folder.name}#2x1@{digest}", (1, 1, 2))
        square = datasets.find(f"folder:{folder}#5", folder)
        assert (square.name, square.inputs.shape) == (f"folder:{folder.name}#5x5@{digest}", (1, 5, 5))
        pool, _ = datasets.load(square.name, folder)
        assert pool.images.shape == (4, 1, 5, 5)
        assert names.short_name(square.name) == f"folder_{folder.name}-5x5"

    @pytest.mark.parametrize("size", ["#0", "#5000", "#64x0"])
    def test_size_that_no_image_has_is_refused(self, folder, size):
        with pytest.raises(ConfigError, match=f"{size}: expected #SIDE or #WIDTHxHEIGHT"):
            datasets.find(f"folder:{folder}{size}", folder)

    def test_sixteen_bits_per_pixel_are_refused(self, folder):
        Image.fromarray(np.zeros((2, 3), np.uint16)).save(folder / "train" / "ape" / "0.png")
        with pytest.raises(DataError, match="pixels of mode I;16; save it with 8 bits"):
            facts(folder)

    def test_truncated_image_is_reported_as_damaged(self, folder):
        file = folder / "train" / "bee" / "0.png"
        file.write_bytes(file.read_bytes()[:45])
        with pytest.raises(DataError, match=r"bee/0\.png is damaged or incomplete"):
            read_images(folder)

    def test_file_that_is_no_image_is_named(self, folder):
        (folder / "train" / "bee" / "notes.txt").write_text("hello")
        with pytest.raises(DataError, match=r"notes\.txt is not an image of a known format"):
            read_images(folder)

    def test_empty_class_is_named(self, folder):
        (folder / "train" / "cat").mkdir()
        with pytest.raises(DataError, match="class 'cat' has no images in .*train/cat"):
            facts(folder)

    def test_class_without_test_images_is_named(self, folder):
        (folder / "test" / "bee" / "0.png").unlink()
        with pytest.raises(DataError, match="class 'bee' has no images in .*test/bee"):
            facts(folder)

    def test_class_without_training_folder_is_named(self, folder):
        (folder / "test" / "dog").mkdir()
        with pytest.raises(DataError, match="test/dog is a class without a folder in .*train"):
            facts(folder)

    def test_missing_train_folder_is_named(self, tmp_path):
        with pytest.raises(DataError, match="train is missing; an image folder has train/<class>"):
            facts(tmp_path)

    def test_train_folder_without_classes_is_refused(self, tmp_path):
        (tmp_path / "train").mkdir()
        (tmp_path / "test").mkdir()
        with pytest.raises(DataError, match="train has no class folders"):
            facts(tmp_path)


@pytest.fixture
def grouped(tmp_path):
    """Domains art and photo; art lacks the class bee in training and in test."""
    held = {"train": {"art/ape": 2, "photo/ape": 1, "photo/bee": 2}, "test": {"art/ape": 1, "photo/bee": 1}}
    for part, classes in held.items():
        for place, count in classes.items():
            (tmp_path / part / place).mkdir(parents=True)
            for number in range(count):
                pixels = np.full((2, 2), 10 * len(place) + number, np.uint8)
                Image.fromarray(pixels).save(tmp_path / part / place / f"{number}.png")
    return tmp_path


class TestGroups:
    def test_a_level_of_folders_more_is_the_group(self, grouped):
        pool, server = read_images(grouped)
        assert pool.labels.tolist() == [0, 0, 0, 1, 1]
        assert pool.groups.tolist() == [0, 0, 1, 1, 1]
        assert pool.images[:, 0, 0, 0].tolist() == [70, 71, 90, 90, 91]
        assert (server.labels.tolist(), server.groups.tolist()) == ([0, 1], [0, 1])
        assert pool.group_names == ("art", "photo")
        assert facts(grouped) == (2, pixels(1, 2, 2), 5, 2)

    def test_group_without_training_images_is_named(self, grouped):
        (grouped / "test" / "sketch" / "ape").mkdir(parents=True)
        with pytest.raises(DataError, match="test/sketch is a group without a folder in .*train"):
            facts(grouped)

    def test_image_beside_the_classes_is_named(self, grouped):
        (grouped / "test" / "art" / "0.png").write_bytes(b"")
        with pytest.raises(DataError, match="art/0.png lies in a group, but in no class"):
            facts(grouped)

    def test_class_that_no_group_has_for_tests_is_named(self, grouped):
        (grouped / "test" / "photo" / "bee" / "0.png").unlink()
        with pytest.raises(DataError, match="class 'bee' has no images in .*test/photo/bee"):
            facts(grouped)


def test_two_spellings_of_a_class_are_one(folder):
    """Composed in the training folder, and decomposed beside it and in the test folder."""
    composed, decomposed = (normalize(form, "é") for form in ("NFC", "NFD"))
    (folder / "train" / "bee").rename(folder / "train" / composed)
    (folder / "test" / "bee").rename(folder / "test" / decomposed)
    shutil.copytree(folder / "test" / decomposed, folder / "train" / decomposed)
    pool, server = read_images(folder)
    assert image_folders.open_folder(folder)[0].class_names == ("ape", composed)
    assert (pool.labels.tolist(), server.labels.tolist()) == ([0, 0, 1, 1, 1], [0, 1])


def test_what_is_not_read_in_a_folder_is_named(folder):
    for name in ("valid", "val"):
        shutil.copytree(folder / "test", folder / name)
    assert image_folders.notes(folder) == [
        f"not read in {folder}: valid",
        f"the 2 images in {folder / 'val'} join those of train",
    ]
    flat = folder / "train"
    (flat / "ape" / "old").mkdir()
    (flat / "x.png").write_bytes(b"")
    assert image_folders.notes(flat) == [f"not read in {flat}: x.png, ape/old"]


@pytest.mark.parametrize("train", ["Train", "training"])
def test_folders_of_parts_are_no_classes(folder, train):
    (folder / "train").rename(folder / train)
    with pytest.raises(DataError, match="has a folder (test|Train) and none called train"):
        facts(folder, share=0.2)


def test_a_stray_folder_in_a_class_is_named(folder):
    (folder / "train" / "ape" / "old").mkdir()
    with pytest.raises(DataError, match="lies in a group, but in no class: .*ape/old makes groups"):
        facts(folder)
