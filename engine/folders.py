"""The user's own images: what is in them, before and when they are read.

Shapes: N images.
"""

import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image

from engine.errors import DataError
from engine.messages import ImageSet
from engine.sources import Pair, damaged, flat_labels, image_shape

PARTS = ("train", "test")
GREY_MODES = ("1", "L", "LA")
COLOUR_MODES = ("P", "RGB", "RGBA", "CMYK", "YCbCr")


@dataclass(frozen=True)
class Facts:
    """What a data set's files say about it at a glance."""

    num_classes: int
    shape: tuple[int, int, int]
    """Channels, height, width."""
    pool_size: int


def folder_facts(folder: Path) -> Facts:
    """Count a folder's classes and training images; the first image gives channels and size."""
    classes = _classes(folder)
    files = [_files(folder / "train" / name) for name in classes]
    first = _pixels(files[0][0], None)
    return Facts(len(classes), first.shape, sum(len(of_class) for of_class in files))


def read_folder(folder: Path) -> Pair:
    """Read train/<class>/* and test/<class>/*: classes by name, images by name, grey or RGB as the first is."""
    classes = _classes(folder)
    shape = folder_facts(folder).shape
    pool, server = (_read_part(folder / part, classes, shape) for part in PARTS)
    return pool, server


def npz_facts(path: Path) -> Facts:
    """Read an npz file's labels and array headers, not its images."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {name.removesuffix(".npy") for name in archive.namelist()}
            parts = [part for part in ("train", "val", "test") if part != "val" or "val_images" in members]
            for key in (f"{part}_{what}" for part in parts for what in ("images", "labels")):
                if key not in members:
                    raise DataError(
                        f"{path} has no '{key}'; expected train_images, train_labels, test_images, "
                        "test_labels (val_images and val_labels if there are any), "
                        f"found: {', '.join(sorted(members))}"
                    )
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing; give the path of an npz file with MedMNIST's keys") from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise damaged(path, "it cannot be read as an npz file") from error
    raise NotImplementedError
