"""A model's initial weights: PyTorch's default initialisation, drawn from an explicit generator."""

from math import prod

import torch
from torch import nn

from fedgrid.algorithms.updates.source import Vector
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.models import flat_vectors, registry
from fedgrid.engine.federation.seeds import generator

KNOWN = (nn.Conv2d, nn.ConvTranspose2d, nn.Linear, nn.BatchNorm1d, nn.BatchNorm2d, nn.GroupNorm)


def blank(name: str, shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Return the named model on the CPU, its weights not initialised; draws no random numbers.

    `Module.to_empty` would do the same, and import sympy for it: half a second for each client actor.
    """
    with torch.device("meta"):
        module = registry.build(name, shape, num_classes)
    for layer in module.modules():
        for key, weights in layer.named_parameters(recurse=False):
            setattr(layer, key, nn.Parameter(_empty(weights), weights.requires_grad))
        for key, values in layer.named_buffers(recurse=False):
            setattr(layer, key, _empty(values))
    return module


def _empty(like: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(like.size(), like.stride(), dtype=like.dtype, device="cpu")


@torch.no_grad()
def initialise(module: nn.Module, rng: torch.Generator) -> None:
    """Set all weights and buffers to PyTorch's defaults, in the order in which PyTorch draws them.

    Weights and biases of convolutions and linear layers are uniform in +-1 / sqrt(fan in), which equals
    `kaiming_uniform_(a=sqrt(5))`; BatchNorm and GroupNorm start as the identity.

    Raises:
        ConfigError: a layer with weights or buffers is of a type that is not supported.
    """
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.GroupNorm):
            layer.reset_parameters()
        elif isinstance(layer, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            nn.init.kaiming_uniform_(layer.weight, a=5**0.5, generator=rng)
            if layer.bias is not None:
                bound = prod(layer.weight.shape[1:]) ** -0.5
                nn.init.uniform_(layer.bias, -bound, bound, generator=rng)
        elif any(True for _ in layer.parameters(recurse=False)) or any(
            True for _ in layer.buffers(recurse=False)
        ):
            known = ", ".join(sorted(kind.__name__ for kind in KNOWN))
            raise ConfigError(
                f"no initialisation for a layer of type '{type(layer).__name__}'; known: {known};"
                " add its default to engine/federation/models/initialisation.py"
            )


def initial_vector(
    name: str, shape: tuple[int, int, int], num_classes: int, seed: int, number: int = 0
) -> Vector:
    """Return the initial state of a run: float32, shape (P,); a function of its arguments alone.

    Args:
        name: a key of `federation.models.registry.MODELS`.
        shape: (channels, height, width) of an image.
        num_classes: number of classes.
        seed: the run's seed.
        number: 0 is the model that every algorithm starts from; others are independent draws.

    Raises:
        ConfigError: as `federation.models.registry.build`.
    """
    module = blank(name, shape, num_classes)
    rng = torch.Generator().manual_seed(
        int(generator(seed, f"model {number}" if number else "model").integers(2**63))
    )
    initialise(module, rng)
    return flat_vectors.read_vector(module)
