"""The networks of the models, one build function each.

A network may not draw random numbers while it runs (no dropout): all randomness of a run comes from its
seeded generators. Weights are set by `engine.models.initialisation`, whatever a build function leaves in
them.
"""

from collections.abc import Callable

from torch import Tensor, nn

Build = Callable[[int, int, int, int], nn.Module]
"""(channels, height, width, classes) -> module: float32 images (N, channels, height, width) in [0, 1] to
logits (N, classes)."""


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


def _mobilenet(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Return torchvision's MobileNetV2 with a stem of stride 1, and without the dropout before its head.

    Its weights are drawn by `engine.models.initialisation`, where torchvision draws normals by the
    fan out (kernels) and of deviation 0.01 (head), with a bias of zero.
    """
    # Imported here because it costs a second that other models need not pay.
    from torchvision.models import mobilenet_v2

    network = mobilenet_v2()
    network.features[0][0] = nn.Conv2d(channels, 32, 3, padding=1, bias=False)
    network.classifier = nn.Linear(network.last_channel, num_classes)
    module: nn.Module = network
    return module


NETWORKS: dict[str, Build] = {
    "tinyvgg": _tinyvgg,
    "resnet34": _resnet34,
    "mobilenet": _mobilenet,
    "digitnet": _digitnet,
}
"""By the names of `engine.models.registry.MODELS`."""
