"""Updates as vectors, what their entries are, and where they come from: memory, clients, or the round cache.

Shapes: P entries of a state vector.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Rng: TypeAlias = np.random.Generator
Vector: TypeAlias = NDArray[np.float32]
Matrix: TypeAlias = NDArray[np.float64]
Arrays: TypeAlias = Mapping[str, NDArray[Any]]
Compute: TypeAlias = Callable[[Sequence[str]], list[Arrays]]
"""Names of missing statistics -> the statistics, in their order."""
UPDATE = "update"
"""The name of a client's update among its outputs."""


@dataclass(frozen=True)
class Layout:
    """Which entries of a flat state vector are which tensor.

    Parameters (weights, biases) come first, buffers (BatchNorm statistics and counters) after
    them, so that `vector[:num_parameters]` is the model without its buffers.
    """

    names: tuple[str, ...]
    """Tensor names as in `torch.nn.Module.state_dict`, in the vector's order."""
    shapes: tuple[tuple[int, ...], ...]
    """One shape a name."""
    num_parameters: int
    """Entries before the first buffer."""
    head: str | None = None
    """The module that the model's entry names as its head; None: it names none."""

    @property
    def size(self) -> int:
        """Entries of the whole vector, P."""
        return sum(prod(shape) for shape in self.shapes)

    @property
    def layers(self) -> tuple[str, ...]:
        """The modules with weights of their own, in the vector's order."""
        weights = (name for name, where, _ in self.slices() if where.stop <= self.num_parameters)
        return tuple(dict.fromkeys(name.rpartition(".")[0] for name in weights))

    @property
    def head_layers(self) -> tuple[str, ...]:
        """Those of `layers` that are the head or within it; without a head none."""
        return tuple(
            layer
            for layer in self.layers
            if self.head is not None and (layer == self.head or layer.startswith(f"{self.head}."))
        )

    def ranges(self, layers: Collection[str]) -> list[tuple[int, int]]:
        """Return where the entries of layers are, buffers too: ranges, start and stop, ascending."""
        ranges: list[tuple[int, int]] = []
        for name, where, _ in self.slices():
            if name.rpartition(".")[0] not in layers:
                continue
            if ranges and ranges[-1][1] == where.start:
                ranges[-1] = (ranges[-1][0], where.stop)
            else:
                ranges.append((where.start, where.stop))
        return ranges

    def slices(self) -> Iterator[tuple[str, slice, tuple[int, ...]]]:
        """Yield (name, where in the vector, shape) of every tensor."""
        start = 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            stop = start + prod(shape)
            yield name, slice(start, stop), shape
            start = stop


class Source(Protocol):
    """A lazy source of updates: statistics may be cached where the updates themselves are not."""

    def fetch(self, clients: Sequence[int], output: str = UPDATE) -> list[NDArray[Any]]:
        """Return the updates of clients, float32, shape (P,) each, or another named output of their replies.

        May train the clients first.
        """

    def cached(self, clients_of: Mapping[str, Sequence[int]], compute: Compute) -> list[Arrays]:
        """Return the named statistics; `compute` is called once, for the missing ones.

        `clients_of` maps each name to the clients whose outputs it takes to compute it.
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

    def cached(self, clients_of: Mapping[str, Sequence[int]], compute: Compute) -> list[Arrays]:
        """Compute everything."""
        return compute(list(clients_of))


def statistic_name(statistic: str, *inputs: object) -> str:
    """Return the name under which a statistic of these inputs is cached."""
    return f"{statistic}-{sha256(repr(inputs).encode()).hexdigest()[:16]}"
