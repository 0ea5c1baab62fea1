"""Pool and test set from the examples of each group."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.images import ClassLabels, ImageSet, Pair


def of_groups(
    images: Sequence[NDArray[Any]],
    labels: Sequence[ClassLabels],
    names: Sequence[str],
    test_share: float,
    vocabulary: int = 0,
) -> Pair:
    """Return the pool and the server's test set: the last `test_share` of each group, rounded up.

    `images` and `labels` are those of each group, drawn independently, and `names` the groups' names.
    """
    sizes = [len(of_group) for of_group in labels]
    is_test = np.concatenate([np.arange(size) >= int((1 - test_share) * size) for size in sizes])
    groups_N = np.repeat(np.arange(len(sizes)), sizes)
    every = ImageSet(np.concatenate(images), np.concatenate(labels), groups_N, tuple(names), vocabulary)
    return every.take(np.flatnonzero(~is_test)), every.take(np.flatnonzero(is_test))
