"""The server's images: its test set, and the reference images that algorithms may predict on.

Shapes: N images.
"""

import numpy as np

from fedgrid.engine.data.images import ImageSet
from fedgrid.engine.errors import ConfigError
from fedgrid.engine.partition.deal import server_subset
from fedgrid.engine.partition.settings import Split
from fedgrid.engine.seeds import generator


def server_sets(server: ImageSet, split: Split, seed: int) -> tuple[ImageSet, ImageSet | None]:
    """Return the server's test set and its reference images, which are in no test set; None without any.

    Raises:
        ConfigError: if `split` asks for more images than the data set's official test set has.
    """
    rest, reference = _hold_out(server, split.reference_images, seed)
    return server_subset(rest, split.server_images, seed), reference


def _hold_out(server: ImageSet, count: int | None, seed: int) -> tuple[ImageSet, ImageSet | None]:
    if count is None:
        return server, None
    if count >= len(server):
        raise ConfigError(
            f"split.reference_images {count}: the official test set has {len(server)} images, of which at "
            f"least one must be left to test on; take at most {len(server) - 1}"
        )
    order = generator(seed, "reference images").permutation(len(server))
    return server.take(np.sort(order[count:])), server.take(order[:count])
