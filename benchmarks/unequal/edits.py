"""Changes to the clients' training images that `engine.partition` has no setting for yet.

An edit takes a generator, each client's training images and labels and the hidden groups, and returns the
last two changed. Groups are dealt to the clients in random order. The order of the draws is part of the
stored rounds: a change here makes other federations.

Shapes: K clients, N images of a client.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Held = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""A client's training images, shape (N, channels, height, width), and labels, shape (N,)."""
Groups = NDArray[np.int64]
Edit = Callable[[np.random.Generator, Sequence[Held], Groups], tuple[list[Held], Groups]]
NUM_CLASSES = 10


def dealt(rng: np.random.Generator, sizes: Sequence[int]) -> Groups:
    """Return the hidden group of each client, shape (K,), for groups of these sizes."""
    return rng.permutation(np.repeat(np.arange(len(sizes)), sizes))


def rotated(sizes: Sequence[int]) -> Edit:
    """Turn the images of group g by g quarters of a full turn."""

    def edit(rng: np.random.Generator, held_K: Sequence[Held], _: Groups) -> tuple[list[Held], Groups]:
        groups_K = dealt(rng, sizes)
        pairs = zip(held_K, groups_K, strict=True)
        return [(np.rot90(images, group, axes=(2, 3)), labels) for (images, labels), group in pairs], groups_K

    return edit


def flipped(sizes: Sequence[int]) -> Edit:
    """Replace each label of group g by (label - g) mod L."""

    def edit(rng: np.random.Generator, held_K: Sequence[Held], _: Groups) -> tuple[list[Held], Groups]:
        groups_K = dealt(rng, sizes)
        pairs = zip(held_K, groups_K, strict=True)
        return [(images, (labels - group) % NUM_CLASSES) for (images, labels), group in pairs], groups_K

    return edit


def swapped(sizes: Sequence[int]) -> Edit:
    """Exchange the labels 2g and 2g + 1 of group g."""

    def edit(rng: np.random.Generator, held_K: Sequence[Held], _: Groups) -> tuple[list[Held], Groups]:
        groups_K = dealt(rng, sizes)
        changed = []
        for (images, labels), group in zip(held_K, groups_K, strict=True):
            new_L = np.arange(NUM_CLASSES)
            new_L[[2 * group, 2 * group + 1]] = 2 * group + 1, 2 * group
            changed.append((images, new_L[labels]))
        return changed, groups_K

    return edit


def thinned(least: float, first: Edit | None = None) -> Edit:
    """Leave each client a share of its images, from `least` to 1, uniform on a logarithmic scale.

    Args:
        least: the smallest share; three images always stay.
        first: an edit that comes before.
    """

    def edit(rng: np.random.Generator, held_K: Sequence[Held], groups_K: Groups) -> tuple[list[Held], Groups]:
        if first is not None:
            held_K, groups_K = first(rng, held_K, groups_K)
        changed = []
        for images, labels in held_K:
            share = np.exp(rng.uniform(np.log(least), 0.0))
            count = max(3, round(len(labels) * share))
            kept = rng.permutation(len(labels))[:count]
            changed.append((images[kept], labels[kept]))
        return changed, groups_K

    return edit


def of_classes(count: int) -> Edit:
    """Leave each client its images of the first classes."""

    def edit(_: np.random.Generator, held_K: Sequence[Held], groups_K: Groups) -> tuple[list[Held], Groups]:
        return [(images[labels < count], labels[labels < count]) for images, labels in held_K], groups_K

    return edit
