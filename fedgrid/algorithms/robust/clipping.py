"""Clipping: no client's update counts with more than a length.

Both are about updates, which are measured from zero: an algorithm that averages models refuses them.

Shapes: M rows, which are the clients' updates without mixing.
"""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt

from fedgrid.algorithms.robust.from_products import WeightedSum
from fedgrid.algorithms.robust.geometric_median import compute_squared_distances
from fedgrid.algorithms.updates.products import Products
from fedgrid.algorithms.updates.source import Matrix

Radius = Annotated[float, Field(gt=0)]
"""A length in the unit of the updates."""


class CentredClipping(WeightedSum):
    """Steps from a centre v along the mean of the clipped differences from it.

    v <- v + mean_i (x_i - v) min(1, radius / |x_i - v|). Source: Karimireddy, He, Jaggi, Learning from
    History for Byzantine Robust Optimization, ICML 2021, arXiv:2012.10333. Clients count alike,
    whatever the run's `weights`. Deviation: v starts at 0 in every round, and not at the last round's output,
    as an aggregator has no state.
    """

    name: Literal["centred-clipping"] = "centred-clipping"
    is_for_updates: ClassVar[bool] = True
    radius: Radius
    """tau: the greatest length of a difference, in the unit of the updates; the lengths of updates differ by
    data set and model, so there is no default."""
    steps: PositiveInt = 1
    """L, the number of steps."""

    def weigh(self, products: Products, shares_M: Matrix, num_clients: int) -> Matrix:
        """Compute the weights of v; they add up to less than 1 where updates were clipped."""
        gram_MM = products.gram_KK
        num_rows = len(shares_M)
        weights_M = np.zeros(num_rows)
        for _ in range(self.steps):
            factors_M = clip(np.sqrt(compute_squared_distances(gram_MM, weights_M)), self.radius)
            weights_M = weights_M * (1 - factors_M.mean()) + factors_M / num_rows
        return weights_M


class NormClipping(WeightedSum):
    """The mean, by the run's `weights`, of updates that are shortened to a greatest length.

    Source: Sun, Kairouz, Suresh, McMahan, Can You Really Backdoor Federated Learning?, 2019,
    arXiv:1911.07963; at the median norm as in the code of Li et al. 2021 (Ditto).
    """

    name: Literal["norm-clipping"] = "norm-clipping"
    is_for_updates: ClassVar[bool] = True
    radius: Radius | None = None
    """The greatest length, in the unit of the updates; None: the median of the group's lengths, in which
    clients count alike."""

    def weigh(self, products: Products, shares_M: Matrix, num_clients: int) -> Matrix:
        """Multiply the shares by each update's factor."""
        norms_M = np.sqrt(np.maximum(np.diagonal(products.gram_KK), 0.0))
        return shares_M * clip(norms_M, self.radius or float(np.median(norms_M)))


def clip(lengths_M: Matrix, radius: float) -> Matrix:
    """Compute the factors that shorten lengths to at most `radius`, shape (M,)."""
    return np.divide(radius, lengths_M, out=np.ones_like(lengths_M), where=lengths_M > radius)
