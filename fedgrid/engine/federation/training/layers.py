"""Layers that need care: BatchNorm in stacks of clients, and layers that draw random numbers as they train.

Of a batch in a stack only some images count. What a model draws itself, as dropout does, comes from the
global generators, which are seeded for the call.

Shapes: B images of a batch, C channels.
"""

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.jit import ScriptModule
from torch.nn.modules.batchnorm import _BatchNorm

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.seeds import read_global_states, temporary_seeds

SCRIPTED_NORMS = "BatchNorm1d", "BatchNorm2d", "BatchNorm3d"
"""Class names of BatchNorm that survive `torch.jit.script`, which replaces the classes themselves."""


class MaskedNorm(nn.Module):
    """BatchNorm in training mode over the images of `mask_B`; state and numbers are those of the layer.

    Without any image its statistics stay as they are.

    Args:
        norm: the layer whose tensors are taken over.
    """

    mask_B: Tensor
    """Marks the images that count, bool, shape (B,); to be set before each forward pass."""

    def __init__(self, norm: _BatchNorm) -> None:
        """Take over the tensors of a layer, under the same names."""
        super().__init__()
        self.weight, self.bias = norm.weight, norm.bias
        for name, buffer in norm.named_buffers():
            self.register_buffer(name, buffer)
        self._has_statistics = norm.track_running_stats
        self._momentum, self._epsilon = norm.momentum, norm.eps

    def forward(self, images: Tensor) -> Tensor:
        """Normalise the images, shape (B, C, ...), then scale and shift them by channel."""
        shape = (1, -1, *[1] * (images.dim() - 2))
        mask = self.mask_B.view(-1, *[1] * (images.dim() - 1))
        # `where` and not a product: a masked image may hold anything, and 0 times infinity is NaN.
        values = torch.where(mask, images.float(), 0)
        others = [axis for axis in range(images.dim()) if axis != 1]
        # Values of a channel: images that count, times positions.
        count = mask.sum() * (images[0, 0].numel())
        mean_C = values.sum(others) / count.clamp(min=1)
        offsets = torch.where(mask, values - mean_C.view(shape), 0)
        variance_C = offsets.square().sum(others) / count.clamp(min=1)
        # The running variance is the unbiased one, the one that normalises is not, as in torch.
        if self._has_statistics:
            self._update_statistics(
                mean_C.detach(), variance_C.detach() * count / (count - 1).clamp(min=1), count > 0
            )
        scale_C = torch.rsqrt(variance_C + self._epsilon)
        if self.weight is None:
            return (offsets * scale_C.view(shape)).to(images.dtype)
        scale_C = self.weight * scale_C
        return (offsets * scale_C.view(shape) + self.bias.view(shape)).to(images.dtype)

    def _update_statistics(self, mean_C: Tensor, variance_C: Tensor, is_any: Tensor) -> None:
        """Update the running statistics, unless there was no image."""
        batches = cast(Tensor, self.num_batches_tracked)
        # In place, here and below: these are the stack's own buffers, which `functional_call` lends to the
        # module.
        batches += is_any
        # Without a momentum torch averages all batches alike. `is_any` is 0 or 1: no branch, which vmap could
        # not take.
        share = is_any / batches.clamp(min=1) if self._momentum is None else is_any * self._momentum
        for name, value_C in (("running_mean", mean_C), ("running_var", variance_C)):
            running_C = cast(Tensor, getattr(self, name))
            running_C += share * (value_C - running_C)


def mask_norms(module: nn.Module) -> nn.Module:
    """Replace each BatchNorm of the module; names and order of all tensors stay the same."""
    for name, layer in list(module.named_modules()):
        if isinstance(layer, _BatchNorm):
            parent, _, own = name.rpartition(".")
            setattr(module.get_submodule(parent), own, MaskedNorm(layer))
    return module if not isinstance(module, _BatchNorm) else MaskedNorm(module)


def is_batch_norm(layer: nn.Module) -> bool:
    """Check whether a layer is BatchNorm, also if `torch.jit.script` has replaced its class."""
    if isinstance(layer, ScriptModule):
        return layer.original_name in SCRIPTED_NORMS
    return isinstance(layer, _BatchNorm | MaskedNorm)


def reset_norms(module: nn.Module) -> None:
    """Set the statistics and counters of each BatchNorm to their initial values."""
    for layer in filter(is_batch_norm, module.modules()):
        # A scripted one has its attributes, but not the method.
        _BatchNorm.reset_running_stats(cast(_BatchNorm, layer))


@torch.no_grad()
def draws_random_numbers(module: nn.Module, batch: Tensor) -> bool:
    """Check by a trial batch whether a module on the CPU draws random numbers as it trains.

    The module is left in training mode; its buffers may change.
    """
    with temporary_seeds("cpu", np.random.default_rng(0)):
        before = read_global_states()
        module.train()
        module(batch)
        return read_global_states() != before


def find_smallest_batch(module: nn.Module, batch_size: int) -> int:
    """Find the least number of images that the module can be trained on at a time: 2 with BatchNorm, else 1.

    Raises:
        ConfigError: batches of one image for a model with BatchNorm.
    """
    if not any(map(is_batch_norm, module.modules())):
        return 1
    if batch_size == 1:
        raise ConfigError(
            "training.batch_size=1 does not work with a model that has BatchNorm; choose at least 2"
        )
    return 2
