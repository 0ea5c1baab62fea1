"""What a scenario is; the OCFL papers' forty by name, and the class shares of their imbalanced clusters.

Source: the authors' dataset blueprints. They hold class counts but no shares. The shares in
`published_shares.csv` are estimates, to three decimals: u different images of N result from about
-N ln(1 - u/N) draws. A class with few images can therefore have the share 0.000.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.images import ClassLabels, Groups, ImageSet, Positions
from fedgrid.engine.federation.errors import ConfigError

if TYPE_CHECKING:
    from fedgrid.engine.federation.data.dataset import Dataset
    from fedgrid.engine.federation.partition.groups import Balance

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
"""The kind of split that has one client."""


@dataclass(frozen=True)
class Scenario:
    """Which client holds which images, up to the seed."""

    dataset: str
    split: str
    """A key of `federation.dealing.kinds.KINDS`."""
    num_clients: int

    @property
    def name(self) -> str:
        """The scenario as one word: `mnist-15-overlapping-imbalanced`, `digits-20-rotated`."""
        return f"{self.dataset}-{self.num_clients}-{self.split}"

    @property
    def seed_text(self) -> str:
        """What random numbers are drawn from, fixed for ever."""
        return seed_text(self.dataset, self.num_clients, self.split)

    @property
    def overlap(self) -> str:
        """Of one of the OCFL papers' splits: whether its groups share classes."""
        return self.split.partition("-")[0]

    @property
    def balance(self) -> Balance:
        """Of one of the OCFL papers' splits: whether its groups have equal sizes and natural class shares."""
        return "imbalanced" if self.split in IMBALANCED else "balanced"


def seed_text(dataset: str, num_clients: int, split: str) -> str:
    """Return what a scenario draws random numbers from: it names a balance for every split of clients."""
    if split == CENTRALISED:
        return f"{dataset}-{split}"
    balanced = split if split in PUBLISHED_SPLITS else f"{split}-balanced"
    return f"{dataset}-{num_clients}-{balanced}"


def scenario_of(dataset: str, split: str, num_clients: int) -> Scenario:
    """Return the scenario of a run; of the user's own images only the format counts."""
    return Scenario(dataset.partition(":")[0], split, num_clients)


@dataclass(frozen=True)
class Facts:
    """What is known of a data set before its images are read."""

    num_classes: int
    pool_size: int
    """Number of images that are split among the clients."""
    shape: tuple[int, ...] | None = None
    """Channels, height, width; None is not checked."""
    num_groups: int | None = None
    """Number of groups that the images have themselves, such as writers; None: they have none."""

    @classmethod
    def of(cls, dataset: Dataset) -> Facts:
        """Return what the registry knows of a data set."""
        return cls(dataset.num_classes, dataset.pool_size, dataset.shape, dataset.num_groups)


@dataclass(frozen=True, eq=False)
class Pool:
    """The images that are split among the clients, as positions."""

    positions_L: Sequence[Positions]
    """Of each class, ascending."""
    labels_N: ClassLabels
    groups_N: Groups | None = None
    """The group of each image, 0 to G-1, if the images have groups."""


Rngs = Sequence[np.random.Generator]
"""A generator for each client."""
Dealing = tuple[list[int], list[Positions]]
"""Each client's hidden group, from 0, and the positions of its images, ascending."""
Transform = Callable[[ImageSet, int, int, int], ImageSet]
"""What the clients of a hidden group do to images, from (images, group, number of groups, classes)."""
GroupTransform = Callable[[ImageSet, int], ImageSet]
"""The same for a given split: from (images, group)."""


SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(dataset, split, num_clients)
        for dataset, num_clients, split in product(PUBLISHED_DATASETS, (15, 30), PUBLISHED_SPLITS)
    )
}
"""The papers' forty scenarios, in the order of their tables."""

EQUAL_SIZES_AS_PUBLISHED = "bloodmnist-30-overlapping-imbalanced"
"""The one imbalanced scenario whose blueprint has clusters of equal size (10/10/10)."""


def published_shares(scenario: Scenario) -> tuple[NDArray[np.float64], ...]:
    """Return the class shares of each cluster of an imbalanced scenario; each sums to one.

    Raises:
        ConfigError: the papers have no such scenario.
    """
    table = _table()
    if scenario.name not in table:
        raise ConfigError(
            f"split.proportions 'published' has no class shares for '{scenario.name}'; "
            f"take 'drawn' or one of: {', '.join(table)}"
        )
    return tuple(np.array(shares) / sum(shares) for shares in table[scenario.name])


@cache
def _table() -> dict[str, tuple[tuple[float, ...], ...]]:
    """Return scenario name -> shares of cluster 1, 2, 3, in the order of the cluster's class set."""
    text = (files("fedgrid.engine.federation.partition") / "published_shares.csv").read_text(encoding="utf-8")
    table: dict[str, tuple[tuple[float, ...], ...]] = {}
    for row in csv.DictReader(text.splitlines()):
        shares = tuple(float(share) for share in row["class_shares"].split())
        table[row["scenario"]] = (*table.get(row["scenario"], ()), shares)
    return table
