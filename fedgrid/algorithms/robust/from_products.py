"""Robust means that are sums of the clients' vectors, with weights from their inner products alone.

Both the products and the sums come from the round cache, so that no vector is read a second time.

Shapes: N clients of a group, M rows after mixing, P entries of a vector.
"""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from fedgrid.algorithms.robust.before import NoMixing
from fedgrid.algorithms.robust.robust_mean import RobustMean
from fedgrid.algorithms.updates.products import (
    Products,
    compute_inner_products,
    compute_mean_vector,
    list_shares,
)
from fedgrid.algorithms.updates.source import Matrix, Vector
from fedgrid.algorithms.updates.updates import Updates


class WeightedSum(RobustMean):
    """A sum of the clients' vectors, or of mixed ones, by weights that follow from their inner products."""

    @abstractmethod
    def weigh(self, products: Products, shares_M: Matrix, num_clients: int) -> Matrix:
        """Weigh the rows, shape (M,), at least 0; weights that add up to less than 1 shorten the sum.

        Args:
            products: inner products of the rows.
            shares_M: the clients' shares by the run's `weights`, which add up to 1; equal ones after mixing.
            num_clients: N, which f is a share of.
        """

    def combine(
        self, rows: Sequence[Vector], shares: Sequence[float] | None = None, threads: int = 1
    ) -> Vector:
        """Compute the weighted sum, float32, shape (P,); distances see all entries."""
        products = compute_inner_products(rows, rows[0].size, threads)
        weights = self._weigh_clients(products, shares)
        chosen = [rows[place] for place in weights]
        mean_P = compute_mean_vector(chosen, list_shares(list(weights), weights), threads)
        return _scale(mean_P, weights)

    def combine_groups(self, updates: Updates, groups: Sequence[Sequence[int]]) -> list[Vector]:
        """Compute the weighted sums from the inner products of the round."""
        sums = []
        for group in groups:
            part = updates.select(group)
            weights = self._weigh_clients(part.products, list_shares(part.clients, part.weights))
            weight_of = {part.clients[place]: weight for place, weight in weights.items()}
            [mean_P] = updates.means([list(weight_of)], weight_of)
            sums.append(_scale(mean_P, weights))
        return sums

    def _weigh_clients(self, products: Products, shares: Sequence[float] | None) -> dict[int, float]:
        """Weigh the clients: position -> weight of those that have one."""
        mixing_MN = self.mix(products)
        num_rows, num_clients = mixing_MN.shape
        shares_M = np.full(num_rows, 1 / num_rows)
        if shares is not None and isinstance(self.before, NoMixing):
            shares_M = np.asarray(shares) / sum(shares)
        # On one thread: sums of several would have other last bits on other machines.
        with threadpool_limits(limits=1):
            # A row of the mixture adds up to 1: what a mixed vector differs by is mixed differences.
            mixed = Products(
                mixing_MN @ products.differences_KK @ mixing_MN.T,
                mixing_MN @ products.cross_K,
                products.common,
            )
            weights_N = self.weigh(mixed, shares_M, num_clients) @ mixing_MN
        return {place: float(weight) for place, weight in enumerate(weights_N) if weight > 0}


def _scale(mean_P: Vector, weights: dict[int, float]) -> Vector:
    """Turn a weighted mean into the sum; float32 takes a total that is 1 up to rounding for 1."""
    return np.float32(sum(weights.values())) * mean_P
