"""Cut what clients hold into what they train on and what they are scored on.

A cut is each client's own, or one for everybody: a seeded share of each class is set apart, and of the
images a client holds each goes where it belongs.

Shapes: K clients, L classes.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.partition.settings import Split
from fedgrid.engine.seeds import generator

Positions: TypeAlias = NDArray[np.int64]
Cuts: TypeAlias = list[tuple[Positions, Positions]]
"""Of each client, what it trains on and what it is scored on."""


def cut_each(
    held_K: Sequence[Positions],
    rngs_K: Sequence[np.random.Generator],
    split: Split,
    seed: int,
    scenario: str,
) -> Cuts:
    """Return each client's own cut: `test_share` of what it holds, rounded up, is for its scores.

    With `scored_on='validation'` it lies untouched, and what the client trains on is cut again likewise.
    """
    cuts = _by_client(held_K, rngs_K, split)
    if split.scored_on == "test":
        return cuts
    again_K = [generator(seed, f"validation of {scenario}", client=client) for client in range(len(held_K))]
    return _by_client([train for train, _ in cuts], again_K, split)


def cut_for_all(
    held_K: Sequence[Positions], positions_L: Sequence[Positions], split: Split, seed: int, scenario: str
) -> Cuts:
    """Return a cut by image, so that what anybody is scored on nobody trains on.

    With `scored_on='validation'` a second share of each class, of what is left of it, is for everybody's
    scores, and what the first one set apart is nobody's.
    """
    is_test = common_test(positions_L, split.test_share, generator(seed, f"common test of {scenario}"))
    cuts = _by_image(held_K, is_test)
    if split.scored_on == "test":
        return cuts
    left_L = [positions[~is_test[positions]] for positions in positions_L]
    rng = generator(seed, f"common validation of {scenario}")
    return _by_image([train for train, _ in cuts], common_test(left_L, split.test_share, rng))


def cut(rng: np.random.Generator, held: Positions, test_share: float) -> tuple[Positions, Positions]:
    """Cut a client's images into train and test; test has `test_share` of them, rounded up."""
    num_test = share_of(len(held), test_share)
    shuffled = rng.permutation(held)
    return np.sort(shuffled[num_test:]), np.sort(shuffled[:num_test])


def common_test(
    positions_L: Sequence[Positions], test_share: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Set apart `test_share` of each class, rounded up but never the whole class.

    Returns:
        By position in the pool, up to the last one that a class has: True where set apart.
    """
    is_test = np.zeros(1 + max(positions.max() for positions in positions_L), bool)
    for positions in positions_L:
        num_test = min(share_of(len(positions), test_share), len(positions) - 1)
        is_test[rng.permutation(positions)[:num_test]] = True
    return is_test


def share_of(count: int, share: float) -> int:
    """Return `share` of `count`, rounded up; decimal, so that 0.1 of 30 is 3 and not 4."""
    return ceil(Fraction(repr(share)) * count)


def _by_client(held_K: Sequence[Positions], rngs_K: Sequence[np.random.Generator], split: Split) -> Cuts:
    return [cut(rng, held, split.test_share) for rng, held in zip(rngs_K, held_K, strict=True)]


def _by_image(held_K: Sequence[Positions], is_test: NDArray[np.bool_]) -> Cuts:
    return [(held[~is_test[held]], held[is_test[held]]) for held in held_K]
