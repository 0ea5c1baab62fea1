"""The networks of the models, one build function each; `engine.models.registry` lists them.

A network must not draw random numbers in its forward pass (no dropout): all randomness of a run comes from
its seeded generators. `engine.models.initialisation` overwrites the weights that a build function sets.
"""

from collections.abc import Callable

from torch import Tensor, nn

Build = Callable[[int, int, int, int], nn.Module]
"""(channels, height, width, classes) -> a module that maps float32 images of shape (N, channels, height,
width), in [0, 1], to logits of shape (N, classes)."""


def _convolutions(channels: int, width: int) -> list[nn.Module]:
    """Return two 3x3 convolutions and a 2x2 max-pool.

    The pool comes before the second ReLU. Both orders give the same numbers, forward and backward; this one
    applies the ReLU to a quarter of the entries.
    """
    return [
        nn.Conv2d(channels, width, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(width, width, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(inplace=True),
    ]


def tinyvgg(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Return two blocks of two convolutions each, without BatchNorm."""
    features = 64 * (height // 4) * (width // 4)
    return nn.Sequential(
        *_convolutions(channels, 32), *_convolutions(32, 64), nn.Flatten(), nn.Linear(features, num_classes)
    )


def digitnet(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Return a perceptron with two hidden layers.

    With a single one, the temperature of the digits data set rises from the first round on.
    """
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(channels * height * width, 128),
        nn.ReLU(inplace=True),
        nn.Linear(128, 96),
        nn.ReLU(inplace=True),
        nn.Linear(96, num_classes),
    )


class _ResidualBlock(nn.Module):
    """Two 3x3 convolutions, plus a shortcut: the identity, or a 1x1 convolution if shapes differ."""

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


def resnet34(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Return ResNet-34 with a 3x3 stem of stride 1 and no max-pool."""
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


def mobilenet(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Return torchvision's MobileNetV2 with a stem of stride 1, and without the dropout before its head.

    `engine.models.initialisation` draws its weights from uniform distributions; torchvision would draw them
    from normal ones (kernels by the fan out, the head with deviation 0.01 and a bias of zero).
    """
    # Imported here because it takes a second that other models do not need.
    from torchvision.models import mobilenet_v2

    network = mobilenet_v2()
    network.features[0][0] = nn.Conv2d(channels, 32, 3, padding=1, bias=False)
    network.classifier = nn.Linear(network.last_channel, num_classes)
    module: nn.Module = network
    return module
