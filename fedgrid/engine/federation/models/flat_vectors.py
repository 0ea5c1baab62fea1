"""Conversion between a torch module and its flat state vector of P entries.

The vector holds the parameters in the order of `named_parameters`, then the buffers in the order of
`named_buffers`. Each tensor is flattened in index order (C order), whatever its strides in memory.
"""

from collections.abc import Iterator
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

from fedgrid.algorithms.updates.source import Layout, Vector

NORM_BLOCK = 1 << 18
"""Entries of an update squared at a time, in float64: two megabytes."""


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    return chain(module.named_parameters(), module.named_buffers())


def layout_of(module: nn.Module) -> Layout:
    """Return names and shapes of the tensors in the module's state vector."""
    named = [(name, tuple(tensor.shape)) for name, tensor in _tensors(module)]
    return Layout(
        names=tuple(name for name, _ in named),
        shapes=tuple(shape for _, shape in named),
        num_parameters=sum(parameter.numel() for parameter in module.parameters()),
    )


def read_vector(module: nn.Module) -> Vector:
    """Return a copy of the module's state: float32, shape (P,), on the host."""
    return _read([tensor for _, tensor in _tensors(module)])


def write(module: nn.Module, vector: Vector) -> None:
    """Copy `vector`, shape (P,), into the module; values of integer buffers (counters) are rounded.

    Raises:
        ValueError: the vector's length is not that of the module's state.
    """
    _write([tensor for _, tensor in _tensors(module)], vector)


@torch.no_grad()
def _read(tensors: list[Tensor]) -> Vector:
    vector: Vector = torch.cat([tensor.reshape(-1).float() for tensor in tensors]).cpu().numpy()
    return vector


@torch.no_grad()
def _write(tensors: list[Tensor], vector: Vector) -> None:
    sizes = [tensor.numel() for tensor in tensors]
    if vector.shape != (sum(sizes),):
        raise ValueError(
            f"a state vector of shape {vector.shape} does not fit a model of {sum(sizes)} entries"
        )
    # `torch.tensor` copies, so `vector` may be a read-only view of shared memory.
    parts = torch.tensor(vector, dtype=torch.float32, device=tensors[0].device).split_with_sizes(sizes)
    for tensor, part in zip(tensors, parts, strict=True):
        values = part.view(tensor.shape)
        tensor.copy_(values if tensor.is_floating_point() else values.round())


class FlatModule:
    """A module whose parameters, and their gradients, are views of two flat tensors of W entries.

    An optimizer step is then a few operations on one tensor. Convolution kernels are stored with channels
    last, which is the fast memory format on CPU and GPU. The flat tensors are therefore not in the layout's
    order; `gather` and `scatter` convert between the two.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        parameters = list(module.parameters())
        self._shapes = [parameter.shape for parameter in parameters]
        size = sum(parameter.numel() for parameter in parameters)
        self.weights = torch.zeros(size, device=parameters[0].device)
        """Shape (W,)."""
        self.gradient = torch.zeros_like(self.weights)
        """Shape (W,); `backward` accumulates into it."""
        views = zip(self._views(self.weights), self._views(self.gradient), strict=True)
        for parameter, (weight, gradient) in zip(parameters, views, strict=True):
            weight.copy_(parameter.detach())
            parameter.data, parameter.grad = weight, gradient
        self._state = [tensor.detach() for _, tensor in _tensors(module)]

    def read(self) -> Vector:
        """Return a copy of the module's state, as `read_vector`."""
        return _read(self._state)

    def write(self, vector: Vector) -> None:
        """Copy a state into the module, as `write`."""
        _write(self._state, vector)

    def gather(self, flat: Tensor) -> Vector:
        """Convert a flat tensor to a vector in the layout's order, shape (W,)."""
        return _read(self._views(flat))

    def scatter(self, vector: Vector) -> Tensor:
        """Convert a vector in the layout's order to a flat tensor: its parameters, (W,), or a state, (P,).

        Raises:
            ValueError: a vector of another length.
        """
        size, whole = len(self.weights), sum(tensor.numel() for tensor in self._state)
        if vector.shape not in {(size,), (whole,)}:
            raise ValueError(f"an array of shape {vector.shape} does not fit a model of {size} parameters")
        flat = torch.empty_like(self.weights)
        _write(self._views(flat), vector[:size])
        return flat

    def _views(self, flat: Tensor) -> list[Tensor]:
        views = []
        parts = flat.split_with_sizes([shape.numel() for shape in self._shapes])
        for shape, part in zip(self._shapes, parts, strict=True):
            if len(shape) == 4:
                out, channels, height, width = shape
                views.append(part.view(out, height, width, channels).permute(0, 3, 1, 2))
            else:
                views.append(part.view(shape))
        return views


def squared_norm(update: Vector) -> float:
    """Return the squared Euclidean norm, summed in float64; NaN or infinite if and only if an entry is.

    Not by a BLAS product, whose last bits depend on the process's number of threads.
    """
    starts = range(0, len(update), NORM_BLOCK)
    return float(sum(np.square(update[i : i + NORM_BLOCK], dtype=np.float64).sum() for i in starts))
