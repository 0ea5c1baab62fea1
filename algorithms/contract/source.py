"""Where the updates of a round come from: memory, or whoever knows something of them without having them.

Shapes: P entries of a state vector.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Arrays: TypeAlias = Mapping[str, NDArray[Any]]
WorkOut: TypeAlias = Callable[[Sequence[str]], list[Arrays]]
"""Names of what is not known -> it, worked out."""


class Source(Protocol):
    """Where the updates of a round are, and what is known of them without looking at any."""

    def fetch(self, clients: Sequence[int]) -> list[NDArray[np.float32]]:
        """Return the updates of clients, float32, shape (P,) each; this may mean to train them."""

    def recall(self, wanted: Mapping[str, Sequence[int]], work_out: WorkOut) -> list[Arrays]:
        """Return what is known under each name of `wanted`; `work_out` is asked for the others, together.

        `wanted` says whose updates each takes to be worked out.
        """


class InMemory:
    """Updates that are there, and of which nothing is known yet."""

    def __init__(self, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        self._vectors = vectors

    def fetch(self, clients: Sequence[int]) -> list[NDArray[np.float32]]:
        """Return the updates of clients."""
        return [self._vectors[client] for client in clients]

    def recall(self, wanted: Mapping[str, Sequence[int]], work_out: WorkOut) -> list[Arrays]:
        """Work everything out."""
        return work_out(list(wanted))
