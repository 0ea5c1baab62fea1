"""Where the updates of a round come from: arrays in memory, clients that train on demand, or the round cache.

Shapes: P entries of a state vector.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float32]
Matrix: TypeAlias = NDArray[np.float64]
Arrays: TypeAlias = Mapping[str, NDArray[Any]]
Compute: TypeAlias = Callable[[Sequence[str]], list[Arrays]]
"""Names of missing statistics -> the statistics, in their order."""
UPDATE = "update"
"""The name of a client's update among its outputs."""


class Source(Protocol):
    """A lazy source of updates: statistics may be cached where the updates themselves are not."""

    def fetch(self, clients: Sequence[int], output: str = UPDATE) -> list[NDArray[Any]]:
        """Return the updates of clients, float32, shape (P,) each, or another named output of their replies.

        May train the clients first.
        """

    def cached(self, wanted: Mapping[str, Sequence[int]], compute: Compute) -> list[Arrays]:
        """Return the statistics under the names of `wanted`; `compute` is called once, for the missing ones.

        `wanted` maps each name to the clients whose outputs it takes to compute it.
        """


def read_only(arrays: Iterable[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return the same arrays, to which NumPy now refuses to write."""
    arrays = list(arrays)
    for array in arrays:
        array.flags.writeable = False
    return arrays


class InMemory:
    """Updates that are in memory; nothing is cached."""

    def __init__(
        self,
        vectors: Mapping[int, NDArray[np.float32]],
        outputs: Mapping[str, Mapping[int, NDArray[Any]]] | None = None,
    ) -> None:
        """`outputs` has, by name, an array of each client."""
        self._outputs = {**(outputs or {}), UPDATE: vectors}

    def fetch(self, clients: Sequence[int], output: str = UPDATE) -> list[NDArray[Any]]:
        """Return the updates of clients, or another of their outputs."""
        return [self._outputs[output][client] for client in clients]

    def cached(self, wanted: Mapping[str, Sequence[int]], compute: Compute) -> list[Arrays]:
        """Compute everything."""
        return compute(list(wanted))


def statistic_name(statistic: str, *inputs: object) -> str:
    """Return the name under which a statistic of these inputs is cached."""
    return f"{statistic}-{sha256(repr(inputs).encode()).hexdigest()[:16]}"
