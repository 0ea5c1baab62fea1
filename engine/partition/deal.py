"""Deal a pool of images out to clients, by the rule of the OCFL papers' blueprints.

Every client draws floor(pool / clients) images WITH replacement from its cluster's classes, drops its own
duplicates, and keeps 30 % (rounded up) as its local test set. Balanced clusters draw evenly from their
images, so classes have their natural frequencies; an imbalanced cluster has one vector of class shares,
from a symmetric Dirichlet, for all its clients. (Read from the class counts of the authors' forty
blueprints; the papers' text differs in places.)

The published splits LEAK: clients draw independently, so 43 to 52 % of a client's test images are in the
training set of another client. Scores on them flatter whatever trains clients together.
`test_leakage='none'` removes this: a seeded 30 % of each class is test for everybody and the rest is for
training, and of the images a client drew each goes where it belongs. Draws, images and class shares of a
client stay what they were; the sizes of its two sets are right in expectation instead of exactly.

Overlap majority has a rule of its own: `engine.partition.majority`. What a client is scored on:
`engine.partition.holdouts`.

Shapes: K clients, C clusters, L classes, N images.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.data.images import ClassLabels, ImageSet
from fedgrid.engine.errors import ConfigError, DataError
from fedgrid.engine.partition import majority
from fedgrid.engine.partition.groups import Balance, Overlap, class_sets, cluster_sizes
from fedgrid.engine.partition.holdouts import Positions, cut_each, cut_for_all
from fedgrid.engine.partition.scenarios import (
    EQUAL_SIZES_AS_PUBLISHED,
    PUBLISHED_NUM_CLUSTERS,
    SCENARIOS,
    Scenario,
    published_shares,
)
from fedgrid.engine.partition.settings import Split
from fedgrid.engine.seeds import generator

__all__ = [
    "SCENARIOS",
    "Balance",
    "ClientSplit",
    "Overlap",
    "Scenario",
    "class_sets",
    "class_shares",
    "cluster_sizes",
    "draw",
    "leakage",
    "server_subset",
    "split_pool",
]

Shares = NDArray[np.float64]


@dataclass(frozen=True)
class ClientSplit:
    """What one client holds, as positions into the pool: ascending, each once, train and test disjoint."""

    client: int
    cluster: int
    """Hidden group, from 0."""
    train: Positions
    test: Positions
    """What it is scored on: with `split.scored_on='validation'` no image of its test set."""


def split_pool(
    pool_labels: ClassLabels,
    *,
    dataset: str,
    num_classes: int,
    overlap: Overlap,
    balance: Balance,
    num_clients: int,
    split: Split,
    seed: int,
) -> tuple[ClientSplit, ...]:
    """Return what each of K clients holds. A pure function.

    Args:
        pool_labels: int64, shape (N,), 0..L-1, every class present.
        dataset: Name of the data set; with the other choices it names the scenario, and different
            scenarios draw independently. Where the user's own images lie makes no difference.

    Raises:
        ConfigError: the choices do not fit the pool or one another.
        DataError: a class without images, or a label that is no class.
    """
    scenario = Scenario(dataset.partition(":")[0], overlap, balance, num_clients)
    majority.check(scenario, num_classes, split)
    positions_L = positions_by_class(pool_labels, num_classes)
    rngs_K = [generator(seed, f"split of {scenario.name}", client=client) for client in range(num_clients)]
    if overlap == "majority":
        cluster_K = majority.groups_of_clients(scenario, num_classes, split)
        held_K = majority.deal(positions_L, scenario, split, seed)
    else:
        cluster_K = np.repeat(np.arange(split.num_clusters), sizes_of(scenario, split.num_clusters)).tolist()
        held_K = _draw_each(rngs_K, cluster_K, positions_L, scenario, split, seed)
    if split.test_leakage == "none" and overlap != "majority":
        cuts_K = cut_for_all(held_K, positions_L, split, seed, scenario.name)
    else:
        cuts_K = cut_each(held_K, rngs_K, split, seed, scenario.name)
    for client, (train, test) in enumerate(cuts_K):
        _require_both(client, train, test, split.scored_on)
    return tuple(
        ClientSplit(client, cluster, *parts)
        for client, (cluster, parts) in enumerate(zip(cluster_K, cuts_K, strict=True))
    )


def _draw_each(
    rngs_K: Sequence[np.random.Generator],
    cluster_K: Sequence[int],
    positions_L: Sequence[Positions],
    scenario: Scenario,
    split: Split,
    seed: int,
) -> list[Positions]:
    counts_L = [len(positions) for positions in positions_L]
    sets = class_sets(len(counts_L), split.num_clusters, scenario.overlap)
    shares = class_shares(scenario, counts_L, split, seed)
    draws = draws_per_client(sum(counts_L), scenario.num_clients, split.draws)
    return [
        draw(rng, [positions_L[label] for label in sets[cluster]], shares[cluster], draws)
        for rng, cluster in zip(rngs_K, cluster_K, strict=True)
    ]


def positions_by_class(pool_labels: ClassLabels, num_classes: int) -> tuple[Positions, ...]:
    """Return the positions of each class in the pool, ascending."""
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


def sizes_of(scenario: Scenario, num_clusters: int) -> tuple[int, ...]:
    """Return the clients of each cluster, with the one exception among the published scenarios."""
    if scenario.name == EQUAL_SIZES_AS_PUBLISHED and num_clusters == PUBLISHED_NUM_CLUSTERS:
        return cluster_sizes(scenario.num_clients, num_clusters, "balanced")
    return cluster_sizes(scenario.num_clients, num_clusters, scenario.balance)


def class_shares(scenario: Scenario, counts_L: Sequence[int], split: Split, seed: int) -> tuple[Shares, ...]:
    """Return each cluster's shares of draws, in the order of its class set.

    Args:
        counts_L: Images of each class in the pool; a balanced cluster's shares are in their proportion.
    """
    sets = class_sets(len(counts_L), split.num_clusters, scenario.overlap)
    if scenario.balance == "balanced":
        counts_C = [np.array([counts_L[label] for label in labels], float) for labels in sets]
        return tuple(counts / counts.sum() for counts in counts_C)
    if split.proportions == "published":
        shares = published_shares(scenario)
        if [len(share) for share in shares] != [len(labels) for labels in sets]:
            raise ConfigError(
                f"split.proportions 'published' of '{scenario.name}' is for {len(shares)} clusters and the "
                f"data set's own classes, not {split.num_clusters} clusters of {len(counts_L)} classes; "
                "take 'drawn'"
            )
        return shares
    return tuple(
        generator(seed, f"class shares of {scenario.name}, cluster {cluster}").dirichlet(
            np.full(len(labels), split.alpha)
        )
        for cluster, labels in enumerate(sets)
    )


def draws_per_client(pool_size: int, num_clients: int, draws: int | None) -> int:
    """Return the draws a client makes: `draws` if given, else floor(pool / clients)."""
    if draws is not None:
        return draws
    if num_clients > pool_size:
        raise ConfigError(
            f"{num_clients} clients cannot share {pool_size} images; "
            f"take at most {pool_size} clients or set split.draws"
        )
    return pool_size // num_clients


def draw(
    rng: np.random.Generator, positions_by_label: Sequence[Positions], shares: Shares, draws: int
) -> Positions:
    """Draw with replacement, a class by `shares` and then one of its images; return each image once."""
    counts = rng.multinomial(draws, shares)
    drawn = [
        rng.choice(positions, size=count)
        for positions, count in zip(positions_by_label, counts.tolist(), strict=True)
    ]
    return np.unique(np.concatenate(drawn))


def leakage(splits: Sequence[ClientSplit]) -> float:
    """Return the share of a client's test images that any other client trains on, mean over clients."""
    every_train = np.unique(np.concatenate([split.train for split in splits]))
    return float(np.mean([np.isin(split.test, every_train).mean() for split in splits]))


def server_subset(server: ImageSet, count: int | None, seed: int) -> ImageSet:
    """Return the first `count` images of a seeded order of the server's test set; None is all of it."""
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
            f"client {client} would hold {len(train)} training and {len(scored)} {scored_on} images, at least"
            " one of each is needed; take fewer clients or more split.draws"
        )
