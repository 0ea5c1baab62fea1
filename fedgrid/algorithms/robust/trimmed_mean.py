"""The trimmed mean of each entry.

Shapes: N clients of a group, M rows after mixing, P entries of a vector, B of a block of columns.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fedgrid.algorithms.robust.before import Attackers, NoMixing, count_attackers
from fedgrid.algorithms.robust.robust_mean import RobustMean
from fedgrid.algorithms.updates.products import compute_inner_products, compute_mean, map_blocks
from fedgrid.algorithms.updates.source import Matrix, Vector
from fedgrid.algorithms.updates.updates import Updates


class TrimmedMean(RobustMean):
    """The mean of each entry without its f least and its f greatest values.

    Source: Yin, Chen, Ramchandran, Bartlett, Byzantine-Robust Distributed Learning: Towards Optimal
    Statistical Rates, ICML 2018, arXiv:1803.01498, Definition 2. Clients count alike, whatever the run's
    `weights`.
    """

    name: Literal["trimmed-mean"] = "trimmed-mean"
    attackers: Attackers = 0.2
    """f, the number that is cut on each side, as a share of the group's clients, rounded up; less than half
    of the rows, so 0 of one or two."""

    def combine(
        self, rows: Sequence[Vector], shares: Sequence[float] | None = None, threads: int = 1
    ) -> Vector:
        """Compute the trimmed means, float32, shape (P,), a block of columns at a time."""
        if isinstance(self.before, NoMixing):
            return self._trim(rows, None, threads)
        return self._trim(rows, self.mix(compute_inner_products(rows, rows[0].size, threads)), threads)

    def combine_groups(self, updates: Updates, groups: Sequence[Sequence[int]]) -> list[Vector]:
        """Compute the trimmed means; what is mixed follows from the inner products of the round."""
        if isinstance(self.before, NoMixing):
            return super().combine_groups(updates, groups)
        return [self._combine_mixed(updates.select(group)) for group in groups]

    def _combine_mixed(self, part: Updates) -> Vector:
        """Compute the trimmed means of a group's mixed updates."""
        mixing_MN = self.mix(part.products)

        def combine(rows: Sequence[Vector], shares: Sequence[float] | None, threads: int) -> Vector:
            return self._trim(rows, mixing_MN, threads)

        # The mixture is a part of the name: a cached result depends on no draw but the one that it names.
        name = (self.name, self.model_dump_json(), str(mixing_MN.tolist()))
        [mean_P] = part.combine([part.clients], combine, *name)
        return mean_P

    def _trim(self, rows: Sequence[Vector], mixing_MN: Matrix | None, threads: int) -> Vector:
        """Compute the trimmed means of rows, or of their mixtures."""
        num_rows = len(rows) if mixing_MN is None else len(mixing_MN)
        cut = count_attackers(self.attackers, len(rows), (num_rows - 1) // 2)
        out = np.empty(rows[0].size, np.float32)

        def trim_block(columns: slice) -> None:
            values_NB = np.stack([row[columns] for row in rows])
            values_MB = values_NB if mixing_MN is None else mixing_MN @ values_NB
            # Unsorted without a cut, for the bits of the mean.
            kept = np.sort(values_MB, axis=0)[cut : num_rows - cut] if cut else values_MB
            out[columns] = compute_mean(list(kept), None)

        map_blocks(trim_block, out.size, threads)
        return out
