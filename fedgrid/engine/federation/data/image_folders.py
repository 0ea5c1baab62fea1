"""The user's own images as files in train/<class>/* and test/<class>/*, in one of `FORMATS`.

There may be a level of folders more, train/<group>/<class>/* and test/<group>/<class>/*; a group is a domain
or a writer. Classes and groups are numbered in the order of their names. If the first image is grey, all must
be; else all are read as RGB. All must have one size, or are scaled to one: not cropped, so that nothing of an
image is lost, but other proportions are distorted.

Shapes: N images.
"""

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from fedgrid.engine.federation.data.images import Images, ImageSet, Pair
from fedgrid.engine.federation.data.names import Size
from fedgrid.engine.federation.data.readers import check_is_file, check_memory
from fedgrid.engine.federation.errors import DataError

LAYOUT = "an image folder has train/<class>/* and test/<class>/*"
GROUPED = "with groups it has train/<group>/<class>/* and test/<group>/<class>/*"
GROUP = -3
"""Place of the group in an image's path."""
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
"""PIL reads more of them, some by starting other programs and some with decoders that nobody maintains."""
MOST_PIXELS = 4096 * 4096
"""Pixels of an image."""
LITTER = ("thumbs.db", "ehthumbs.db", "desktop.ini", "__macosx")
"""Files and folders that systems leave between images, in lower case."""
GREY_MODES = ("1", "L", "LA")
COLOUR_MODES = ("P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")

Files = list[list[Path]]
"""Paths of the images of each class."""


def read_images(folder: Path, size: Size | None = None) -> Pair:
    """Return (pool, server's test set), with classes, groups and files in the order of their names."""
    train, test = _files(folder)
    first = _pixels(train[0][0], size)
    check_memory(folder, first.nbytes * sum(map(len, train + test)))
    pool, server = _image_set(train, first, size), _image_set(test, first, size)
    if not (names := _group_names(folder)):
        return pool, server
    numbers = {name: number for number, name in enumerate(names)}
    of_train, of_test = (
        np.array([numbers[path.parts[GROUP]] for files in part for path in files], np.int64)
        for part in (train, test)
    )
    return replace(pool, groups=of_train), replace(server, groups=of_test)


def facts(folder: Path, size: Size | None = None) -> tuple[int, tuple[int, int, int], int, int | None]:
    """Return (classes, (channels, height, width), pool size, groups); reads the first image only.

    The number of groups is None if the classes lie directly in train and test.
    """
    train, test = _files(folder)
    channels, height, width = _pixels(train[0][0], size).shape
    check_memory(folder, channels * height * width * sum(map(len, train + test)))
    pool_size = sum(len(files) for files in train)
    return len(train), (channels, height, width), pool_size, len(_group_names(folder)) or None


def class_names(folder: Path) -> tuple[str, ...]:
    """Return the names of the classes by their numbers: those of the folders."""
    return tuple(_class_folders(folder / "train", _group_names(folder)))


def files(folder: Path) -> list[Path]:
    """Return the files that are read as images."""
    return [path for part in _files(folder) for files in part for path in files]


def mixed(folder: Path) -> str | None:
    """Return in one line that some images are grey and are read as colour; None if all are of one kind.

    Reads no more than the beginning of each file.
    """
    grey, count, first = 0, 0, None
    for path in files(folder):
        with suppress(OSError), Image.open(path, formats=FORMATS) as image:
            count += 1
            grey += image.mode in GREY_MODES
            first = path if image.mode in GREY_MODES and first is None else first
    if not 0 < grey < count:
        return None
    return (
        f"{grey} of {count} images in {folder} are grey, as {first}, and are read as colour: a model may "
        "learn that difference; convert them if it means nothing"
    )


def _files(folder: Path) -> tuple[Files, Files]:
    """Return the files of each class in train and in test."""
    for part in ("train", "test"):
        if not (folder / part).is_dir():
            raise DataError(f"{folder / part} is missing; {LAYOUT}")
    groups = _group_names(folder)
    folders = {part: _class_folders(folder / part, groups) for part in ("train", "test")}
    classes = list(folders["train"])
    if not classes:
        raise DataError(f"{folder / 'train'} has no class folders; {LAYOUT}")
    stray = [found[0] for name, found in folders["test"].items() if name not in classes]
    if stray:
        raise DataError(f"{stray[0]} is a class without a folder in {folder / 'train'}; {LAYOUT}")
    train, test = (
        [_class_files(folders[part].get(name, [folder / part / name])) for name in classes]
        for part in ("train", "test")
    )
    return train, test


def _group_names(folder: Path) -> list[str]:
    """Return the groups of images in order, empty if the classes lie directly in train and test."""
    tops = _entries(folder / "train", folders=True)
    if not any(_entries(top, folders=True) for top in tops):
        return []
    names = [top.name for top in tops]
    for part in ("train", "test"):
        for top in _entries(folder / part, folders=True):
            if top.name not in names:
                raise DataError(f"{top} is a group without a folder in {folder / 'train'}; {GROUPED}")
            if stray := _entries(top, folders=False):
                raise DataError(f"{stray[0]} lies in a group, but in no class; {GROUPED}")
    return names


def _class_folders(part: Path, groups: Sequence[str]) -> dict[str, list[Path]]:
    """Return the folders of each class, by its name: one, or one in each group that has the class."""
    found: dict[str, list[Path]] = {}
    for top in [part / group for group in groups if (part / group).is_dir()] if groups else [part]:
        for folder in _entries(top, folders=True):
            found.setdefault(folder.name, []).append(folder)
    return dict(sorted(found.items()))


def _class_files(folders: Sequence[Path]) -> list[Path]:
    files = [path for folder in folders if folder.is_dir() for path in _entries(folder, folders=False)]
    if not files:
        name = folders[0].name
        raise DataError(f"class '{name}' has no images in {folders[0]}; add images or remove the class")
    return files


def _entries(folder: Path, *, folders: bool) -> list[Path]:
    """Return the files or the folders in a folder by name, without hidden ones and `LITTER`."""
    visible = [
        path for path in folder.iterdir() if not path.name.startswith(".") and path.name.lower() not in LITTER
    ]
    return sorted(path for path in visible if path.is_dir() == folders)


def _image_set(files_by_class: Files, first: Images, size: Size | None) -> ImageSet:
    """Read the images; each must have the size (or is scaled to it) and the kind (grey or RGB) of `first`."""
    labels = np.repeat(np.arange(len(files_by_class)), [len(files) for files in files_by_class])
    images = np.empty((len(labels), *first.shape), np.uint8)
    for position, path in enumerate(path for files in files_by_class for path in files):
        pixels = _pixels(path, size)
        if len(first) == 3 and len(pixels) == 1:
            pixels = np.repeat(pixels, 3, axis=0)
        if pixels.shape != first.shape:
            raise DataError(
                f"{path} is {_describe(pixels)}, the first image is {_describe(first)}; make all images one "
                "size and one kind; a dataset folder:PATH#64 (or #80x60) scales them as they are read"
            )
        images[position] = pixels
    return ImageSet(images, labels.astype(np.int64))


def _pixels(path: Path, size: Size | None) -> Images:
    """Return one image as uint8, shape (1 or 3, height, width)."""
    check_is_file(path, "an image")
    try:
        pixels = _decoded(path, size)
    except DataError:
        raise
    except UnidentifiedImageError as error:
        raise DataError(
            f"{path} is not an image of a known format; convert it or remove it; known: {', '.join(FORMATS)}"
        ) from error
    except Exception as error:
        # A damaged file makes PIL's decoders raise almost anything.
        raise DataError(f"{path} is damaged or incomplete: {error}; replace it or remove it") from error
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def _decoded(path: Path, size: Size | None) -> Images:
    with warnings.catch_warnings():
        # PIL warns of some large images, of which `MOST_PIXELS` is the check, and of odd metadata.
        warnings.simplefilter("ignore")
        with Image.open(path, formats=FORMATS) as image:
            width, height = image.size
            if prod(image.size) > MOST_PIXELS:
                raise DataError(f"{path} has {width}x{height} pixels; scale it to at most 4096x4096")
            if image.mode not in GREY_MODES + COLOUR_MODES:
                raise DataError(f"{path} has pixels of mode {image.mode}; save it with 8 bits a channel")
            plain = image.convert("L" if image.mode in GREY_MODES else "RGB")
            if size not in (None, plain.size):
                plain = plain.resize(size, Image.Resampling.BILINEAR)
            return np.asarray(plain, np.uint8)


def _describe(pixels: Images) -> str:
    channels, height, width = pixels.shape
    return f"{'grey' if channels == 1 else 'colour'} {width}x{height}"
