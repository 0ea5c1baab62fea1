"""Overlapping and non-overlapping groups: clients draw images from the classes of their hidden group.

Non-overlapping groups share no class, overlapping ones do. Each client draws floor(pool / clients) images
WITH replacement from the classes of its group and drops its own duplicates. Balanced groups are of equal size
and draw evenly from their images, so classes have their natural frequencies. Three imbalanced groups have 20,
47 and 33 % of the clients; each has one vector of class shares for all its clients, drawn from a symmetric
Dirichlet distribution.

Source: the class counts of the forty blueprints of the OCFL papers' authors; the papers' text differs in
places (it has uniform class frequencies).

Shapes: K clients, C groups (`num_clusters`), L classes, N images.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.dataset import Facts
from fedgrid.engine.federation.data.partition import Partition, Positions
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.kind import ImagePool, Rngs, SplitKind
from fedgrid.engine.federation.partition.scenarios import (
    Scenario,
    compute_class_sets,
    compute_cluster_sizes,
    find_cluster_sizes,
    list_groups,
    read_published_shares,
)
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.seeds import make_generator

Shares = NDArray[np.float64]


class DrawSplit(SplitKind):
    """A kind in which clients draw images from the classes of their hidden group."""

    OPTIONS: tuple[str, ...] = ("num_clusters", "draws", "sizes")
    IDLE: tuple[str, ...] = ("alpha", "proportions")
    BY_CLASS = True
    IMAGES_ARE_SHARED = True
    CAN_MOVE = True

    def check_settings(self, scenario: Scenario, facts: Facts, split: Split, seed: int) -> None:
        """Check that groups, classes and clients fit."""
        if split.alpha is None:
            raise ConfigError(
                f"split.alpha = null: split {scenario.split} needs a number above 0; leave it out for 1",
                ("split", "alpha"),
            )
        with _error_context(f"split.num_clusters = {split.num_clusters}: ", "split", "num_clusters"):
            compute_class_sets(facts.num_classes, split.num_clusters, scenario.overlap)
        with _error_context(f"clients = {scenario.num_clients}: ", "clients"):
            compute_cluster_sizes(scenario.num_clients, split.num_clusters, scenario.balance)
        if split.proportions == "published":
            with _error_context("", "split", "proportions"):
                # Published shares do not depend on the counts; the call only checks that there are some.
                compute_class_shares(scenario, [1] * facts.num_classes, split, seed)

    def deal_images(
        self, scenario: Scenario, pool: ImagePool, split: Split, seed: int, rngs_K: Rngs
    ) -> Partition:
        """Draw the images of each client from the classes of its hidden group."""
        group_K = self.list_groups(scenario, split)
        return Partition(group_K, _draw_for_each(scenario, pool, split, seed, rngs_K, group_K))

    def list_groups(self, scenario: Scenario, split: Split) -> list[int]:
        """List the hidden group of each client."""
        return list_groups(split.sizes or find_cluster_sizes(scenario, split.num_clusters))

    def draw_again(
        self,
        scenario: Scenario,
        pool: ImagePool,
        split: Split,
        seed: int,
        rng: np.random.Generator,
        group: int,
    ) -> Positions:
        """Draw images of the new group's classes, by the rule of the first draw.

        Args:
            scenario: data set, kind of split and number of clients.
            pool: the images, as positions.
            split: the settings.
            seed: the run's seed, which class shares are drawn with.
            rng: generator of this move.
            group: the new hidden group.
        """
        [held] = _draw_for_each(scenario, pool, split, seed, [rng], [group])
        return held

    def expected_images(self, scenario: Scenario, facts: Facts, split: Split, seed: int) -> float:
        """Estimate how many images all clients hold together.

        Of N images of a class, d draws that fall on it with probability p leave N (1 - (1 - p / N)^d).

        Args:
            scenario: data set, kind of split and number of clients.
            facts: what is known of the data set.
            split: the settings.
            seed: the run's seed, which class shares are drawn with.
        """
        pool_size, num_classes = facts.pool_size, facts.num_classes
        class_size = pool_size / num_classes
        draws = count_draws(pool_size, scenario.num_clients, split.draws)
        shares_C = compute_class_shares(scenario, [pool_size // num_classes] * num_classes, split, seed)
        return sum(
            size * float((class_size * (1 - (1 - shares / class_size) ** draws)).sum())
            for size, shares in zip(
                split.sizes or find_cluster_sizes(scenario, split.num_clusters), shares_C, strict=True
            )
        )


class ShareDrawSplit(DrawSplit):
    """A kind in which clients draw by class shares that their hidden group has to itself."""

    OPTIONS: tuple[str, ...] = (*DrawSplit.OPTIONS, "alpha", "proportions")
    IDLE: tuple[str, ...] = ()


def _draw_for_each(
    scenario: Scenario, pool: ImagePool, split: Split, seed: int, rngs: Rngs, clusters: Sequence[int]
) -> list[Positions]:
    """Draw images for the cluster at the same place as each generator."""
    positions_L = pool.positions_L
    counts_L = [len(positions) for positions in positions_L]
    # Draws from an empty class would fail only at the client whose turn it is.
    if 0 in counts_L:
        raise ConfigError(
            f"split {scenario.split} draws from every class, and the pool has no example of class "
            f"{counts_L.index(0)}; take another split, such as dirichlet",
            ("split", "kind"),
        )
    sets = compute_class_sets(len(counts_L), split.num_clusters, scenario.overlap)
    shares = compute_class_shares(scenario, counts_L, split, seed)
    draws = count_draws(sum(counts_L), scenario.num_clients, split.draws)
    return [
        draw_images(rng, [positions_L[label] for label in sets[cluster]], shares[cluster], draws)
        for rng, cluster in zip(rngs, clusters, strict=True)
    ]


def compute_class_shares(
    scenario: Scenario, counts_L: Sequence[int], split: Split, seed: int
) -> tuple[Shares, ...]:
    """Compute each group's class shares, in the order of its class set; each sums to one.

    Args:
        scenario: data set, kind of split and number of clients.
        counts_L: images of each class in the pool; the shares of a balanced group are proportional to them.
        split: the settings.
        seed: the run's seed, for drawn shares.

    Raises:
        ConfigError: no published shares for this scenario and number of groups.
    """
    sets = compute_class_sets(len(counts_L), split.num_clusters, scenario.overlap)
    if scenario.balance == "balanced":
        counts_C = [np.array([counts_L[label] for label in labels], float) for labels in sets]
        return tuple(counts / counts.sum() for counts in counts_C)
    if split.proportions == "published":
        shares = read_published_shares(scenario)
        if [len(share) for share in shares] != [len(labels) for labels in sets]:
            raise ConfigError(
                f"split.proportions 'published' of '{scenario.name}' is for {len(shares)} clusters and the "
                f"data set's own classes, not {split.num_clusters} clusters of {len(counts_L)} classes; "
                "take 'drawn'"
            )
        return shares
    return tuple(
        make_generator(seed, f"class shares of {scenario.seed_text}, cluster {cluster}").dirichlet(
            np.full(len(labels), split.alpha)
        )
        for cluster, labels in enumerate(sets)
    )


def count_draws(pool_size: int, num_clients: int, draws: int | None) -> int:
    """Count the draws of a client: `draws` if given, else floor(pool / clients).

    Raises:
        ConfigError: more clients than images.
    """
    if draws is not None:
        return draws
    if num_clients > pool_size:
        raise ConfigError(
            f"{num_clients} clients cannot share {pool_size} images; "
            f"take at most {pool_size} clients or set split.draws"
        )
    return pool_size // num_clients


def draw_images(
    rng: np.random.Generator, positions_by_label: Sequence[Positions], shares: Shares, draws: int
) -> Positions:
    """Draw with replacement, a class by `shares` and then one of its images; each image is held once.

    Args:
        rng: the client's generator.
        positions_by_label: positions of each class of the group.
        shares: probability of each of these classes.
        draws: number of draws; fewer images result, as duplicates are dropped.
    """
    # The authors' rule, inferred from the class counts of their blueprints: classes by one multinomial draw,
    # then images with replacement.
    counts = rng.multinomial(draws, shares)
    drawn = [
        rng.choice(positions, size=count)
        for positions, count in zip(positions_by_label, counts.tolist(), strict=True)
    ]
    return np.unique(np.concatenate(drawn))


@contextmanager
def _error_context(prefix: str, *key: str) -> Iterator[None]:
    """Put what was set in front of an error's message, and name its key."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{prefix}{error}", key) from error


BALANCED, IMBALANCED = DrawSplit(), ShareDrawSplit()
