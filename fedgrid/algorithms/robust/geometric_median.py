"""The geometric median, as RFA computes it.

Source: Pillutla, Kakade, Harchaoui, Robust Aggregation for Federated Learning, IEEE Transactions on Signal
Processing 2022, arXiv:1912.13445, and the authors' code. That also stops once little changes.

Shapes: M rows, which are the clients' vectors without mixing.
"""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field, PositiveInt

from fedgrid.algorithms.robust.from_products import WeightedSum
from fedgrid.algorithms.updates.products import Products
from fedgrid.algorithms.updates.source import Matrix


class GeometricMedian(WeightedSum):
    """The point with the least sum of distances to the vectors, by smoothed Weiszfeld steps from the mean.

    Both the mean and the distances are weighted by the run's `weights`.
    """

    name: Literal["geometric-median"] = "geometric-median"
    steps: PositiveInt = 4
    """Number of Weiszfeld steps."""
    smoothing: Annotated[float, Field(gt=0)] = 1e-5
    """Distance, in the unit of the vectors, below which a vector counts no more than at it."""

    def weigh(self, products: Products, shares_M: Matrix, num_clients: int) -> Matrix:
        """Compute the weights after these steps; they add up to 1."""
        # Distances to a mean are the same from any origin: differences from the reference lose no digits.
        gram_MM = products.differences_KK
        weights_M = shares_M
        for _ in range(self.steps):
            distances_M = np.sqrt(compute_squared_distances(gram_MM, weights_M))
            weights_M = shares_M / np.maximum(self.smoothing, distances_M)
            weights_M = weights_M / weights_M.sum()
        return weights_M


def compute_squared_distances(gram_MM: Matrix, weights_M: Matrix) -> Matrix:
    """Compute the squared distances of vectors to their sum by these weights, shape (M,)."""
    products_M = gram_MM @ weights_M
    # Rounding may leave a tiny negative square.
    return np.maximum(np.diagonal(gram_MM) - 2 * products_M + weights_M @ products_M, 0.0)
