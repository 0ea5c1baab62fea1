"""Mixing: what is done with the vectors of a group before a robust mean (the setting `before`).

Clients whose data differ send vectors that differ without any attack, and a robust mean takes the rare ones
for attacks. Means of several clients' vectors differ less.

Shapes: N clients of a group, M rows after mixing.
"""

from abc import ABC, abstractmethod
from math import ceil
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt, SerializeAsAny

from fedgrid.algorithms.contract.section import Section, build_name_validator
from fedgrid.algorithms.updates.source import Matrix, Rng

Attackers = Annotated[float, Field(ge=0, lt=0.5)]
"""The share of a group's clients that are taken for attackers."""


def count_attackers(share: float, num_clients: int, most: int) -> int:
    """Compute f, the number of attackers in a group: its share rounded up, but at most `most`.

    Groups differ in size, and a method bears only so many attackers: in a group that is too small f is less
    than the share, down to 0.
    """
    # Rounded first: 0.07 * 100 is more than 7.
    return max(0, min(ceil(round(share * num_clients, 9)), most))


class Mixing(Section, ABC):
    """A way to mix the vectors of a group: settings with a `name`, and the mixed rows as means of clients."""

    name: str
    """The value of `before` that chooses it."""
    draws: ClassVar[bool] = False
    """Whether it is random."""

    @abstractmethod
    def mix(self, distances_NN: Matrix, rng: Rng) -> Matrix:
        """Compute each client's share of each mixed row, shape (M, N); rows add up to 1.

        Args:
            distances_NN: squared Euclidean distances.
            rng: seeded by the run and the round.
        """


class NoMixing(Mixing):
    """Each client's vector is a row."""

    name: Literal["none"] = "none"

    def mix(self, distances_NN: Matrix, rng: Rng) -> Matrix:
        """Give each client its own row."""
        return np.eye(len(distances_NN))


class NearestNeighbours(Mixing):
    """Nearest-neighbour mixing (NNM): each vector becomes the mean of the N - f nearest to it, itself among
    them.

    Source: Allouah et al., Fixing by Mixing: A Recipe for Optimal Byzantine ML under Heterogeneity, AISTATS
    2023, arXiv:2302.01772. Of equal distances the first clients count. Clients count alike.
    """

    name: Literal["nearest-neighbours"] = "nearest-neighbours"
    attackers: Attackers = 0.2
    """f as a share of the group's clients, rounded up, and fewer than half of them: 0 of one or two."""

    def mix(self, distances_NN: Matrix, rng: Rng) -> Matrix:
        """Give the nearest clients equal shares; row i is around client i."""
        count = len(distances_NN)
        num_near = count - count_attackers(self.attackers, count, (count - 1) // 2)
        nearest = np.argsort(distances_NN, axis=1, kind="stable")[:, :num_near]
        shares_NN = np.zeros((count, count))
        np.put_along_axis(shares_NN, nearest, 1 / num_near, axis=1)
        return shares_NN


class Bucketing(Mixing):
    """Clients are shuffled in each round, and every `size` of them form a bucket, whose mean is a row.

    Source: Karimireddy, He, Jaggi, Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing, ICLR
    2022, arXiv:2006.09365. The last bucket may be smaller. Clients count alike, and so do
    buckets. A bucket with an attacker is an attacker's, so that fewer than half of the buckets may have one.
    """

    name: Literal["bucketing"] = "bucketing"
    size: PositiveInt = 2
    """Number of clients in a bucket."""
    draws: ClassVar[bool] = True

    def mix(self, distances_NN: Matrix, rng: Rng) -> Matrix:
        """Give the clients of each bucket equal shares."""
        order = rng.permutation(len(distances_NN))
        buckets = [order[start : start + self.size] for start in range(0, len(order), self.size)]
        shares_MN = np.zeros((len(buckets), len(order)))
        for row_N, bucket in zip(shares_MN, buckets, strict=True):
            row_N[bucket] = 1 / len(bucket)
        return shares_MN


MIXINGS: dict[str, type[Mixing]] = {
    "none": NoMixing,
    "nearest-neighbours": NearestNeighbours,
    "bucketing": Bucketing,
}
"""Name -> class of the values of `before`."""
AnyMixing = Annotated[SerializeAsAny[Mixing], build_name_validator("mixing", MIXINGS)]
"""The type of the setting `before`."""
