"""The aggregators by name, and those that are more than a mean.

Shapes: N clients of a group, P entries of a state vector, B of a block of columns.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import SerializeAsAny

from fedgrid.algorithms.contract.aggregator import Aggregator, Mean
from fedgrid.algorithms.contract.section import by_name
from fedgrid.algorithms.updates.products import map_blocks
from fedgrid.algorithms.updates.source import Vector


class Median(Aggregator):
    """The median of each entry: at most half of a group can lie without moving it far.

    Source: Yin, Chen, Ramchandran, Bartlett, Byzantine-Robust Distributed Learning: Towards Optimal
    Statistical Rates, ICML 2018, arXiv:1803.01498, Definition 1. With the run's `weights` it is the weighted
    median: half of the weight lies on either side. Between two middle values it is their mean.
    """

    name: Literal["median"] = "median"

    def combine(
        self, rows: Sequence[Vector], shares: Sequence[float] | None = None, threads: int = 1
    ) -> Vector:
        """Return the medians, float32, shape (P,)."""
        out = np.empty(rows[0].size, np.float32)

        def block_median(columns: slice) -> None:
            out[columns] = _median(np.stack([row[columns] for row in rows]), shares)

        map_blocks(block_median, out.size, threads)
        return out


def _median(values_NB: Vector, shares: Sequence[float] | None) -> NDArray[np.float64]:
    """Return the weighted medians of columns, shape (B,)."""
    if shares is None:
        middle = (len(values_NB) - 1) // 2, len(values_NB) // 2
        low_B, high_B = np.partition(values_NB, middle, axis=0)[list(middle)]
    else:
        order_NB = np.argsort(values_NB, axis=0, kind="stable")
        sums_NB = np.cumsum(np.asarray(shares)[order_NB], axis=0)
        half_B = sums_NB[-1] / 2
        places = [(sums_NB >= half_B).argmax(axis=0), (sums_NB > half_B).argmax(axis=0)]
        sorted_NB = np.take_along_axis(values_NB, order_NB, axis=0)
        low_B, high_B = np.take_along_axis(sorted_NB, np.stack(places), axis=0)
    return np.asarray((low_B.astype(np.float64) + high_B) / 2)


AGGREGATORS: dict[str, type[Aggregator]] = {"mean": Mean, "median": Median}
"""By name: those of the package, then those of the plugins in use (`runtime.plugins`)."""


AnyAggregator = Annotated[SerializeAsAny[Aggregator], by_name("aggregator", AGGREGATORS)]
"""A settings field that holds any of them, and survives JSON."""
