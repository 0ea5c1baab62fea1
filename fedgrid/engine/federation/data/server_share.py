"""The server's test set of data that come without one: a seeded share of the rows.

Shapes: N examples, U units, L classes.
"""

from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.images import ImageSet, Labels, Pair, Subjects
from fedgrid.engine.federation.errors import DataError
from fedgrid.engine.federation.seeds import make_generator

DEFAULT_SHARE = 0.2
"""The share where the user names none."""


def draw_test_rows(
    source: str, labels_N: Labels, share: float, subjects_N: Subjects | None = None
) -> NDArray[np.bool_]:
    """Draw which examples are the server's test set, the same whatever the run.

    Of each class it is `share` of the units, rounded up, but never all. A unit is an example, or all examples
    of a subject, which counts to its most frequent class. Numbers to predict count as one class.

    Args:
        source: what messages call the data.
        labels_N: classes, or numbers to predict.
        share: share of each class, above 0 and below 1.
        subjects_N: the subject of each example. Default: each example is a unit.

    Returns:
        Shape (N,), True for the server's test set.

    Raises:
        DataError: no class has two units.
    """
    if labels_N.dtype == np.float32:
        labels_N = np.zeros(len(labels_N), np.int64)
    class_U, unit_N = labels_N, np.arange(len(labels_N))
    if subjects_N is not None:
        _, unit_N = np.unique(subjects_N, return_inverse=True)
        counts_UL = np.zeros((unit_N.max() + 1, labels_N.max() + 1), np.int64)
        np.add.at(counts_UL, (unit_N, labels_N), 1)
        class_U = counts_UL.argmax(axis=1)
    # Seed 0 and not the run's: the server's test set is part of the data, as the official one of a published
    # data set.
    rng = make_generator(0, "the server's test set")
    is_test_U = np.zeros(len(class_U), bool)
    for label in np.unique(class_U):
        members = np.flatnonzero(class_U == label)
        # In decimals: ceil(0.1 * 30) is 4 in binary floating point, as 0.1 is a little more than a tenth.
        count = min(ceil(Fraction(repr(share)) * len(members)), len(members) - 1)
        is_test_U[rng.permutation(members)[:count]] = True
    if not is_test_U.any():
        unit = "examples" if subjects_N is None else "subjects"
        raise DataError(
            f"{source}: no class has two {unit}, so none can be put aside as the server's test set"
        )
    return is_test_U[unit_N]


def separate_tests(images: ImageSet, is_test_N: NDArray[np.bool_]) -> Pair:
    """Separate the pool from the server's test set, each in the order of the examples."""
    return images.take(np.flatnonzero(~is_test_N)), images.take(np.flatnonzero(is_test_N))
