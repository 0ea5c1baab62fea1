"""The models that a run can train: one build function and one registry line each.

A model may not draw random numbers while it runs (no dropout): all randomness of a run comes from its
seeded generators. Weights are set by `engine.initialise`, whatever a build function leaves in them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from engine.errors import ConfigError, unknown

Build = Callable[[int, int, int, int], nn.Module]


@dataclass(frozen=True)
class ModelEntry:
    """A model of the registry."""

    name: str
    description: str
    """One line."""
    source: str
    """Where the architecture comes from."""
    minimum_side: int
    """Least height and width of an image, in pixels."""
    build: Build
    """(channels, height, width, classes) -> module: float32 images (N, channels, height, width) in [0, 1]
    to logits (N, classes)."""


def _convolutions(channels: int, width: int) -> list[nn.Module]:
    """Return two 3x3 convolutions and a 2x2 max-pool.

    The pool stands before the second ReLU: both orders give the same numbers, forward and backward, and
    this one has a quarter of the entries to rectify.
    """
    return [
        nn.Conv2d(channels, width, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(width, width, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(inplace=True),
    ]


def _tinyvgg(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    features = 64 * (height // 4) * (width // 4)
    return nn.Sequential(
        *_convolutions(channels, 32), *_convolutions(32, 64), nn.Flatten(), nn.Linear(features, num_classes)
    )


def _digitnet(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Return two hidden layers: with one, the temperature of the digits rises from the first round on."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(channels * height * width, 128),
        nn.ReLU(inplace=True),
        nn.Linear(128, 96),
        nn.ReLU(inplace=True),
        nn.Linear(96, num_classes),
    )


class _ResidualBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(channels, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )
        self.rectify = nn.ReLU(inplace=True)

    def forward(self, images: Tensor) -> Tensor:
        rectified: Tensor = self.rectify(self.branch(images) + self.shortcut(images))
        return rectified


def _resnet34(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    layers: list[nn.Module] = [
        nn.Conv2d(channels, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
    ]
    before = 64
    for stage, depth in enumerate((3, 4, 6, 3)):
        after = 64 * 2**stage
        for block in range(depth):
            layers.append(_ResidualBlock(before, after, stride=2 if stage and not block else 1))
            before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, num_classes))


_ENTRIES = (
    ModelEntry(
        "tinyvgg",
        "two blocks of two 3x3 convolutions (32 and 64 wide), no BatchNorm; 96 k parameters on MNIST",
        "after Simonyan and Zisserman 2015 (VGG); widths ours, the OCFL archive does not say its own",
        4,
        _tinyvgg,
    ),
    ModelEntry(
        "resnet34",
        "ResNet-34 for small images: 3x3 stem of stride 1, no max-pool; 21.28 M parameters",
        "He et al. 2016; the stem as inferred from the OCFL archive's weight norms",
        8,
        _resnet34,
    ),
    ModelEntry(
        "digitnet",
        "two hidden layers (128 and 96 wide), for 8x8 digits; 22 k parameters",
        "ours",
        1,
        _digitnet,
    ),
)

MODELS: dict[str, ModelEntry] = {entry.name: entry for entry in _ENTRIES}


def build(name: str, shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Return a new module of the named model; its weights mean nothing yet (see `engine.initialise`).

    Args:
        name: a key of `MODELS`.
        shape: (channels, height, width) of an image.
        num_classes: number of logits.

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
