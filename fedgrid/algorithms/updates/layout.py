"""A layout names the entries of a flat state vector."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod


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

    @property
    def size(self) -> int:
        """Entries of the whole vector, P."""
        return sum(prod(shape) for shape in self.shapes)

    def slices(self) -> Iterator[tuple[str, slice, tuple[int, ...]]]:
        """Yield (name, where in the vector, shape) of every tensor."""
        start = 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            stop = start + prod(shape)
            yield name, slice(start, stop), shape
            start = stop
