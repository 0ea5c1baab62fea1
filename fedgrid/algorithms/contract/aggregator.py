"""How the server makes one vector of the vectors of a group of clients: the setting `aggregate`.

Shapes: N clients of a group, P entries of a state vector.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

from fedgrid.algorithms.contract.section import Section
from fedgrid.algorithms.updates.products import mean_vector
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
