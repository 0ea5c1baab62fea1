"""Dirichlet: each class is cut among the clients by shares from a symmetric Dirichlet distribution.

Class by class: draw shares for all clients, set those of clients that hold N / K images or more to zero,
rescale, and cut the class, in a seeded order, by the cumulative shares. The whole draw is repeated until each
client has ten images, at most 1000 times. Every image of the pool has exactly one client.

There are no hidden groups: all clients count as one, and no score compares clusters with groups.

Source: Yurochkin et al., Bayesian Nonparametric Federated Learning of Neural Networks, ICML 2019, as in the
code of NIID-Bench, FLIS (alpha 0.1) and Prigent et al. (alpha 10), where draws are repeated without end.

Shapes: K clients, L classes, N images.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.errors import ConfigError

if TYPE_CHECKING:
    from fedgrid.engine.federation.data.partition import Positions
    from fedgrid.engine.federation.partition.scenarios import Scenario

MIN_IMAGES = 10
"""Images that each client has at least."""
MAX_DRAWS = 1000
"""Draws before an alpha is refused. With alpha 0.1 about one draw in five is valid for 100 clients of
CIFAR-10, with 0.05 none in hundreds."""


def check_pool_size(scenario: Scenario, pool_size: int) -> None:
    """Check that the pool is large enough for every client to have `MIN_IMAGES`.

    Raises:
        ConfigError: the pool is too small.
    """
    if scenario.num_clients * MIN_IMAGES > pool_size:
        raise ConfigError(
            f"clients = {scenario.num_clients}: with split {scenario.split} each needs {MIN_IMAGES} of "
            f"{pool_size} images; take at most {pool_size // MIN_IMAGES}",
            ("clients",),
        )


def deal_by_shares(
    positions_L: Sequence[Positions], num_clients: int, alpha: float | None, rng: np.random.Generator
) -> list[Positions]:
    """Deal every image to one of K clients, and list each client's positions, ascending.

    Args:
        positions_L: positions of each class, which may be empty.
        num_clients: K.
        alpha: concentration; None deals each class evenly, so that no two clients differ by more than one
            image, of a class or altogether.
        rng: generator of the deal.

    Raises:
        ConfigError: no draw gave each client enough images.
    """
    shuffled_L = [rng.permutation(positions) for positions in positions_L]
    if alpha is None:
        # One deal through all classes, not one a class: the remainders of the classes would all go to the
        # first clients.
        in_turn = np.concatenate(shuffled_L)
        return [np.sort(in_turn[client::num_clients]) for client in range(num_clients)]
    counts_LK = draw_valid_counts([len(positions) for positions in positions_L], num_clients, alpha, rng)
    parts_LK = [
        np.split(positions, counts_K.cumsum()[:-1])
        for positions, counts_K in zip(shuffled_L, counts_LK, strict=True)
    ]
    return [np.sort(np.concatenate(parts)) for parts in zip(*parts_LK, strict=True)]


def draw_valid_counts(
    sizes_L: Sequence[int], num_clients: int, alpha: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw the number of images of each class for each client, shape (L, K), until a draw is valid.

    Args:
        sizes_L: number of images of each class.
        num_clients: K.
        alpha: concentration.
        rng: generator of the deal.

    Raises:
        ConfigError: none of `MAX_DRAWS` draws is valid.
    """
    for _ in range(MAX_DRAWS):
        counts_LK = _draw_counts(sizes_L, num_clients, alpha, rng)
        if counts_LK is not None and counts_LK.sum(axis=0).min() >= MIN_IMAGES:
            return counts_LK
    raise ConfigError(
        f"split.alpha = {alpha}: none of {MAX_DRAWS} draws gives each of {num_clients} clients at least "
        f"{MIN_IMAGES} of {sum(sizes_L)} images; take a larger one or fewer clients",
        ("split", "alpha"),
    )


def _draw_counts(
    sizes_L: Sequence[int], num_clients: int, alpha: float, rng: np.random.Generator
) -> NDArray[np.int64] | None:
    """Draw the counts once, shape (L, K); None if all shares of a class vanish."""
    counts_LK = np.zeros((len(sizes_L), num_clients), np.int64)
    held_K = np.zeros(num_clients, np.int64)
    for size, counts_K in zip(sizes_L, counts_LK, strict=True):
        shares_K = rng.dirichlet(np.full(num_clients, alpha))
        # The source's balance: a client that holds its even share of all images gets none of this class.
        shares_K[held_K * num_clients >= sum(sizes_L)] = 0
        total = shares_K.sum()
        if not total > 0:
            return None
        stops_K = (shares_K / total).cumsum()
        # The sum of the shares may round to less than one, and an image would be lost.
        stops_K[-1] = 1
        # Cut points are rounded down, not the shares: the parts then add up to the class.
        counts_K[:] = np.diff((stops_K * size).astype(np.int64), prepend=0)
        held_K += counts_K
    return counts_LK
