"""Images with their classes, as data sets return them and clients hold them.

Shapes: N images, L classes.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.errors import DataError

Images = NDArray[np.uint8]
ClassLabels = NDArray[np.int64]
Groups = NDArray[np.int64]
Positions = NDArray[np.int64]
"""Positions of images in an `ImageSet`, shape (N,)."""


@dataclass(frozen=True)
class ImageSet:
    """N images, their classes and, if the data set has them, their groups."""

    images: Images
    """uint8, shape (N, channels, height, width), 0 to 255."""
    labels: ClassLabels
    """int64, shape (N,), 0 to L-1."""
    groups: Groups | None = None
    """int64, shape (N,), from 0: the domain or the writer of each image. None: the data set has none."""

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, positions: Positions | slice) -> "ImageSet":
        """Return the images at `positions`."""
        groups = None if self.groups is None else self.groups[positions]
        return ImageSet(self.images[positions], self.labels[positions], groups)

    def without_groups(self) -> "ImageSet":
        """Return images and classes alone: what clients and the server get to see."""
        return replace(self, groups=None)

    def without_pixels(self) -> "ImageSet":
        """Return classes and groups alone; the images keep their size, but there are none."""
        # No slice: that would keep all pixels in memory.
        return replace(self, images=np.empty((0, *self.images.shape[1:]), np.uint8))


@dataclass(frozen=True)
class ImageView:
    """Some images of a set, taken from it when they are asked for: thousands of clients share one pool."""

    source: ImageSet
    positions: Positions

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def images(self) -> Images:
        """A copy of the images."""
        return self.source.images[self.positions]

    @property
    def labels(self) -> ClassLabels:
        """A copy of their classes."""
        return self.source.labels[self.positions]

    def copied(self) -> ImageSet:
        """Return the images and classes as a set of their own."""
        return ImageSet(self.images, self.labels)


HeldImages = ImageSet | ImageView
"""What a client holds, read by `images`, `labels` and `len`."""


def check_memory(path: Path, num_bytes: int) -> None:
    """Check that images of this many bytes can be held by this machine, before any of them is read.

    Raises:
        DataError: they take more than its memory.
    """
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if num_bytes > memory:
        raise DataError(
            f"{path}: its images take {num_bytes / 1e9:.1f} GB, and this machine has {memory / 1e9:.1f} GB "
            "of memory; take fewer or smaller images"
        )


def check_is_file(path: Path, expected: str) -> None:
    """Check that something that exists is a file: reading a pipe or a device may never end.

    Raises:
        DataError: it is not.
    """
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is not a file; expected {expected} there")


Pair = tuple[ImageSet, ImageSet]
"""The pool, which is split among the clients, and the server's test set."""
