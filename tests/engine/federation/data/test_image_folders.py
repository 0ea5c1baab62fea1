"""Reading image folders, and the one-line errors for unsuitable ones."""

import os
import shutil
from unicodedata import normalize

import numpy as np
import pytest
from PIL import Image

from fedgrid.engine.federation.data import image_folders, names
from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.runtime.data import datasets, own_images


def facts(folder, size=None, share=None):
    """Return classes, what an image is, size of the pool, groups."""
    known, _ = image_folders.open_folder(folder, size, share)
    return known.num_classes, known.inputs, known.pool_size, known.num_groups


def read_images(folder, size=None):
    return image_folders.open_folder(folder, size)[1]()


def save(path, values):
    """Save an image of these values, in a folder that may be missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(values)).save(path)


def grey(value, width=3, height=2):
    return np.full((height, width), value, np.uint8)


COLOUR = np.broadcast_to(np.array([200, 100, 50], np.uint8), (2, 3, 3)).copy()


@pytest.fixture
def folder(tmp_path):
    """Classes ape and bee with two training images and a test image each, 3 wide and 2 high, grey."""
    for part, count in (("train", 2), ("test", 1)):
        for label, name in enumerate(("ape", "bee")):
            for number in range(count):
                save(tmp_path / part / name / f"{number}.png", grey(10 * label + number))
    return tmp_path


class TestImageFolder:
    def test_classes_are_numbered_by_the_names_of_their_folders(self, folder):
        pool, server = read_images(folder)
        assert pool.labels.tolist() == [0, 0, 1, 1]
        assert pool.labels.dtype == np.int64
        assert pool.images.shape == (4, 1, 2, 3)
        assert pool.images[:, 0, 0, 0].tolist() == [0, 1, 10, 11]
        assert server.images[:, 0, 0, 0].tolist() == [0, 10]
        assert facts(folder) == (2, image_inputs(1, 2, 3), 4, None)
        assert image_folders.open_folder(folder)[0].class_names == ("ape", "bee")
        assert image_folders.write_notes(folder) == []

    def test_grey_images_among_colour_images_get_three_channels_and_one_is_named(self, folder):
        save(folder / "train" / "ape" / "0.png", COLOUR)
        pool, _ = read_images(folder)
        assert pool.images.shape == (4, 3, 2, 3)
        assert pool.images[:2, :, 0, 0].tolist() == [[200, 100, 50], [1, 1, 1]]
        [note] = image_folders.write_notes(folder)
        assert note.startswith(f"5 of 6 images in {folder} are grey, as {folder / 'train' / 'ape' / '1.png'}")

    def test_hidden_files_and_those_that_systems_leave_are_no_images(self, folder):
        for name in ("train/ape/.DS_Store", "train/ape/Thumbs.db", "test/bee/desktop.ini"):
            (folder / name).write_bytes(b"x")
        for name in (".cache", "__MACOSX"):
            (folder / "train" / name).mkdir()
        assert facts(folder) == (2, image_inputs(1, 2, 3), 4, None)
        assert len(read_images(folder)[0].images) == 4

    def test_animations_are_named(self, folder):
        frames = [Image.new("L", (3, 2), number) for number in range(2)]
        frames[0].save(folder / "test" / "bee" / "0.png", save_all=True, append_images=frames[1:])
        [note] = image_folders.write_notes(folder)
        assert note.startswith(f"1 of 6 images in {folder} have several frames, as {folder}/test/bee/0.png: ")

    def test_images_of_val_join_those_of_train(self, folder):
        save(folder / "val" / "bee" / "0.png", grey(99))
        assert facts(folder) == (2, image_inputs(1, 2, 3), 5, None)
        assert read_images(folder)[0].images[:, 0, 0, 0].tolist() == [0, 1, 10, 11, 99]
        assert folder / "val" / "bee" / "0.png" in image_folders.list_files(folder)

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

    def test_images_of_different_sizes_are_scaled_to_the_size_behind_the_path(self, folder):
        """Plain images stay plain; of a row 0 0 90 90 half the size is 0 90, each the mean of two."""
        save(folder / "test" / "bee" / "0.png", np.array([[0, 0, 90, 90]] * 2, np.uint8))
        pool, server = read_images(folder, (2, 1))
        assert pool.images.shape == (4, 1, 1, 2)
        assert pool.images[:, 0, 0, 0].tolist() == [0, 1, 10, 11]
        assert server.images[1].ravel().tolist() == pytest.approx([0, 90], abs=13)
        assert facts(folder, (2, 1)) == (2, image_inputs(1, 1, 2), 4, None)

    def test_scaled_folder_is_a_data_set_of_its_own(self, folder):
        digest = own_images.digest_files(folder, image_folders.list_files(folder))
        small = datasets.find_dataset(f"folder:{folder}#2x1", folder)
        assert (small.name, small.inputs.shape) == (f"folder:{folder.name}#2x1@{digest}", (1, 1, 2))
        square = datasets.find_dataset(f"folder:{folder}#5", folder)
        assert (square.name, square.inputs.shape) == (f"folder:{folder.name}#5x5@{digest}", (1, 5, 5))
        pool, _ = datasets.load_dataset(square.name, folder)
        assert pool.images.shape == (4, 1, 5, 5)
        assert names.shorten_name(square.name) == f"folder_{folder.name}-5x5"

    @pytest.mark.parametrize("size", ["#0", "#5000", "#64x0"])
    def test_size_that_no_image_has_is_refused(self, folder, size):
        with pytest.raises(ConfigError, match=f"{size}: expected #SIDE or #WIDTHxHEIGHT"):
            datasets.find_dataset(f"folder:{folder}{size}", folder)


def move_into_images(folder):
    """Give each class a folder images, as Tiny ImageNet has; read as groups, they would have one class."""
    for path in sorted(folder.rglob("*.png")):
        (path.parent / "images").mkdir(exist_ok=True)
        path.rename(path.parent / "images" / path.name)


def remove(folder, *places):
    for place in places:
        shutil.rmtree(folder / place)


REFUSED = {
    "a class without test images": (
        lambda folder: (folder / "test" / "bee" / "0.png").unlink(),
        "class 'bee' has no images in .*test/bee",
    ),
    "a class in test alone": (
        lambda folder: (folder / "test" / "dog").mkdir(),
        "test/dog is a class without a folder in .*train",
    ),
    "a class in val alone": (
        lambda folder: (folder / "val" / "cow").mkdir(parents=True),
        "val/cow is a class without a folder in .*train",
    ),
    "a single class": (
        lambda folder: remove(folder, "train/bee", "test/bee"),
        "train has one class, ape; an image folder has train/<class>",
    ),
    "no folder train": (
        lambda folder: remove(folder, "train"),
        "train is missing; an image folder has train/<class>",
    ),
    "no classes": (
        lambda folder: remove(folder, "train/ape", "train/bee"),
        "train has no class folders",
    ),
    "Tiny ImageNet's layout": (
        move_into_images,
        "one class, images; if the folders above images are the classes",
    ),
    "a class that is not UTF-8": (
        lambda folder: (folder / "train" / os.fsdecode(b"\xe9")).mkdir(),
        "train.*the name is not UTF-8; rename it",
    ),
    "a name in a class that is not UTF-8": (
        lambda folder: (folder / "train" / "ape" / os.fsdecode(b"\xe9")).mkdir(),
        "train/ape.*the name is not UTF-8; rename it",
    ),
    "a folder in a class": (
        lambda folder: (folder / "train" / "ape" / "old").mkdir(),
        "lies in a group, but in no class: .*ape/old makes groups",
    ),
    "colour among grey": (
        lambda folder: save(folder / "train" / "bee" / "1.png", COLOUR),
        r"bee/1\.png is colour 3x2, the first image is grey 3x2; make all",
    ),
    "another size": (
        lambda folder: save(folder / "test" / "bee" / "0.png", grey(0, width=4)),
        r"bee/0\.png is grey 4x2, the first image is grey 3x2",
    ),
}
"""What is done to a folder, and what the refusal names; images that are none: tests/helpers/bad_inputs.py."""


@pytest.mark.parametrize("what", REFUSED)
def test_unsuitable_folder_is_refused_with_the_place(folder, what):
    change, message = REFUSED[what]
    change(folder)
    with pytest.raises(DataError, match=message):
        read_images(folder)


@pytest.fixture
def grouped(tmp_path):
    """Domains art and photo; art lacks the class bee in training and in test."""
    held = {"train": {"art/ape": 2, "photo/ape": 1, "photo/bee": 2}, "test": {"art/ape": 1, "photo/bee": 1}}
    for part, classes in held.items():
        for place, count in classes.items():
            for number in range(count):
                save(tmp_path / part / place / f"{number}.png", grey(10 * len(place) + number, 2))
    return tmp_path


class TestGroups:
    def test_a_level_of_folders_more_is_the_group(self, grouped):
        pool, server = read_images(grouped)
        assert pool.labels.tolist() == [0, 0, 0, 1, 1]
        assert pool.groups.tolist() == [0, 0, 1, 1, 1]
        assert pool.images[:, 0, 0, 0].tolist() == [70, 71, 90, 90, 91]
        assert (server.labels.tolist(), server.groups.tolist()) == ([0, 1], [0, 1])
        assert pool.group_names == ("art", "photo")
        assert facts(grouped) == (2, image_inputs(1, 2, 2), 5, 2)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                lambda test: (test / "sketch" / "ape").mkdir(parents=True),
                "test/sketch is a group without a folder in .*train",
            ),
            (
                lambda test: (test / "art" / "0.png").write_bytes(b""),
                "art/0.png lies in a group, but in no class",
            ),
            (
                lambda test: (test / "photo" / "bee" / "0.png").unlink(),
                "class 'bee' has no images in .*test/photo/bee",
            ),
        ],
        ids=["a group without training images", "an image beside the classes", "a class without tests"],
    )
    def test_unsuitable_groups_are_refused_with_the_place(self, grouped, change, message):
        change(grouped / "test")
        with pytest.raises(DataError, match=message):
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
    assert image_folders.write_notes(folder) == [
        f"not read in {folder}: valid",
        f"the 2 images in {folder / 'val'} join those of train",
    ]
    flat = folder / "train"
    (flat / "ape" / "old").mkdir()
    (flat / "x.png").write_bytes(b"")
    assert image_folders.write_notes(flat) == [f"not read in {flat}: x.png, ape/old"]


@pytest.mark.parametrize("train", ["Train", "training"])
def test_folders_of_parts_are_no_classes(folder, train):
    (folder / "train").rename(folder / train)
    with pytest.raises(DataError, match="has a folder (test|Train) and none called train"):
        facts(folder, share=0.2)
