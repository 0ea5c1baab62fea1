"""The models that a run can train: one entry each.

Commands that only need the names do not import torch, which takes seconds: an entry's `build` imports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedgrid.engine.errors import ConfigError, unknown

if TYPE_CHECKING:
    from torch import nn

    from fedgrid.engine.models.networks import Build


@dataclass(frozen=True)
class ModelEntry:
    """A model of the registry."""

    name: str
    description: str
    """One line."""
    source: str
    """Where the architecture comes from."""
    build: Build
    """Returns a new module; its weights are set by `engine.models.initialisation`."""
    minimum_side: int = 1
    """Least height and width of an image, in pixels."""


def _lazy(function: str) -> Build:
    """Return a function of `engine.models.networks`, imported at its first call."""

    def build(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
        from fedgrid.engine.models import networks

        make: Build = getattr(networks, function)
        return make(channels, height, width, num_classes)

    return build


_ENTRIES = (
    ModelEntry(
        "tinyvgg",
        "two blocks of two 3x3 convolutions (32 and 64 wide), no BatchNorm; 96 k parameters on MNIST",
        "after Simonyan and Zisserman 2015 (VGG); widths ours, the OCFL archive does not say its own",
        _lazy("tinyvgg"),
        minimum_side=4,
    ),
    ModelEntry(
        "resnet34",
        "ResNet-34 for small images: 3x3 stem of stride 1, no max-pool; 21.28 M parameters",
        "He et al. 2016; the stem as inferred from the OCFL archive's weight norms",
        _lazy("resnet34"),
        minimum_side=8,
    ),
    ModelEntry(
        "mobilenet",
        "MobileNetV2 for small images: stem of stride 1, no dropout; 2.24 M parameters",
        "Sandler et al. 2018, as in torchvision; PyTorch's default initialisation instead of its own",
        _lazy("mobilenet"),
        minimum_side=8,
    ),
    ModelEntry(
        "digitnet",
        "two hidden layers (128 and 96 wide), for 8x8 digits; 22 k parameters",
        "ours",
        _lazy("digitnet"),
    ),
)

MODELS: dict[str, ModelEntry] = {entry.name: entry for entry in _ENTRIES}
"""By name: those of the package, then those of the plugins in use (`engine.plugins`)."""


def build(name: str, shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Return a new module of the named model, whose weights are not initialised yet.

    Args:
        name: a key of `MODELS`.
        shape: (channels, height, width) of an image.
        num_classes: number of classes, one logit each.

    Raises:
        ConfigError: unknown name, or images too small for the model.
    """
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    entry = MODELS[name]
    channels, height, width = shape
    if min(height, width) < entry.minimum_side:
        raise ConfigError(
            f"images of {height}x{width} are too small for model '{name}', which needs at least"
            f" {entry.minimum_side}x{entry.minimum_side}; choose another model or enlarge the images"
        )
    return entry.build(channels, height, width, num_classes)
