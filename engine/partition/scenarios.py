"""The OCFL papers' forty scenarios by name, and the class shares of their imbalanced clusters.

Source: the authors' dataset blueprints. They hold class counts but no shares. The shares in
`published_shares.csv` are estimates, to three decimals: u different images of N result from about
-N ln(1 - u/N) draws. A class with few images can therefore have the share 0.000.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.errors import ConfigError
from fedgrid.engine.partition.groups import Balance

PUBLISHED_DATASETS = ("mnist", "fmnist", "cifar10", "pathmnist", "bloodmnist")
PUBLISHED_OVERLAPS = ("nonoverlapping", "overlapping")
PUBLISHED_NUM_CLUSTERS = 3


@dataclass(frozen=True)
class Scenario:
    """Which client holds which images, up to the seed."""

    dataset: str
    overlap: str
    """Kind of scenario, a key of `engine.partition.kinds.KINDS`."""
    balance: Balance
    num_clients: int

    @property
    def name(self) -> str:
        """The scenario as one word: `mnist-15-overlapping-imbalanced`."""
        return f"{self.dataset}-{self.num_clients}-{self.overlap}-{self.balance}"


SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(dataset, overlap, balance, num_clients)
        for dataset, num_clients, overlap, balance in product(
            PUBLISHED_DATASETS, (15, 30), PUBLISHED_OVERLAPS, get_args(Balance)
        )
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
    text = (files("fedgrid.engine.partition") / "published_shares.csv").read_text(encoding="utf-8")
    table: dict[str, tuple[tuple[float, ...], ...]] = {}
    for row in csv.DictReader(text.splitlines()):
        shares = tuple(float(share) for share in row["class_shares"].split())
        table[row["scenario"]] = (*table.get(row["scenario"], ()), shares)
    return table
