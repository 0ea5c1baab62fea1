"""Scenarios: the OCFL papers' forty, and sizes, classes and class shares of their hidden groups.

Sources: the authors' dataset blueprints. They hold class counts but no shares. The shares in
`published_shares.csv` are estimates, to three decimals: u different images of N result from about -N ln(1 -
u/N) draws. A class with few images can therefore have the share 0.000. The papers print class sets and sizes
of their groups (clusters) as lists, for three groups and 8, 9 or 10 classes; the rules here give the same
lists, and extend them to any number of groups, classes and clients.

Shapes: K clients, C clusters, L classes.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import accumulate, product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.names import find_seed_name
from fedgrid.engine.federation.errors import ConfigError

Balance = Literal["balanced", "imbalanced"]
IMBALANCED_WEIGHTS = (22, 47, 31)
"""Relative sizes of imbalanced clusters, repeated if there are more than three. They give 3/7/5 of 15 clients
and 7/14/9 of 30."""
PUBLISHED_DATASETS = ("mnist", "fmnist", "cifar10", "pathmnist", "bloodmnist")
PUBLISHED_SPLITS = (
    "nonoverlapping-balanced",
    "nonoverlapping-imbalanced",
    "overlapping-balanced",
    "overlapping-imbalanced",
)
IMBALANCED = ("nonoverlapping-imbalanced", "overlapping-imbalanced")
PUBLISHED_NUM_CLUSTERS = 3
CENTRALISED = "centralised"
"""Name of the kind of split that has one client."""


@dataclass(frozen=True)
class Scenario:
    """Data set, kind of split and number of clients: which client holds which images, up to the seed."""

    dataset: str
    """Name of the data set; of the user's own images only the format."""
    split: str
    """A key of `federation.dealing.kinds.KINDS`."""
    num_clients: int

    @property
    def name(self) -> str:
        """The scenario as one word: `mnist-15-overlapping-imbalanced`, `digits-20-rotated`."""
        return f"{self.dataset}-{self.num_clients}-{self.split}"

    @property
    def seed_text(self) -> str:
        """Text that random numbers are drawn for; all numbers of a split depend on it, so it never
        changes.
        """
        return format_seed_text(self.dataset, self.num_clients, self.split)

    @property
    def overlap(self) -> str:
        """`overlapping` or `nonoverlapping`: whether the groups of an OCFL split share classes."""
        return self.split.partition("-")[0]

    @property
    def balance(self) -> Balance:
        """`balanced` or `imbalanced`: whether the groups of an OCFL split have equal sizes."""
        return "imbalanced" if self.split in IMBALANCED else "balanced"


def format_seed_text(dataset: str, num_clients: int, split: str) -> str:
    """Format the text that a scenario draws random numbers for; every split of clients has a balance."""
    dataset = find_seed_name(dataset)
    if split == CENTRALISED:
        return f"{dataset}-{split}"
    # Splits had a balance in their names once; the suffix keeps the numbers of those that have none now.
    balanced = split if split in PUBLISHED_SPLITS else f"{split}-balanced"
    return f"{dataset}-{num_clients}-{balanced}"


def build_scenario(dataset: str, split: str, num_clients: int) -> Scenario:
    """Build the scenario of a run; of the user's own images only the format counts."""
    return Scenario(dataset.partition(":")[0], split, num_clients)


SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(dataset, split, num_clients)
        for dataset, num_clients, split in product(PUBLISHED_DATASETS, (15, 30), PUBLISHED_SPLITS)
    )
}
"""The papers' forty scenarios by name, in the order of their tables."""
EQUAL_SIZES_AS_PUBLISHED = "bloodmnist-30-overlapping-imbalanced"
"""The one imbalanced scenario whose blueprint has clusters of equal size (10/10/10)."""


def read_published_shares(scenario: Scenario) -> tuple[NDArray[np.float64], ...]:
    """Read the class shares of each cluster of a published imbalanced scenario; each sums to one.

    Raises:
        ConfigError: the papers have no such scenario.
    """
    table = _read_table()
    if scenario.name not in table:
        raise ConfigError(
            f"split.proportions 'published' has no class shares for '{scenario.name}'; "
            f"take 'drawn' or one of: {', '.join(table)}"
        )
    # Three decimals sum to 0.999 or 1.001, and `multinomial` needs one.
    return tuple(np.array(shares) / sum(shares) for shares in table[scenario.name])


@cache
def _read_table() -> dict[str, tuple[tuple[float, ...], ...]]:
    """Read scenario name -> shares of cluster 1, 2, 3, in the order of the cluster's class set."""
    text = (files("fedgrid.engine.federation.partition") / "published_shares.csv").read_text(encoding="utf-8")
    table: dict[str, tuple[tuple[float, ...], ...]] = {}
    for row in csv.DictReader(text.splitlines()):
        shares = tuple(float(share) for share in row["class_shares"].split())
        table[row["scenario"]] = (*table.get(row["scenario"], ()), shares)
    return table


def compute_class_sets(num_classes: int, num_clusters: int, overlap: str) -> tuple[tuple[int, ...], ...]:
    """Compute the classes of each cluster, ascending: C different sets.

    Non-overlapping sets partition the classes. Overlapping sets are arcs on the ring of classes 0..L-1; a
    class is in 1.5 to 1.8 sets on average.

    Raises:
        ConfigError: too few classes for C different sets.
    """
    if num_clusters > num_classes:
        raise ConfigError(
            f"{num_clusters} clusters need at least {num_clusters} classes, the data set has {num_classes}; "
            "take fewer clusters"
        )
    if overlap == "nonoverlapping":
        return _tile_classes(num_classes, num_clusters)
    if num_clusters == 2 and num_classes == 2:
        raise ConfigError("2 clusters cannot overlap on 2 classes; take nonoverlapping or 1 cluster")
    return _cut_arcs(num_classes, num_clusters)


def compute_cluster_sizes(num_clients: int, num_clusters: int, balance: Balance) -> tuple[int, ...]:
    """Compute the number of clients of each cluster: C numbers, each at least one, with sum K.

    Raises:
        ConfigError: more clusters than clients.
    """
    if num_clusters > num_clients:
        raise ConfigError(
            f"{num_clusters} clusters need at least {num_clusters} clients, not {num_clients}; "
            "take fewer clusters or more clients"
        )
    if balance == "balanced":
        return _divide_evenly(num_clients, num_clusters)
    weights = [IMBALANCED_WEIGHTS[cluster % len(IMBALANCED_WEIGHTS)] for cluster in range(num_clusters)]
    return _round_to_total(num_clients, weights)


def find_cluster_sizes(scenario: Scenario, num_clusters: int) -> tuple[int, ...]:
    """Find the number of clients of each group, with the one exception among the published scenarios."""
    if scenario.name == EQUAL_SIZES_AS_PUBLISHED and num_clusters == PUBLISHED_NUM_CLUSTERS:
        return compute_cluster_sizes(scenario.num_clients, num_clusters, "balanced")
    return compute_cluster_sizes(scenario.num_clients, num_clusters, scenario.balance)


def list_groups(sizes: Sequence[int]) -> list[int]:
    """List the group of each client where groups have these sizes, in the order of clients, shape (K,)."""
    return [group for group, size in enumerate(sizes) for _ in range(size)]


def check_sizes(sizes: Sequence[int], num_clusters: int, num_clients: int) -> None:
    """Check that the user's sizes are those of all groups and all clients.

    Raises:
        ConfigError: they are not.
    """
    if len(sizes) != num_clusters:
        raise ConfigError(
            f"split.sizes = {list(sizes)} has {len(sizes)} groups, but split.num_clusters = {num_clusters}; "
            "leave the latter out",
            ("split", "sizes"),
        )
    if sum(sizes) != num_clients:
        raise ConfigError(
            f"split.sizes = {list(sizes)} has {sum(sizes)} clients, but clients = {num_clients}; "
            f"take clients: {sum(sizes)}, or other sizes",
            ("split", "sizes"),
        )


def _divide_evenly(total: int, parts: int) -> tuple[int, ...]:
    """Divide a total into whole numbers that differ by at most one, larger ones first."""
    quotient, remainder = divmod(total, parts)
    return tuple(quotient + (part < remainder) for part in range(parts))


def _tile_classes(num_classes: int, num_clusters: int) -> tuple[tuple[int, ...], ...]:
    """Cut the classes into runs of nearly equal size; the run whose size differs is first (4/3/3, 2/3/3)."""
    sizes = _divide_evenly(num_classes, num_clusters)
    if 2 * (num_classes % num_clusters) > num_clusters:
        sizes = sizes[::-1]
    stops = tuple(accumulate(sizes))
    return tuple(tuple(range(stop - size, stop)) for size, stop in zip(sizes, stops, strict=True))


def _cut_arcs(num_classes: int, num_clusters: int) -> tuple[tuple[int, ...], ...]:
    """Cut arcs out of the ring of classes 0..L-1; each extends by half its step into the next one.

    The arcs go once round the ring. With more than two classes per cluster they go a little further, so that
    the last and the first arc share more classes than other neighbours. As in the papers, clusters are
    numbered backwards: the arc of the last one starts at class 0.
    """
    per_cluster = -(-num_classes // num_clusters)
    further = per_cluster // 2 if per_cluster > 2 else 0
    steps = _divide_evenly(num_classes + further, num_clusters)
    starts = (0, *accumulate(steps))
    # An arc of all classes would be the same set as another one's; the last class stays out.
    longest = num_classes if num_clusters == 1 else num_classes - 1
    arcs = []
    for start, step in zip(starts, steps, strict=False):
        # Half a step more, rounded up: the classes that an arc shares with the next one.
        length = min(step + -(-step // 2), longest)
        arcs.append(tuple(sorted(position % num_classes for position in range(start, start + length))))
    return tuple(reversed(arcs))


def _round_to_total(total: int, weights: list[int]) -> tuple[int, ...]:
    """Round shares of a total to whole numbers, each at least one, by largest remainders."""
    exact = [total * weight / sum(weights) for weight in weights]
    parts = [int(value) for value in exact]
    # Largest remainder first; of equal ones the first part, so that the result does not depend on the sort.
    by_remainder = sorted(range(len(parts)), key=lambda part: (parts[part] - exact[part], part))
    for part in by_remainder[: total - sum(parts)]:
        parts[part] += 1
    # A small weight may round to no client: take one from the largest part, since an empty group cannot be
    # found.
    while 0 in parts:
        parts[parts.index(max(parts))] -= 1
        parts[parts.index(0)] += 1
    return tuple(parts)
