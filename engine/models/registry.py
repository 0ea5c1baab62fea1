"""The models that a run can train: a line each; `engine.models.networks` builds them.

torch takes seconds to import, which whoever only needs the names is spared.
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
    minimum_side: int = 1
    """Least height and width of an image, in pixels."""
    build: Build | None = None
    """Returns the module, its weights unset. None for the models of the package: `networks` has them."""


_ENTRIES = (
    ModelEntry(
        "tinyvgg",
        "two blocks of two 3x3 convolutions (32 and 64 wide), no BatchNorm; 96 k parameters on MNIST",
        "after Simonyan and Zisserman 2015 (VGG); widths ours, the OCFL archive does not say its own",
        4,
    ),
    ModelEntry(
        "resnet34",
        "ResNet-34 for small images: 3x3 stem of stride 1, no max-pool; 21.28 M parameters",
        "He et al. 2016; the stem as inferred from the OCFL archive's weight norms",
        8,
    ),
    ModelEntry(
        "mobilenet",
        "MobileNetV2 for small images: stem of stride 1, no dropout; 2.24 M parameters",
        "Sandler et al. 2018, as in torchvision; PyTorch's default initialisation instead of its own",
        8,
    ),
    ModelEntry(
        "digitnet",
        "two hidden layers (128 and 96 wide), for 8x8 digits; 22 k parameters",
        "ours",
        1,
    ),
)

MODELS: dict[str, ModelEntry] = {entry.name: entry for entry in _ENTRIES}
"""By name: those of the package, then those of the plugins in use (`engine.plugins`)."""


def build(name: str, shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Return a new module of the named model; its weights mean nothing until `initialisation` draws them.

    Args:
        name: a key of `MODELS`.
        shape: (channels, height, width) of an image.
        num_classes: number of logits.

    Raises:
        ConfigError: unknown name, or images too small for the model.
    """
    from fedgrid.engine.models.networks import NETWORKS

    if name not in MODELS:
        raise unknown("model", name, MODELS)
    entry = MODELS[name]
    channels, height, width = shape
    if min(height, width) < entry.minimum_side:
        raise ConfigError(
            f"images of {height}x{width} are too small for model '{name}', which needs at least"
            f" {entry.minimum_side}x{entry.minimum_side}; choose another model or enlarge the images"
        )
    make = entry.build or NETWORKS[name]
    return make(channels, height, width, num_classes)
