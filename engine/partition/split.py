"""Split a pool of images among clients, and each client's images into training and test set.

The kind of scenario (`engine.partition.kinds`) decides which client holds which images. The cut into training
and test images (`engine.partition.holdouts`) is the same for every kind: 30 % of a client's images, rounded
up, are its test set.

The published splits LEAK: clients draw independently, so 43 to 52 % of a client's test images are in the
training set of another client. This inflates the scores of every algorithm that trains clients together, so
it is done with `test_leakage='published'` only, as in the `paper` presets. Else a seeded 30 % of each class
is test data for every client, the rest is training data. Clients hold the same images either way; the sizes
of a client's two sets are then right in expectation instead of exactly. A kind whose clients share no images
never leaks.

Shapes: K clients, L classes, N images.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedgrid.engine.data.images import ClassLabels, ImageSet, Positions
from fedgrid.engine.errors import ConfigError, DataError
from fedgrid.engine.partition import kinds
from fedgrid.engine.partition.groups import Balance
from fedgrid.engine.partition.holdouts import cut_each, cut_for_all
from fedgrid.engine.partition.scenarios import Scenario
from fedgrid.engine.partition.settings import Split
from fedgrid.engine.seeds import generator


@dataclass(frozen=True)
class ClientSplit:
    """Images of one client, as positions in the pool: ascending, unique, train and test disjoint."""

    client: int
    cluster: int
    """Hidden group, from 0."""
    train: Positions
    test: Positions
    """Images it is scored on. With `split.scored_on='validation'` none of them is in its test set."""


def split_pool(
    pool_labels: ClassLabels,
    *,
    dataset: str,
    num_classes: int,
    overlap: str,
    balance: Balance,
    num_clients: int,
    split: Split,
    seed: int,
) -> tuple[ClientSplit, ...]:
    """Return the images of each of K clients. A pure function.

    Args:
        pool_labels: int64, shape (N,), 0..L-1, every class present.
        dataset: name of the data set; with the other choices it names the scenario, and different
            scenarios draw independently. The path of a user's own images has no effect.
        num_classes: L.
        overlap: the kind of scenario, a key of `engine.partition.kinds.KINDS`.
        balance: whether hidden groups have equal sizes.
        num_clients: K.
        split: settings.
        seed: the run's seed.

    Raises:
        ConfigError: the settings do not fit the pool or one another.
        DataError: a class without images, or a label that is no class.
    """
    scenario = Scenario(dataset.partition(":")[0], overlap, balance, num_clients)
    kinds.check(scenario, num_classes, split, seed)
    kind = kinds.kind_of(overlap)
    positions_L = positions_by_class(pool_labels, num_classes)
    rngs_K = [generator(seed, f"split of {scenario.name}", client=client) for client in range(num_clients)]
    cluster_K, held_K = kind.deal(scenario, positions_L, split, seed, rngs_K)
    if split.test_leakage == "none" and kind.IMAGES_ARE_SHARED:
        cuts_K = cut_for_all(held_K, positions_L, split, seed, scenario.name)
    else:
        cuts_K = cut_each(held_K, rngs_K, split, seed, scenario.name)
    for client, (train, test) in enumerate(cuts_K):
        _require_both(client, train, test, split.scored_on)
    return tuple(
        ClientSplit(client, cluster, *parts)
        for client, (cluster, parts) in enumerate(zip(cluster_K, cuts_K, strict=True))
    )


def positions_by_class(pool_labels: ClassLabels, num_classes: int) -> tuple[Positions, ...]:
    """Return the positions of each class in the pool, ascending.

    Raises:
        DataError: a class without images, or a label that is no class.
    """
    outside = (pool_labels < 0) | (pool_labels >= num_classes)
    if outside.any():
        raise DataError(
            f"label {pool_labels[outside][0]} at position {np.flatnonzero(outside)[0]} of the pool "
            f"is no class; allowed: 0 to {num_classes - 1}"
        )
    positions_L = tuple(np.flatnonzero(pool_labels == label) for label in range(num_classes))
    for label, positions in enumerate(positions_L):
        if len(positions) == 0:
            raise DataError(f"class {label} has no images in the pool; remove the class or add images")
    return positions_L


def leakage(splits: Sequence[ClientSplit]) -> float:
    """Return the share of a client's test images that any other client trains on, mean over clients."""
    every_train = np.unique(np.concatenate([split.train for split in splits]))
    return float(np.mean([np.isin(split.test, every_train).mean() for split in splits]))


def server_subset(server: ImageSet, count: int | None, seed: int) -> ImageSet:
    """Return `count` images of the server's test set, drawn with the seed; None returns the whole set.

    Raises:
        ConfigError: `count` is more than there are.
    """
    if count is None:
        return server
    if count > len(server):
        raise ConfigError(
            f"split.server_images {count} is more than the {len(server)} images of the server's test set; "
            f"take at most {len(server)}, or leave it out for all"
        )
    return server.take(generator(seed, "server images").permutation(len(server))[:count])


def _require_both(client: int, train: Positions, scored: Positions, scored_on: str) -> None:
    if len(train) == 0 or len(scored) == 0:
        raise ConfigError(
            f"client {client} would hold {len(train)} training and {len(scored)} {scored_on} images, "
            "but needs at least one of each; take fewer clients or more split.draws"
        )
