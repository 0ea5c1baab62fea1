"""Cut each client's images into those it trains on and those it is scored on.

Either each client has a cut of its own (`cut_each`), or one cut of the pool holds for all clients
(`cut_for_all`): a seeded share of each class is for scores, wherever those images are. With
`split.tested_on='official'` there is no cut for tests: clients train on all their images.

Shapes: K clients, L classes.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.images import Positions
from fedgrid.engine.federation.partition.scenarios import Rngs
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.seeds import generator

Cuts: TypeAlias = list[tuple[Positions, Positions]]
"""For each client, the images it trains on and those it is scored on."""


def cut_each(held_K: Sequence[Positions], rngs_K: Rngs, split: Split, seed: int, scenario: str) -> Cuts:
    """Cut each client's images: `test_share` of them, rounded up, are its test set.

    With `scored_on='validation'` the test set stays unused and the training images are cut again, by the same
    share; the client is scored on the second part.
    """
    cuts = _uncut(held_K) if split.tested_on == "official" else _by_client(held_K, rngs_K, split)
    if split.scored_on == "test":
        return cuts
    again_K = [generator(seed, f"validation of {scenario}", client=client) for client in range(len(held_K))]
    return _by_client([train for train, _ in cuts], again_K, split)


def cut_for_all(
    held_K: Sequence[Positions], positions_L: Sequence[Positions], split: Split, seed: int, scenario: str
) -> Cuts:
    """Cut by image, so that no client trains on an image that any client is scored on.

    With `scored_on='validation'` the test images stay unused, and `test_share` of the rest of each class is
    for the scores of all clients.
    """
    if split.tested_on == "official":
        cuts, left_L = _uncut(held_K), positions_L
    else:
        is_test = common_test(positions_L, split.test_share, generator(seed, f"common test of {scenario}"))
        cuts = _by_image(held_K, is_test)
        left_L = [positions[~is_test[positions]] for positions in positions_L]
    if split.scored_on == "test":
        return cuts
    rng = generator(seed, f"common validation of {scenario}")
    return _by_image([train for train, _ in cuts], common_test(left_L, split.test_share, rng))


def cut(rng: np.random.Generator, held: Positions, test_share: float) -> tuple[Positions, Positions]:
    """Cut a client's images at random into train and test; test has `test_share` of them, rounded up."""
    num_test = share_of(len(held), test_share)
    shuffled = rng.permutation(held)
    return np.sort(shuffled[num_test:]), np.sort(shuffled[:num_test])


def common_test(
    positions_L: Sequence[Positions], test_share: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Choose `test_share` of each class, rounded up but never the whole class, as test images.

    Returns:
        For each position in the pool, up to the last one in `positions_L`: whether it is a test image.
    """
    is_test = np.zeros(1 + max(positions.max() for positions in positions_L), bool)
    for positions in positions_L:
        num_test = min(share_of(len(positions), test_share), len(positions) - 1)
        is_test[rng.permutation(positions)[:num_test]] = True
    return is_test


def share_of(count: int, share: float) -> int:
    """Return `share` of `count`, rounded up; computed in decimals, so that 0.1 of 30 is 3 and not 4."""
    return ceil(Fraction(repr(share)) * count)


def _uncut(held_K: Sequence[Positions]) -> Cuts:
    """Leave all images for training: the client's test images come from elsewhere."""
    return [(held, held[:0]) for held in held_K]


def _by_client(held_K: Sequence[Positions], rngs_K: Rngs, split: Split) -> Cuts:
    return [cut(rng, held, split.test_share) for rng, held in zip(rngs_K, held_K, strict=True)]


def _by_image(held_K: Sequence[Positions], is_test: NDArray[np.bool_]) -> Cuts:
    return [(held[~is_test[held]], held[is_test[held]]) for held in held_K]
