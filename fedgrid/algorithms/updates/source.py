"""Updates as vectors: what their entries are, and the sources that they come from.

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
"""A NumPy random generator; all randomness of an algorithm comes from the one that it gets."""
Vector: TypeAlias = NDArray[np.float32]
"""An update or a model: float32, shape (P,).

Example:
    >>> import fedgrid
    >>> import numpy as np
    >>> update_P: fedgrid.Vector = np.zeros(3, np.float32)
"""
Matrix: TypeAlias = NDArray[np.float64]
"""Numbers about clients: float64, mostly of shape (K, K).

Example:
    >>> import fedgrid
    >>> import numpy as np
    >>> distances_KK: fedgrid.Matrix = np.zeros((2, 2))
"""
Arrays: TypeAlias = Mapping[str, NDArray[Any]]
"""Arrays by name."""
ComputeStatistics: TypeAlias = Callable[[Sequence[str]], list[Arrays]]
"""Function from the names of missing statistics to the statistics, in their order."""
UPDATE = "update"
"""Name of a client's update among its outputs."""


@dataclass(frozen=True)
class Layout:
    """Names and shapes of the tensors in a flat state vector, in its order.

    Parameters (weights, biases) come first, buffers (BatchNorm statistics and counters) after them, so that
    `vector[:num_parameters]` is the model without its buffers. `Algorithm.init` and `Updates` have the layout
    of the run's model.

    Args:
        names: tensor names as in `torch.nn.Module.state_dict`, in the vector's order.
        shapes: shape of each tensor.
        num_parameters: number of entries before the first buffer, W.
        head: name of the module that the model's entry calls its head; None: it names none.
        norm_layers: names of the BatchNorm and InstanceNorm modules.

    Example:
        >>> import fedgrid
        >>> names = ("conv.weight", "conv.bias", "fc.weight")
        >>> layout = fedgrid.Layout(names, ((2, 3), (2,), (4, 2)), num_parameters=16, head="fc")
        >>> layout.size, layout.layers, layout.head_layers
        (16, ('conv', 'fc'), ('fc',))
        >>> layout.ranges(layout.head_layers)
        [(8, 16)]
    """

    names: tuple[str, ...]
    """Tensor names as in `torch.nn.Module.state_dict`, in the vector's order."""
    shapes: tuple[tuple[int, ...], ...]
    """Shape of each tensor."""
    num_parameters: int
    """Number of entries before the first buffer, W."""
    head: str | None = None
    """Name of the module that the model's entry calls its head; None: it names none."""
    norm_layers: tuple[str, ...] = ()
    """Names of the BatchNorm and InstanceNorm modules; `layout.ranges(layout.norm_layers)` are their entries
    of the state vector, buffers too."""

    @property
    def size(self) -> int:
        """Number of entries of the whole vector, P."""
        return sum(prod(shape) for shape in self.shapes)

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the modules with weights of their own, in the vector's order."""
        weights = (name for name, where, _ in self.slices() if where.stop <= self.num_parameters)
        return tuple(dict.fromkeys(name.rpartition(".")[0] for name in weights))

    @property
    def head_layers(self) -> tuple[str, ...]:
        """Names in `layers` that are the head or within it; empty without a head.

        `layout.ranges(layout.head_layers)` are the head's entries of the state vector.
        """
        return tuple(
            layer
            for layer in self.layers
            if self.head is not None and (layer == self.head or layer.startswith(f"{self.head}."))
        )

    def ranges(self, layers: Collection[str]) -> list[tuple[int, int]]:
        """Find the entries of layers, buffers too, as ranges, start and stop, ascending.

        Adjacent ranges are merged.
        """
        ranges: list[tuple[int, int]] = []
        for name, where, _ in self.slices():
            if name.rpartition(".")[0] not in layers:
                continue
            # Merged, so that a rule has a few ranges and not one for each tensor.
            if ranges and ranges[-1][1] == where.start:
                ranges[-1] = (ranges[-1][0], where.stop)
            else:
                ranges.append((where.start, where.stop))
        return ranges

    def slices(self) -> Iterator[tuple[str, slice, tuple[int, ...]]]:
        """Yield (name, slice of the vector, shape) of every tensor."""
        start = 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            stop = start + prod(shape)
            yield name, slice(start, stop), shape
            start = stop


class Source(Protocol):
    """A lazy source of updates: statistics may be cached where the updates themselves are not."""

    def fetch(self, clients: Sequence[int], output: str = UPDATE) -> list[NDArray[Any]]:
        """Fetch the updates of clients, float32, shape (P,) each, or another named output of their replies.

        It may train the clients first: where a round comes from the round cache, its updates are not stored.
        """

    def cached(self, clients_of: Mapping[str, Sequence[int]], compute: ComputeStatistics) -> list[Arrays]:
        """Return the named statistics; compute those that are not cached.

        Args:
            clients_of: name of each statistic -> the clients whose outputs it is computed from.
            compute: called once, with the names of the missing statistics.
        """


def make_read_only(arrays: Iterable[NDArray[Any]]) -> list[NDArray[Any]]:
    """Make arrays read-only and return them."""
    arrays = list(arrays)
    for array in arrays:
        array.flags.writeable = False
    return arrays


class InMemorySource:
    """A source of updates that are in memory; nothing is cached."""

    def __init__(
        self,
        vectors: Mapping[int, NDArray[np.float32]],
        outputs: Mapping[str, Mapping[int, NDArray[Any]]] | None = None,
    ) -> None:
        """Take the updates of clients, and further outputs: name -> an array of each client."""
        self._outputs = {**(outputs or {}), UPDATE: vectors}

    def fetch(self, clients: Sequence[int], output: str = UPDATE) -> list[NDArray[Any]]:
        """Return the updates of clients, or another of their outputs."""
        return [self._outputs[output][client] for client in clients]

    def cached(self, clients_of: Mapping[str, Sequence[int]], compute: ComputeStatistics) -> list[Arrays]:
        """Compute every statistic."""
        return compute(list(clients_of))


def build_statistic_name(statistic: str, *inputs: object) -> str:
    """Build the name under which a statistic of these inputs is cached."""
    # A digest, because the clients of a large federation would make a very long name.
    return f"{statistic}-{sha256(repr(inputs).encode()).hexdigest()[:16]}"
