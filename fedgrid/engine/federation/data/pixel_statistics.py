"""Mean and standard deviation of a data set's pixels, per channel, for `training.normalise`.

Shapes: N images, C channels.
"""

from dataclasses import dataclass

import numpy as np

from fedgrid.engine.federation.data.images import Images, ImageSet
from fedgrid.engine.federation.training.settings import LocalTraining

BLOCK = 1024
"""Images counted at a time."""


@dataclass(frozen=True)
class PixelStatistics:
    """Mean and standard deviation of each channel, with pixels from 0 to 1."""

    means: tuple[float, ...]
    deviations: tuple[float, ...]
    """Of all pixels (not of a sample of them); zero for a channel that is the same everywhere."""

    @classmethod
    def of(cls, images: Images) -> "PixelStatistics":
        """Return the statistics of images of shape (N, C, height, width); exact, whatever their order."""
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


def statistics_for(training: LocalTraining, pool: ImageSet) -> PixelStatistics | None:
    """Return the pool's statistics if models are to normalise by them, else None."""
    return PixelStatistics.of(pool.images) if training.normalise == "dataset" else None
