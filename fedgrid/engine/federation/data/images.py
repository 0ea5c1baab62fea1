"""Examples with their classes, as data sets return them and clients hold them. Most are images.

Shapes: N images, C channels, L classes.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.partition import Partition, Positions
from fedgrid.engine.federation.inputs import DTYPES, Inputs

Images = NDArray[np.uint8 | np.float32 | np.int64]
"""Pixels, numbers or tokens, see `Inputs`."""
ClassLabels = NDArray[np.int64]
Labels = NDArray[Any]
"""Classes, or numbers to predict: see `ImageSet.labels`."""
Groups = NDArray[np.int64]
Subjects = NDArray[np.int64]


@dataclass(frozen=True)
class ImageSet:
    """N images, their classes and, if the data set has them, their groups."""

    images: Images
    """Images: uint8, shape (N, channels, height, width), 0 to 255. Numbers: float32, shape (N, columns) or
    (N, channels, length). Tokens: int64, shape (N, length)."""
    labels: Labels
    """int64, shape (N,), 0 to L-1; or float32, numbers to predict."""
    groups: Groups | None = None
    """int64, shape (N,), from 0: the domain or the writer of each image. None: the data set has none."""
    group_names: tuple[str, ...] = ()
    """Of the groups, by their numbers; empty without groups."""
    vocabulary: int = 0
    """Number of different tokens; 0 for images and numbers."""
    assigned: Partition | None = None
    """Of a pool, where the data set or the file of a split says it: who holds what."""
    padding: int | None = None
    """The token that fills texts up to one length, if there is one."""
    subjects: Subjects | None = None
    """int64, shape (N,), from 0: whom each example is about. None: the data set does not say it."""

    @property
    def inputs(self) -> Inputs:
        """What each of them is."""
        [kind] = [kind for kind, dtype in DTYPES.items() if dtype == self.images.dtype]
        return Inputs(kind, self.images.shape[1:], self.vocabulary, self.padding)

    @property
    def classes(self) -> ClassLabels:
        """The labels, in place of numbers one class for all."""
        return np.zeros(len(self), np.int64) if self.labels.dtype == np.float32 else self.labels

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, positions: Positions | slice) -> "ImageSet":
        """Return the images at `positions`."""
        groups = None if self.groups is None else self.groups[positions]
        subjects = None if self.subjects is None else self.subjects[positions]
        images, labels = self.images[positions], self.labels[positions]
        return replace(self, images=images, labels=labels, groups=groups, assigned=None, subjects=subjects)

    def without_groups(self) -> "ImageSet":
        """Return images and classes alone: what clients and the server get to see."""
        return replace(self, groups=None, group_names=(), assigned=None, subjects=None)

    def without_pixels(self) -> "ImageSet":
        """Return classes and groups alone; the images keep their size, but there are none."""
        # No slice: that would keep all pixels in memory.
        return replace(self, images=np.empty((0, *self.images.shape[1:]), self.images.dtype))


BLOCK = 1024
"""Images counted at a time."""


@dataclass(frozen=True)
class ChannelStatistics:
    """Mean and standard deviation of each channel of images, with pixels from 0 to 1, or of each column."""

    means: tuple[float, ...]
    deviations: tuple[float, ...]
    """Of all values (not of a sample of them); zero for a channel that is the same everywhere."""

    @classmethod
    def of(cls, images: Images) -> "ChannelStatistics":
        """Return the statistics of examples of shape (N, C, ...); of images exact, whatever their order."""
        if images.dtype != np.uint8:
            others = tuple(axis for axis in range(images.ndim) if axis != 1)
            means_C = np.asarray(images.mean(others, np.float64))
            deviations_C = np.asarray(images.std(others, np.float64))
            return cls(tuple(means_C.tolist()), tuple(deviations_C.tolist()))
        means, deviations = [], []
        values = np.arange(256) / 255
        for channel in range(images.shape[1]):
            counts = np.zeros(256, np.int64)
            for start in range(0, len(images), BLOCK):
                block = images[start : start + BLOCK, channel]
                counts += np.bincount(block.ravel(), minlength=256)
            shares = counts / counts.sum()
            mean = float(shares @ values)
            means.append(mean)
            deviations.append(float(shares @ (values - mean) ** 2) ** 0.5)
        return cls(tuple(means), tuple(deviations))


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
    def labels(self) -> Labels:
        """A copy of their labels."""
        return self.source.labels[self.positions]

    @property
    def classes(self) -> ClassLabels:
        """As `ImageSet.classes`."""
        return self.source.classes[self.positions]

    def copied(self) -> ImageSet:
        """Return the images and classes as a set of their own."""
        return replace(self.source.without_groups(), images=self.images, labels=self.labels)


HeldImages = ImageSet | ImageView
"""What a client holds, read by `images`, `labels` and `len`."""


Pair = tuple[ImageSet, ImageSet]
"""The pool, which is split among the clients, and the server's test set."""
