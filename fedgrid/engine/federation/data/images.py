"""Examples with their classes, as data sets return them and clients hold them. Most are images.

The names say "images" for all kinds of examples: pixels, numbers and tokens (`inputs.Inputs`).

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
    """N examples, their labels and, if the data set has them, their groups.

    A plugin's data set returns two of these, see `OwnDataset`.

    Args:
        images: the examples.
        labels: the class of each example, or the number to predict.
        groups: the natural group of each example. Default: none.
        group_names: names of the groups. Default: none.
        vocabulary: number of different tokens. Default: 0, no tokens.
        assigned: which client holds what. Default: a split decides.
        padding: token that fills short texts. Default: none.
        subjects: the subject of each example, such as a patient. Default: none.

    Example:
        >>> import fedgrid
        >>> import numpy as np
        >>> images = np.zeros((4, 1, 8, 8), np.uint8)
        >>> image_set = fedgrid.ImageSet(images, labels=np.array([0, 1, 0, 1]))
        >>> len(image_set), str(image_set.inputs)
        (4, 'images of 1x8x8 pixels')
        >>> image_set.take(slice(2, None)).labels
        array([0, 1])
    """

    images: Images
    """Images: uint8, shape (N, channels, height, width), 0 to 255. Numbers: float32, shape (N, columns) or
    (N, channels, length). Tokens: int64, shape (N, length)."""
    labels: Labels
    """Classes: int64, shape (N,), 0 to L-1. Numbers to predict: float32, shape (N,)."""
    groups: Groups | None = None
    """Domain or writer of each example: int64, shape (N,), from 0. None: the data set names none."""
    group_names: tuple[str, ...] = ()
    """Names of the groups, by their numbers; empty without groups."""
    vocabulary: int = 0
    """Number of different tokens; 0 for images and numbers."""
    assigned: Partition | None = None
    """Which client holds which example of a pool, where the data set or the file of a split says so."""
    padding: int | None = None
    """The token that fills texts up to one length, if there is one."""
    subjects: Subjects | None = None
    """Subject of each example, such as a patient: int64, shape (N,), from 0. None: the data set names
    none. All examples of a subject are on one side of a cut."""

    @property
    def inputs(self) -> Inputs:
        """Kind and shape of each example."""
        [kind] = [kind for kind, dtype in DTYPES.items() if dtype == self.images.dtype]
        return Inputs(kind, self.images.shape[1:], self.vocabulary, self.padding)

    @property
    def classes(self) -> ClassLabels:
        """Classes of the examples; where labels are numbers to predict, class 0 for all."""
        return np.zeros(len(self), np.int64) if self.labels.dtype == np.float32 else self.labels

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, positions: Positions | slice) -> "ImageSet":
        """Select the examples at `positions`; the assignment to clients, which counts all, is dropped."""
        groups = None if self.groups is None else self.groups[positions]
        subjects = None if self.subjects is None else self.subjects[positions]
        images, labels = self.images[positions], self.labels[positions]
        return replace(self, images=images, labels=labels, groups=groups, assigned=None, subjects=subjects)

    def without_groups(self) -> "ImageSet":
        """Drop groups, subjects and assignment: clients and the server see examples and labels alone."""
        return replace(self, groups=None, group_names=(), assigned=None, subjects=None)

    def without_pixels(self) -> "ImageSet":
        """Drop the pixels, for a split that needs classes and groups alone; `inputs` stays the same."""
        # No slice: that would keep all pixels in memory.
        return replace(self, images=np.empty((0, *self.images.shape[1:]), self.images.dtype))


BLOCK = 1024
"""Images whose pixels are counted at a time, which bounds the memory of a count."""


@dataclass(frozen=True)
class ChannelStatistics:
    """Mean and standard deviation of each channel of images, with pixels from 0 to 1, or of each column of
    numbers.
    """

    means: tuple[float, ...]
    """Mean of each channel, shape (C,)."""
    deviations: tuple[float, ...]
    """Standard deviation of all values (not of a sample of them); zero for a channel that is the same
    everywhere."""

    @classmethod
    def measure(cls, images: Images) -> "ChannelStatistics":
        """Measure the statistics of examples of shape (N, C, ...); the order of images changes no bit."""
        # Numbers are summed in float64; unlike those of pixels, their sums depend on the order of the rows.
        if images.dtype != np.uint8:
            others = tuple(axis for axis in range(images.ndim) if axis != 1)
            means_C = np.asarray(images.mean(others, np.float64))
            deviations_C = np.asarray(images.std(others, np.float64))
            return cls(tuple(means_C.tolist()), tuple(deviations_C.tolist()))
        # Counts of the 256 pixel values are whole numbers, so blocks and order change no bit of the result; a
        # sum of floats over all pixels would depend on both.
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
    """Some images of a set, copied from it only when they are read: thousands of clients share one pool."""

    source: ImageSet
    positions: Positions

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def images(self) -> Images:
        """The images, copied at each access."""
        return self.source.images[self.positions]

    @property
    def labels(self) -> Labels:
        """Their labels, copied at each access."""
        return self.source.labels[self.positions]

    @property
    def classes(self) -> ClassLabels:
        """Their classes, see `ImageSet.classes`."""
        return self.source.classes[self.positions]

    def copy_images(self) -> ImageSet:
        """Copy the images and labels into a set of their own, without groups."""
        return replace(self.source.without_groups(), images=self.images, labels=self.labels)


HeldImages = ImageSet | ImageView
"""What a client holds; read by `images`, `labels` and `len`."""


Pair = tuple[ImageSet, ImageSet]
"""The pool, which is split among the clients, and the server's test set."""
