"""Aggregators: how the server makes one vector of the vectors of a cluster's clients.

A run chooses one by the setting `aggregate`.

Here are `mean`, the default, and `median`; the room `robust` has the other ones of the package, and a plugin
lists its own in `AGGREGATORS`.

Shapes: N clients of a group, P entries of a state vector, B of a block of columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import SerializeAsAny

from fedgrid.algorithms.contract.section import Section, build_name_validator
from fedgrid.algorithms.updates.products import compute_mean_vector, map_blocks

if TYPE_CHECKING:
    from fedgrid.algorithms.updates.source import Rng, Vector
    from fedgrid.algorithms.updates.updates import Updates


class Aggregator(Section, ABC):
    """Settings with a `name`, and a function from the vectors of a group of clients to one vector.

    A plugin lists subclasses in `AGGREGATORS`, and a run chooses one by `algorithm.aggregate=NAME`. Any
    algorithm that averages takes it. `combine` gets whole vectors, updates or models, so that Krum and other
    methods that weigh clients fit too. Algorithms with sums of their own (FedNova, SCAFFOLD) and the server's
    noise refuse any but the mean. What an algorithm tests or clusters by does not change with it.

    Raises:
        ValueError: a key is unknown, or a value is impossible.

    Example:
        >>> from typing import Literal
        >>> import fedgrid
        >>> import numpy as np
        >>> class Middle(fedgrid.Aggregator):
        ...     '''The middle between the least and the greatest value of each entry.'''
        ...     name: Literal["middle"] = "middle"
        ...     def combine(self, rows, shares=None, threads=1):
        ...         return ((np.min(rows, axis=0) + np.max(rows, axis=0)) / 2).astype(np.float32)
        >>> vectors = {client: np.full(2, client, np.float32) for client in (0, 1, 4)}
        >>> updates = fedgrid.Updates(vectors, fedgrid.Layout(("weight",), ((2,),), 2))
        >>> [middle_P] = Middle().combine_groups(updates, [[0, 1, 4]])
        >>> middle_P.tolist()
        [2.0, 2.0]
    """

    name: str
    """The value of `aggregate` that chooses it; a subclass gives it a `Literal` type and a default."""
    is_mean: ClassVar[bool] = False
    """Whether it is the mean by shares. Only the mean commutes with sums and is covered by the server's
    noise."""
    is_for_updates: ClassVar[bool] = False
    """Whether it measures vectors from zero, as clipping does, so that algorithms that average models refuse
    it."""

    @abstractmethod
    def combine(
        self, rows: Sequence[Vector], shares: Sequence[float] | None = None, threads: int = 1
    ) -> Vector:
        """Combine the vectors of a group into one vector, float32, shape (P,).

        Called on the server by `combine_groups`, once a round and cluster, unless the result is in the round
        cache; and with models in place of updates by algorithms that average models. It must depend on its
        arguments and settings alone.

        Args:
            rows: N >= 1 vectors, float32, shape (P,). They may be gigabytes in the object store, so read them
                in blocks of columns (`updates.products.map_blocks`), and never write to them.
            shares: a positive weight of each; None: equal ones.
            threads: number of blocks at a time, at least 1; the result must not depend on it.
        """

    def combine_groups(self, updates: Updates, groups: Sequence[Sequence[int]]) -> list[Vector]:
        """Combine the updates of each group of clients, by the weights of the view; one vector each.

        Called on the server by `FedOpt.aggregate` once a round, with all clusters that have a usable update,
        and once more when a split leaves clusters that other runs still need. By default it calls `combine`,
        and the round cache stores the results.

        Override it where the updates' inner products are enough to weigh clients: those of
        `updates.select(group)`, as its `gram_KK`, and `updates.means` by the resulting weights both come from
        the round cache, so that no update is read.

        Args:
            updates: the usable updates of the round.
            groups: client ids of each cluster, none of them empty.
        """
        return updates.combine(groups, self.combine, self.name, self.model_dump_json())

    def seed_round(self, rng: Rng) -> Self:
        """Draw what a round needs at random, and return a copy that holds it; by default this aggregator.

        Called on the server by algorithms once a round, before `combine_groups` or `combine`. A draw has
        to be in the name under which `updates.combine` caches what depends on it.

        Args:
            rng: seeded by the run and the round.
        """
        return self


class Mean(Aggregator):
    """The mean, weighted as the run's `weights` say."""

    name: Literal["mean"] = "mean"
    is_mean: ClassVar[bool] = True

    def combine(
        self, rows: Sequence[Vector], shares: Sequence[float] | None = None, threads: int = 1
    ) -> Vector:
        """Compute the mean, summed in float64."""
        return compute_mean_vector(rows, shares, threads)

    def combine_groups(self, updates: Updates, groups: Sequence[Sequence[int]]) -> list[Vector]:
        """Compute the means, with the server's noise if it adds any."""
        return updates.means(groups)


MEAN = Mean()
"""The default of every setting `aggregate`."""


class Median(Aggregator):
    """The median of each entry: up to half of a group can send anything without moving it far.

    Source: Yin, Chen, Ramchandran, Bartlett, Byzantine-Robust Distributed Learning: Towards Optimal
    Statistical Rates, ICML 2018, arXiv:1803.01498, Definition 1. With the run's `weights` it is the weighted
    median: half of the weight lies on either side. Between two middle values it is their mean.
    """

    name: Literal["median"] = "median"

    def combine(
        self, rows: Sequence[Vector], shares: Sequence[float] | None = None, threads: int = 1
    ) -> Vector:
        """Compute the medians, float32, shape (P,), a block of columns at a time."""
        out = np.empty(rows[0].size, np.float32)

        def block_median(columns: slice) -> None:
            out[columns] = _compute_medians(np.stack([row[columns] for row in rows]), shares)

        map_blocks(block_median, out.size, threads)
        return out


def _compute_medians(values_NB: Vector, shares: Sequence[float] | None) -> NDArray[np.float64]:
    """Compute the weighted medians of columns, float64, shape (B,)."""
    if shares is None:
        middle = (len(values_NB) - 1) // 2, len(values_NB) // 2
        # Selection in place of a full sort: only the middle values are needed.
        low_B, high_B = np.partition(values_NB, middle, axis=0)[list(middle)]
    else:
        order_NB = np.argsort(values_NB, axis=0, kind="stable")
        sums_NB = np.cumsum(np.asarray(shares)[order_NB], axis=0)
        half_B = sums_NB[-1] / 2
        # The first value at which half of the weight is reached, and the first beyond it: two different ones
        # only where exactly half lies below.
        places = [(sums_NB >= half_B).argmax(axis=0), (sums_NB > half_B).argmax(axis=0)]
        sorted_NB = np.take_along_axis(values_NB, order_NB, axis=0)
        low_B, high_B = np.take_along_axis(sorted_NB, np.stack(places), axis=0)
    return np.asarray((low_B.astype(np.float64) + high_B) / 2)


AGGREGATORS: dict[str, type[Aggregator]] = {"mean": Mean, "median": Median}
"""Name -> class: these two, those of the room `robust`, then those of the plugins in use
(`runtime.plugins`)."""
AnyAggregator = Annotated[SerializeAsAny[Aggregator], build_name_validator("aggregator", AGGREGATORS)]
"""The type of a settings field that holds any aggregator and survives JSON."""
