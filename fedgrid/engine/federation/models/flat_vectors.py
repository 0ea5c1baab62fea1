"""Conversion between a torch module and its flat state vector of P entries, and a model's initial one.

The vector holds the parameters that train, in the order of `named_parameters`, then the persistent buffers of
floating numbers and BatchNorm's counters, in the order of `named_buffers`. All else is a constant of the
module: frozen parameters, other buffers. Tied parameters are one. Each tensor is flattened in index order (C
order), whatever its strides in memory.
"""

from dataclasses import replace
from functools import lru_cache, partial
from math import prod

import numpy as np
import torch
from torch import Tensor, nn

from fedgrid.algorithms.updates.source import Layout, Vector
from fedgrid.engine.federation.inputs import Inputs
from fedgrid.engine.federation.models import registry
from fedgrid.engine.federation.seeds import make_generator, temporary_seeds

NORM_BLOCK = 1 << 18
"""Entries of an update that are squared at a time, in float64: two megabytes."""


def find_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """Find the parameters of the module's state by name: those that train."""
    return {name: one for name, one in module.named_parameters() if one.requires_grad}


def find_buffers(module: nn.Module) -> dict[str, Tensor]:
    """Find the buffers of the module's state by name: persistent floating ones and BatchNorm's counters."""
    # `named_buffers` also yields buffers that torch does not save, such as caches; `keep_vars` avoids copies.
    persistent = module.state_dict(keep_vars=True).keys()
    return {
        name: buffer
        for name, buffer in module.named_buffers()
        if name in persistent and (buffer.is_floating_point() or name.endswith("num_batches_tracked"))
    }


def _list_tensors(module: nn.Module) -> list[Tensor]:
    """List the tensors of the module's state in the order of its vector."""
    return [*find_parameters(module).values(), *find_buffers(module).values()]


def read_layout(module: nn.Module) -> Layout:
    """Read names and shapes of the tensors in the module's state vector."""
    parameters = find_parameters(module)
    named = {**parameters, **find_buffers(module)}
    return Layout(
        names=tuple(named),
        shapes=tuple(tuple(tensor.shape) for tensor in named.values()),
        num_parameters=sum(parameter.numel() for parameter in parameters.values()),
        # By an attribute, which survives `torch.jit.script`; the class does not.
        norm_layers=tuple(
            name for name, layer in module.named_modules() if hasattr(layer, "num_batches_tracked")
        ),
    )


def read_vector(module: nn.Module) -> Vector:
    """Copy the module's state into a vector: float32, shape (P,), on the host."""
    return _join_to_vector(_list_tensors(module))


def write_vector(module: nn.Module, vector: Vector) -> None:
    """Copy `vector`, shape (P,), into the module; values of integer buffers (counters) are rounded.

    Raises:
        ValueError: the vector's length is not that of the module's state.
    """
    _copy_vector(_list_tensors(module), vector)


def _join_to_vector(tensors: list[Tensor]) -> Vector:
    """Join tensors to one vector on the host."""
    vector: Vector = _join_tensors(tensors).cpu().numpy()
    return vector


@torch.no_grad()
def _join_tensors(tensors: list[Tensor]) -> Tensor:
    """Join tensors to one flat float32 tensor on their device."""
    # `reshape` follows the index order, whatever the strides: a kernel with channels last is copied for it.
    return torch.cat([tensor.reshape(-1).float() for tensor in tensors])


def _copy_vector(tensors: list[Tensor], vector: Vector) -> None:
    # `torch.tensor` copies, so `vector` may be a read-only view of shared memory.
    """Copy a vector into tensors."""
    _copy_flat(tensors, torch.tensor(vector, dtype=torch.float32, device=tensors[0].device))


@torch.no_grad()
def _copy_flat(tensors: list[Tensor], flat: Tensor) -> None:
    """Copy a flat tensor on the device into tensors, part by part."""
    sizes = [tensor.numel() for tensor in tensors]
    if flat.shape != (sum(sizes),):
        raise ValueError(
            f"a state vector of shape {tuple(flat.shape)} does not fit a model of {sum(sizes)} entries"
        )
    for tensor, part in zip(tensors, flat.split_with_sizes(sizes), strict=True):
        values = part.view(tensor.shape)
        tensor.copy_(values if tensor.is_floating_point() else values.round())


class FlatModule:
    """A module whose parameters that train, and their gradients, are views of two flat tensors of W entries.

    An optimizer step is then a few operations on one tensor. Convolution kernels are stored with channels
    last, which is the fast memory format on CPU and GPU. The flat tensors are therefore not in the layout's
    order; `gather_vector` and `scatter_vector` convert between the two.

    Args:
        module: the model; its parameters are replaced by views.
        head: name of the submodule whose inputs are the features. Default: none.
        layout: layout of the model's state, by the model's own names. Default: read from the module.
    """

    def __init__(self, module: nn.Module, head: str | None = None, layout: Layout | None = None) -> None:
        """Take over a module; `head` is the name of its head."""
        self.module = module
        self.layout = layout or read_layout(module)
        # The hook knows this list and not the workspace: a cycle would keep both on the device.
        self._head_inputs: list[Tensor] = []
        if head is not None:
            note = partial(_store_head_inputs, self._head_inputs)
            module.get_submodule(head).register_forward_pre_hook(note)
        parameters = list(find_parameters(module).values())
        self._shapes = [parameter.shape for parameter in parameters]
        size = sum(parameter.numel() for parameter in parameters)
        self.weights = torch.zeros(size, device=parameters[0].device)
        """All parameters that train, shape (W,)."""
        self.gradient = torch.zeros_like(self.weights)
        """Their gradients, shape (W,); `backward` accumulates into it."""
        self._weights = self._build_views(self.weights)
        views = zip(self._weights, self._build_views(self.gradient), strict=True)
        for parameter, (weight, gradient) in zip(parameters, views, strict=True):
            weight.copy_(parameter.detach())
            parameter.data, parameter.grad = weight, gradient
        # Their places: a module may put another tensor into a buffer's.
        layers = dict(module.named_modules())
        parts = (name.rpartition(".")[::2] for name in find_buffers(module))
        self._buffers = [(layers[path]._buffers, name) for path, name in parts]

    @property
    def _buffer_tensors(self) -> list[Tensor]:
        """The tensors that the state's buffers are at present."""
        return [tensor.detach() for buffers, name in self._buffers if (tensor := buffers[name]) is not None]

    @property
    def replaced_parameters(self) -> list[str]:
        """Names of parameters whose values the module has moved to other tensors; they no longer train."""
        here = self.weights.untyped_storage().data_ptr()
        places = {
            name: one.untyped_storage().data_ptr() for name, one in find_parameters(self.module).items()
        }
        return [name for name, place in places.items() if place != here]

    @property
    def features(self) -> Tensor | None:
        """Inputs of the head in the last forward pass; None before the first pass, and without a head."""
        return self._head_inputs[0] if self._head_inputs else None

    def read_vector(self) -> Vector:
        """Copy the module's state into a vector, like `read_vector`."""
        return _join_to_vector([*self._weights, *self._buffer_tensors])

    def write_vector(self, vector: Vector) -> None:
        """Copy a state into the module, like `write_vector`; features of an earlier state are dropped."""
        self._head_inputs.clear()
        _copy_vector([*self._weights, *self._buffer_tensors], vector)

    def take_snapshot(self) -> Tensor:
        """Copy the state on the device, shape (P,): `weights`, then the buffers."""
        return _join_tensors([self.weights, *self._buffer_tensors])

    def load_snapshot(self, snapshot: Tensor) -> None:
        """Copy a snapshot into the module; values of integer buffers (counters) are rounded.

        Raises:
            ValueError: a tensor of another shape.
        """
        # A snapshot stays on the device and has the order of the flat tensors, not the layout's: no
        # conversion.
        _copy_flat([self.weights, *self._buffer_tensors], snapshot)

    def gather_vector(self, flat: Tensor) -> Vector:
        """Convert a flat tensor, shape (W,), or a snapshot, (P,), to a vector in the layout's order."""
        size = len(self.weights)
        return _join_to_vector([*self._build_views(flat[:size]), flat[size:]])

    def scatter_vector(self, vector: Vector) -> Tensor:
        """Convert a vector in the layout's order: (W,) to a flat tensor, (P,) to a snapshot.

        Raises:
            ValueError: a vector of another length.
        """
        size = len(self.weights)
        num_entries = size + sum(tensor.numel() for tensor in self._buffer_tensors)
        if vector.shape not in {(size,), (num_entries,)}:
            raise ValueError(f"an array of shape {vector.shape} does not fit a model of {size} parameters")
        flat = self.weights.new_empty(len(vector))
        _copy_vector([*self._build_views(flat[:size]), flat[size:]], vector)
        return flat

    def _build_views(self, flat: Tensor) -> list[Tensor]:
        """Build views of a flat tensor with the parameters' shapes; convolutions have channels last."""
        views = []
        parts = flat.split_with_sizes([shape.numel() for shape in self._shapes])
        for shape, part in zip(self._shapes, parts, strict=True):
            if len(shape) == 4:
                out, channels, height, width = shape
                # Memory in the order (out, height, width, channels), shown as (out, channels, height, width).
                views.append(part.view(out, height, width, channels).permute(0, 3, 1, 2))
            else:
                views.append(part.view(shape))
        return views


def _store_head_inputs(head_inputs: list[Tensor], _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """Store the inputs of the head; a hook that torch calls before each of its forward passes."""
    head_inputs[:] = inputs[:1]


def compute_squared_norm(update: Vector) -> float:
    """Compute the squared Euclidean norm, summed in float64; NaN or infinite if and only if an entry is.

    Not by a BLAS product, whose last bits depend on the process's number of threads.
    """
    starts = range(0, len(update), NORM_BLOCK)
    return float(sum(np.square(update[i : i + NORM_BLOCK], dtype=np.float64).sum() for i in starts))


def build_blank(name: str, inputs: Inputs, num_classes: int, seed: int = 0, number: int = 0) -> nn.Module:
    """Build the named model on the CPU, by its function under a run's seed; its state is to be overwritten.

    The constants of the module are in place. The global generators stay as they are.

    Args:
        name: name of the model or the autoencoder.
        inputs: kind and shape of an example.
        num_classes: number of outputs.
        seed: the run's seed, which a plugin's constants may be drawn with. Default: 0.
        number: which of several independent models. Default: 0.
    """
    with temporary_seeds("cpu", make_generator(seed, f"module {number}")):
        return registry.build_model(name, inputs, num_classes)


def find_head(name: str) -> str | None:
    """Find the name of the named model's head; None if its entry names none."""
    return registry.find_entry(name).head


def build_layout(name: str, inputs: Inputs, num_classes: int) -> Layout:
    """Build the named model to read the layout of its state, once a process."""
    return _build_layout(name, inputs, num_classes, registry.find_entry(name))


@lru_cache
def _build_layout(name: str, inputs: Inputs, num_classes: int, entry: registry.ModelEntry) -> Layout:
    """Build the model; the entry tells a model of one plugin from that of another of the same name."""
    return replace(read_layout(build_blank(name, inputs, num_classes)), head=entry.head)


@torch.no_grad()
def initialise_layers(module: nn.Module, rng: torch.Generator) -> None:
    """Set the weights of the layers below to PyTorch's defaults, in the order in which PyTorch draws them.

    Weights and biases of convolutions and linear layers are uniform in +-1 / sqrt(fan in), which equals
    `kaiming_uniform_(a=sqrt(5))`; BatchNorm and GroupNorm start as the identity. Other layers, and those of
    which a parameter is frozen, stay as they are.
    """
    # torch's own `reset_parameters` takes no generator; these lines draw the same numbers from one.
    for layer in module.modules():
        if not all(weights.requires_grad for weights in layer.parameters(recurse=False)):
            continue
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.GroupNorm):
            layer.reset_parameters()
        elif isinstance(layer, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            nn.init.kaiming_uniform_(layer.weight, a=5**0.5, generator=rng)
            if layer.bias is not None:
                # As `Conv2d.reset_parameters` does. Of transposed convolutions torch takes this side for the
                # fan in, too.
                bound = prod(layer.weight.shape[1:]) ** -0.5
                nn.init.uniform_(layer.bias, -bound, bound, generator=rng)


def draw_initial_vector(name: str, inputs: Inputs, num_classes: int, seed: int, number: int = 0) -> Vector:
    """Draw the initial state of a run: float32, shape (P,); a function of its arguments alone.

    Args:
        name: name of the model.
        inputs: kind and shape of an example.
        num_classes: number of outputs.
        seed: the run's seed.
        number: 0 is the model that every algorithm starts from; others are independent draws. Default: 0.

    Raises:
        ConfigError: as `federation.models.registry.build`.
    """
    module = build_blank(name, inputs, num_classes, seed, number)
    # A model with `module` has drawn its own weights in `build_blank`; one with `build` gets fedgrid's.
    if registry.find_entry(name).build is not None:
        rng = make_generator(seed, f"model {number}" if number else "model")
        initialise_layers(module, torch.Generator().manual_seed(int(rng.integers(2**63))))
    return read_vector(module)
