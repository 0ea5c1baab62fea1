"""Images with their classes, as every data set is read and every client holds them.

Shapes: N images, L classes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.uint8]
ClassLabels = NDArray[np.int64]


@dataclass(frozen=True)
class ImageSet:
    """Images and their classes."""

    images: Images
    """uint8, shape (N, channels, height, width), 0..255."""
    labels: ClassLabels
    """int64, shape (N,), 0..L-1."""

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, positions: NDArray[np.int64] | slice) -> "ImageSet":
        """Return the images at `positions`."""
        return ImageSet(self.images[positions], self.labels[positions])
