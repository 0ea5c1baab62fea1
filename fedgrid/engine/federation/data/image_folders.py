"""The user's own images as files in train/<class>/* and test/<class>/*, in one of `FORMATS`.

Images in val/<class>/* join those of train. There may be one more level of folders, train/<group>/<class>/*
and test/<group>/<class>/*; a group is a domain or a writer. Classes and groups are numbered in the order of
their names. From a folder <class>/* a share is drawn as the test set. If the first image is grey, all must
be; else all are read as RGB. All must have one size, or are scaled to one: not cropped, so that nothing of an
image is lost, but other proportions are distorted. Images are turned as their EXIF orientation says;
transparent pixels become white.

Shapes: N images.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

from fedgrid.engine.federation.data.dataset import DataSource, Facts
from fedgrid.engine.federation.data.files import (
    FORMATS,
    GREY_MODES,
    check_is_file,
    check_memory,
    decode_image,
    stack_images,
)
from fedgrid.engine.federation.data.images import Images, ImageSet, Pair
from fedgrid.engine.federation.data.names import Size, compose_accents
from fedgrid.engine.federation.data.partition import number_names
from fedgrid.engine.federation.data.server_share import draw_test_rows, separate_tests
from fedgrid.engine.federation.errors import DataError, abbreviate_names
from fedgrid.engine.federation.inputs import image_inputs

LAYOUT = "an image folder has train/<class>/* and test/<class>/*"
GROUPED = "with groups it has train/<group>/<class>/* and test/<group>/<class>/*"
GROUP = -3
"""Index of the group in the parts of an image's path."""
POOL, TEST = ("train", "val"), ("test",)
"""Folders of the images that clients hold, and of the server's. The first of each must exist."""
PARTS = ("train", "training", "test", "testing", "val", "valid", "validation")
"""Names of folders that hold parts of a data set, in lower case; no class may have one."""
LITTER = ("thumbs.db", "ehthumbs.db", "desktop.ini", "__macosx")
"""Files and folders that systems leave between images, in lower case."""
Files = list[list[Path]]


@dataclass(frozen=True)
class Listing:
    """The image files of a folder, by class."""

    class_names: tuple[str, ...]
    """Names of the classes, in the order of their numbers."""
    pool: Files
    """Files of each class that clients hold."""
    test: Files
    """Files of each class in the server's test set; empty for a folder <class>/*."""
    group_names: tuple[str, ...] = ()
    """Names of the groups; empty if the classes lie directly in train and test."""


def open_folder(folder: Path, size: Size | None = None, share: float | None = None) -> DataSource:
    """Find the facts of a folder of images, and build the function that reads its pool and test set.

    Only the first image is read now; what the others are follows from their folders.

    Args:
        folder: the folder with train and test, or with the classes.
        size: width and height that images are scaled to. Default: their own.
        share: share of a folder <class>/* that is drawn as its test set. Default: it has train and test.

    Raises:
        DataError: the folder is not as it must be, or its first image cannot be read.
    """
    if share is not None and not _is_flat(folder):
        raise DataError(f"{folder} has train/<class>/* and test/<class>/*; leave out the drawn share")
    listing = _list_classes(folder) if share is not None else _list_parts(folder)
    first = _read_pixels(listing.pool[0][0], size)
    counts_L = [len(files) for files in listing.pool]
    check_memory(folder, first.nbytes * (sum(counts_L) + sum(map(len, listing.test))))
    # Drawn by class alone, before any image is read: the test set depends on the number of files, not on
    # their content.
    is_test_N = np.zeros(sum(counts_L), bool)
    if share is not None:
        is_test_N = draw_test_rows(f"{folder}", np.repeat(np.arange(len(counts_L)), counts_L), share)
    facts = Facts(
        num_classes=len(counts_L),
        inputs=image_inputs(*first.shape),
        pool_size=int(np.count_nonzero(~is_test_N)),
        num_groups=len(listing.group_names) or None,
        class_names=listing.class_names,
    )

    def read_part(part: Files) -> ImageSet:
        """Read the images of one part, with their groups."""
        images = _read_images(part, first, size)
        if not listing.group_names:
            return images
        group_by_image = [path.parts[GROUP] for files in part for path in files]
        groups = number_names(group_by_image, listing.group_names)
        return replace(images, groups=groups, group_names=listing.group_names)

    def read_pair() -> Pair:
        """Read the pool and the server's test set."""
        pool = read_part(listing.pool)
        return (pool, read_part(listing.test)) if share is None else separate_tests(pool, is_test_N)

    return facts, read_pair


def list_files(folder: Path) -> list[Path]:
    """List the files that are read as images."""
    listing = _list_classes(folder) if _is_flat(folder) else _list_parts(folder)
    return [path for class_files in (*listing.pool, *listing.test) for path in class_files]


def write_notes(folder: Path) -> list[str]:
    """Write a line on each surprise: files that are not read, grey images among colour ones, animations.

    Reads no more than the beginning of each file.
    """
    paths = list_files(folder)
    grey: list[Path] = []
    animated: list[Path] = []
    for path in paths:
        # A damaged file is reported when it is read as an example.
        with suppress(OSError), Image.open(path, formats=FORMATS) as image:
            if image.mode in GREY_MODES:
                grey.append(path)
            if getattr(image, "is_animated", False):
                animated.append(path)
    lines = []
    if unread := _find_unread(folder, paths):
        lines.append(
            f"not read in {folder}: {abbreviate_names([f'{path.relative_to(folder)}' for path in unread])}"
        )
    if (folder / "train").is_dir() and (
        validated := [path for path in paths if path.is_relative_to(folder / "val")]
    ):
        lines.append(f"the {len(validated)} images in {folder / 'val'} join those of train")
    if 0 < len(grey) < len(paths):
        lines.append(
            f"{len(grey)} of {len(paths)} images in {folder} are grey, as {grey[0]}, and are read as colour: "
            "a model may learn that difference; convert them if it means nothing"
        )
    if animated:
        count = f"{len(animated)} of {len(paths)} images in {folder}"
        lines.append(f"{count} have several frames, as {animated[0]}: the first is read")
    return lines


def _find_unread(folder: Path, paths: Sequence[Path]) -> list[Path]:
    """Find the folders and files, next to those that lead to images, that are not read."""
    used = {*paths} | {parent for path in paths for parent in path.parents}
    inside = [top for top in sorted(used - {*paths}) if top.is_relative_to(folder)]
    return [
        path
        for top in inside
        for are in (True, False)
        for path in _list_entries(top, folders=are)
        if path not in used
    ]


def _is_flat(folder: Path) -> bool:
    """Check whether a folder has its classes directly in it, without train."""
    return not (folder / "train").is_dir()


def _list_classes(folder: Path) -> Listing:
    """List the files of a folder <class>/*."""
    if not folder.is_dir():
        raise DataError(f"no folder {folder}; to draw a test set it has <class>/*")
    classes = _group_by_name([folder])
    # A folder with test and no train is a mistake, not a data set of two classes.
    if parts := [name for name in classes if name.lower() in PARTS]:
        raise DataError(f"{folder} has a folder {parts[0]} and none called train; {LAYOUT}")
    if len(classes) < 2:
        raise DataError(f"{folder} has {len(classes)} class folders; to draw a test set it has <class>/*")
    return Listing(tuple(classes), [_list_class_files(places) for places in classes.values()], [])


def _list_parts(folder: Path) -> Listing:
    """List the files of a folder with train and test."""
    if not folder.is_dir():
        raise DataError(f"no folder {folder}; {LAYOUT}")
    for part in ("train", "test"):
        if not (folder / part).is_dir():
            raise DataError(f"{folder / part} is missing; {LAYOUT}; #test=0.2 draws from <class>/*")
    groups = _list_group_names(folder)
    classes = list(_find_class_folders(folder, ("train",), groups))
    if not classes:
        raise DataError(f"{folder / 'train'} has no class folders; {LAYOUT}")
    if len(classes) == 1:
        outer = f"; if the folders above {classes[0]} are the classes, move the images up" if groups else ""
        raise DataError(f"{folder / 'train'} has one class, {classes[0]}{outer}; {LAYOUT}")
    held = [_find_class_folders(folder, parts, groups) for parts in (POOL, TEST)]
    # Classes are those of train: a class that only the test set has could never be learned.
    stray = [
        places[0]
        for folders_by_class in held
        for name, places in folders_by_class.items()
        if name not in classes
    ]
    if stray:
        raise DataError(f"{stray[0]} is a class without a folder in {folder / 'train'}; {LAYOUT}")
    pool, test = (
        [_list_class_files(of_part.get(name, [folder / parts[0] / name])) for name in classes]
        for parts, of_part in zip((POOL, TEST), held, strict=True)
    )
    return Listing(tuple(classes), pool, test, tuple(groups))


def _list_group_names(folder: Path) -> list[str]:
    """List the names of the groups in order; empty if the classes lie directly in train and test."""
    tops = _list_entries(folder / "train", folders=True)
    if not any(_list_entries(top, folders=True) for top in tops):
        return []
    names = [*_group_by_name([folder / "train"])]
    for part in (*POOL, *TEST):
        for top in _list_entries(folder / part, folders=True):
            if compose_accents([top.name])[0] not in names:
                raise DataError(f"{top} is a group without a folder in {folder / 'train'}; {GROUPED}")
            if stray := _list_entries(top, folders=False):
                folders = [place for each in tops for place in _list_entries(each, folders=True)]
                raise DataError(
                    f"{stray[0]} lies in a group, but in no class: {folders[0]} makes groups of the folders "
                    f"above it; remove that one if it is a stray one; {GROUPED}"
                )
    return names


def _find_class_folders(folder: Path, parts: Sequence[str], groups: Sequence[str]) -> dict[str, list[Path]]:
    """Find the folders of each class in some parts, by its name: one in each group that has the class."""
    tops = [folder / part for part in parts]
    if groups:
        tops = [top for part in tops for places in _group_by_name([part]).values() for top in places]
    return _group_by_name(tops)


def _group_by_name(tops: Sequence[Path]) -> dict[str, list[Path]]:
    """Find the folders in some folders by their names, in order; two spellings of a name are one."""
    places: dict[str, list[Path]] = {}
    for place in sorted((place for top in tops for place in _list_entries(top, folders=True)), key=_get_name):
        [name] = compose_accents([place.name])
        places.setdefault(name, []).append(place)
    return places


def _get_name(path: Path) -> str:
    """Get the last part of a path, by which folders are sorted."""
    return path.name


def _list_class_files(folders: Sequence[Path]) -> list[Path]:
    """List the files of a class, folder by folder; a class without any is refused."""
    files = [path for folder in folders if folder.is_dir() for path in _list_entries(folder, folders=False)]
    if not files:
        name = folders[0].name
        raise DataError(f"class '{name}' has no images in {folders[0]}; add images or remove the class")
    return files


def _list_entries(folder: Path, *, folders: bool) -> list[Path]:
    """List the files or the folders in a folder by name, without hidden ones and `LITTER`.

    Args:
        folder: the folder; one that does not exist has no entries.
        folders: whether folders are listed, else files.

    Raises:
        DataError: a name is not UTF-8.
    """
    if not folder.is_dir():
        return []
    names = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name.lower() in LITTER:
                continue
            try:
                # Class names go into JSON and Parquet, which are UTF-8; a lone surrogate would fail only
                # there.
                entry.name.encode()
            except UnicodeEncodeError as error:
                raise DataError(
                    f"{entry.path}: the name is not UTF-8; rename it, or all that is in a folder with "
                    "`convmv`"
                ) from error
            if entry.is_dir() == folders:
                names.append(entry.name)
    return [folder / name for name in sorted(names)]


def _read_images(files_by_class: Files, first: Images, size: Size | None) -> ImageSet:
    """Read the images of one part, scaled to `size`; each must then match `first` in size and kind."""
    labels = np.repeat(np.arange(len(files_by_class)), [len(files) for files in files_by_class])
    paths = [path for files in files_by_class for path in files]
    images = stack_images(first, ((path, _read_pixels(path, size)) for path in paths), len(paths))
    return ImageSet(images, labels.astype(np.int64))


def _read_pixels(path: Path, size: Size | None) -> Images:
    """Read one image file, uint8, shape (1 or 3, height, width)."""
    check_is_file(path, "an image")
    return decode_image(path, path, size)
