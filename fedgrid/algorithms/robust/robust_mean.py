"""What the robust means have in common: the setting `before`, and the draw of a round.

Shapes: N clients of a group, M rows after mixing.
"""

from typing import ClassVar, Self

import numpy as np
from pydantic import PrivateAttr

from fedgrid.algorithms.contract.aggregator import Aggregator
from fedgrid.algorithms.robust.before import AnyMixing, NoMixing
from fedgrid.algorithms.updates.products import Products
from fedgrid.algorithms.updates.source import Matrix, Rng


class RobustMean(Aggregator):
    """An aggregator that mixes the vectors of a group first, if `before` says so.

    Distances and norms, of mixing too, see the entries that `similarity_over` names; in `combine`, which an
    algorithm calls with latest models in place of updates, they see all entries. What is combined is always
    the whole vector.
    """

    before: AnyMixing = NoMixing()
    """What the mean is of: `none`, the clients' vectors; `nearest-neighbours`, means of each one's nearest;
    `{name: bucketing, size: 2}`, means of random buckets. All but `none` count clients alike."""
    omitted_defaults: ClassVar[tuple[str, ...]] = ("before",)
    _seed: int = PrivateAttr(0)

    def seed_round(self, rng: Rng) -> Self:
        """Draw the seed of this round's buckets, and return a copy that has it."""
        if not self.before.draws:
            return self
        seeded = self.model_copy()
        seeded._seed = int(rng.integers(2**63))
        return seeded

    def mix(self, products: Products) -> Matrix:
        """Compute each client's share of each mixed row, shape (M, N)."""
        # A generator for each group: its buckets do not depend on the other groups.
        return self.before.mix(products.squared_distances_KK, np.random.default_rng(self._seed))
