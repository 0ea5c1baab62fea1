"""Krum and multi-Krum: the vectors with the nearest neighbours.

Source: Blanchard, El Mhamdi, Guerraoui, Stainer, Machine Learning with Adversaries: Byzantine Tolerant
Gradient Descent, NeurIPS 2017, arXiv:1703.02757.

Shapes: M rows, which are the clients' vectors without mixing.
"""

from math import ceil
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fedgrid.algorithms.robust.before import Attackers, count_attackers
from fedgrid.algorithms.robust.from_products import WeightedSum
from fedgrid.algorithms.updates.products import Products
from fedgrid.algorithms.updates.source import Matrix


class Krum(WeightedSum):
    """The vector with the least sum of squared distances to its M - f - 2 nearest others.

    Ties go to the first; of one or two vectors it is the mean. Clients count alike, whatever the run's
    `weights`. If clients' data differ, one client's update in place of the mean is a poor model.
    """

    name: Literal["krum"] = "krum"
    attackers: Attackers = 0.2
    """f as a share of the group's clients, rounded up; less where 2 f + 2 < M would not hold, and 0 below
    five vectors."""

    def weigh(self, products: Products, shares_M: Matrix, num_clients: int) -> Matrix:
        """Give the vector with the least sum all the weight."""
        num_attackers = _count_krum_attackers(self.attackers, num_clients, len(shares_M))
        return _weigh_nearest(products, num_attackers, 1 if len(shares_M) > 2 else len(shares_M))


class MultiKrum(WeightedSum):
    """The mean of the vectors with the least sums of Krum.

    Clients count alike, whatever the run's `weights`.
    """

    name: Literal["multi-krum"] = "multi-krum"
    attackers: Attackers = 0.2
    """f as a share of the group's clients, as for `krum`."""
    keep: Annotated[float, Field(gt=0, le=1)] | None = None
    """The share of the vectors that is averaged, rounded up; None: all but f."""

    def weigh(self, products: Products, shares_M: Matrix, num_clients: int) -> Matrix:
        """Weigh the vectors with the least sums alike."""
        num_rows = len(shares_M)
        num_attackers = _count_krum_attackers(self.attackers, num_clients, num_rows)
        count = num_rows - num_attackers if self.keep is None else ceil(round(self.keep * num_rows, 9))
        return _weigh_nearest(products, num_attackers, count)


def _count_krum_attackers(share: float, num_clients: int, num_rows: int) -> int:
    """Compute f, at most such that 2 f + 2 < M."""
    return count_attackers(share, num_clients, (num_rows - 3) // 2)


def _weigh_nearest(products: Products, num_attackers: int, count: int) -> Matrix:
    """Compute equal weights of the vectors with the least sums of squared distances to their nearest."""
    distances_MM = products.squared_distances_KK
    # Column 0 is each one's distance to itself, or to an equal one.
    nearest = np.sort(distances_MM, axis=1)[:, 1 : len(distances_MM) - num_attackers - 1]
    weights_M = np.zeros(len(distances_MM))
    # A stable order: ties go to the first.
    weights_M[np.argsort(nearest.sum(axis=1), kind="stable")[:count]] = 1 / count
    return weights_M
