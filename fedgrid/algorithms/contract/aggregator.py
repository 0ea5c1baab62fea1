"""How the server makes one vector of the vectors of a group of clients: the setting `aggregate`.

Shapes: N clients of a group, P entries of a state vector, B of a block of columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import SerializeAsAny

from fedgrid.algorithms.contract.section import Section, by_name
from fedgrid.algorithms.updates.products import map_blocks, mean_vector

if TYPE_CHECKING:
    from fedgrid.algorithms.updates.source import Vector
    from fedgrid.algorithms.updates.updates import Updates


class Aggregator(Section, ABC):
    """A frozen settings model with a `name`, and what it makes of vectors."""

    name: str
    is_mean: ClassVar[bool] = False
    """Whether it is the mean by shares. Only that commutes with sums and is covered by the server's noise."""

    @abstractmethod
    def combine(
        self, rows: Sequence[Vector], shares: Sequence[float] | None = None, threads: int = 1
    ) -> Vector:
        """Return one vector, float32, shape (P,).

        Args:
            rows: N >= 1 vectors, float32, shape (P,). They may be gigabytes in the object store, so read them
                in blocks of columns (`updates.products.map_blocks`), and never write to them.
            shares: a positive weight of each; None: equal ones.
            threads: blocks at a time; the result must not depend on it.
        """

    def of(self, updates: Updates, groups: Sequence[Sequence[int]]) -> list[Vector]:
        """Return one vector for each group of clients, by the weights of the view.

        One that weighs clients by their updates' products alone may take those of `updates.select(group)`,
        and `updates.means` by these weights: both come from the round cache.
        """
        return updates.combine(groups, self.combine, self.name, self.model_dump_json())


class Mean(Aggregator):
    """The mean, by the run's `weights`."""

    name: Literal["mean"] = "mean"
    is_mean: ClassVar[bool] = True

    def combine(
        self, rows: Sequence[Vector], shares: Sequence[float] | None = None, threads: int = 1
    ) -> Vector:
        """Return the mean, summed in float64."""
        return mean_vector(rows, shares, threads)

    def of(self, updates: Updates, groups: Sequence[Sequence[int]]) -> list[Vector]:
        """Return the means, with the server's noise if it adds any."""
        return updates.means(groups)


MEAN = Mean()


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
