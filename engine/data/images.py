"""Images with their classes, as data sets return them and clients hold them.

Shapes: N images, L classes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.uint8]
ClassLabels = NDArray[np.int64]
Positions = NDArray[np.int64]
"""Positions of images in an `ImageSet`, shape (N,)."""


@dataclass(frozen=True)
class ImageSet:
    """N images and their classes."""

    images: Images
    """uint8, shape (N, channels, height, width), 0 to 255."""
    labels: ClassLabels
    """int64, shape (N,), 0 to L-1."""

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, positions: Positions | slice) -> "ImageSet":
        """Return the images at `positions`."""
        return ImageSet(self.images[positions], self.labels[positions])
