"""Pool and test set from the examples of each group."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.images import ClassLabels, ImageSet, Pair


def of_groups(
    inputs: Sequence[NDArray[Any]], labels: Sequence[ClassLabels], names: Sequence[str], test_share: float
) -> Pair:
    """Return the pool and the server's test set: the last `test_share` of each group, rounded up.

    `inputs` and `labels` are those of each group, drawn independently, and `names` the groups' names.
    """
    sizes = [len(of_group) for of_group in labels]
    is_test = np.concatenate([np.arange(size) >= int((1 - test_share) * size) for size in sizes])
    every = ImageSet(
        np.concatenate(inputs), np.concatenate(labels), np.repeat(np.arange(len(sizes)), sizes), tuple(names)
    )
    return every.take(np.flatnonzero(~is_test)), every.take(np.flatnonzero(is_test))
