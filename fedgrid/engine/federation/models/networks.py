"""The networks of the models, one build function each; `federation.models.registry` lists them.

A network must not draw random numbers in its forward pass (no dropout): all randomness of a run comes from
its seeded generators. `models.flat_vectors` overwrites the weights that a build function sets. None ends in a
softmax: the loss takes logits.

Functions for images take channels, height and width of an image and the number of classes.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from fedgrid.engine.federation.inputs import Inputs

Build = Callable[[int, int, int, int], nn.Module]
"""(channels, height, width, classes) -> a module that maps float32 images of shape (N, channels, height,
width), in [0, 1], to logits of shape (N, classes)."""
WIDTH = 64
"""Width of the hidden layers of networks for numbers, series and tokens."""
CODE = 8
"""Size of a token's embedding."""


def _build_block(channels: int, width: int) -> list[nn.Module]:
    """Build two 3x3 convolutions and a 2x2 max-pool.

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
    """Build two blocks of two convolutions each, without BatchNorm."""
    features = 64 * (height // 4) * (width // 4)
    return nn.Sequential(
        *_build_block(channels, 32), *_build_block(32, 64), nn.Flatten(), nn.Linear(features, num_classes)
    )


def digitnet(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Build a perceptron with two hidden layers.

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


def lenet5(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Build LeNet-5 with ReLU, as in FLIS: 5x5 convolutions 6 and 16 wide, layers of 120 and 84."""
    return _build_lenet5((6, 16), nn.ReLU, channels, height, width, num_classes)


def lenet5_tanh(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Build LeNet-5 with Tanh, 16 and 32 wide, as in Prigent et al.

    Their release ends in a softmax, and its loss takes another one of that. Here the loss takes the logits.
    """
    return _build_lenet5((16, 32), nn.Tanh, channels, height, width, num_classes)


def _build_lenet5(
    widths: tuple[int, int],
    activation: type[nn.ReLU] | type[nn.Tanh],
    channels: int,
    height: int,
    width: int,
    num_classes: int,
) -> nn.Module:
    """Build LeNet-5 with two widths of convolutions and an activation."""
    first, second = widths
    # Both activations are monotonic: pooling first is the same function, on a quarter of the entries.
    return nn.Sequential(
        *(nn.Conv2d(channels, first, 5), nn.MaxPool2d(2), activation()),
        *(nn.Conv2d(first, second, 5), nn.MaxPool2d(2), activation()),
        nn.Flatten(),
        *(nn.Linear(second * _compute_lenet5_side(height) * _compute_lenet5_side(width), 120), activation()),
        *(nn.Linear(120, 84), activation()),
        nn.Linear(84, num_classes),
    )


def _compute_lenet5_side(side: int) -> int:
    """Compute the side of an image after two 5x5 convolutions and two 2x2 pools."""
    return ((side - 4) // 2 - 4) // 2


class _ResidualBranch(nn.Module):
    """A branch, plus its input."""

    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, images: Tensor) -> Tensor:
        """Add the branch's outputs to its inputs."""
        outputs: Tensor = self.branch(images) + images
        return outputs


def _build_normalised(channels: int, width: int) -> list[nn.Module]:
    """Build a 3x3 convolution with GroupNorm of 32 groups and ReLU."""
    return [nn.Conv2d(channels, width, 3, padding=1), nn.GroupNorm(32, width), nn.ReLU(inplace=True)]


def resnet9(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Build ResNet-9 with GroupNorm, as in FLIS; the last max-pool covers what is left of the image."""
    return nn.Sequential(
        *_build_normalised(channels, 64),
        *(*_build_normalised(64, 128), nn.MaxPool2d(2)),
        _ResidualBranch(nn.Sequential(*_build_normalised(128, 128), *_build_normalised(128, 128))),
        *(*_build_normalised(128, 256), nn.MaxPool2d(2)),
        *(*_build_normalised(256, 512), nn.MaxPool2d(2)),
        _ResidualBranch(nn.Sequential(*_build_normalised(512, 512), *_build_normalised(512, 512))),
        *(nn.MaxPool2d((height // 8, width // 8)), nn.Flatten(), nn.Linear(512, num_classes)),
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
        """Add the shortcut to the branch, and rectify the sum."""
        rectified: Tensor = self.rectify(self.branch(images) + self.shortcut(images))
        return rectified


def resnet34(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Build ResNet-34 with a 3x3 stem of stride 1 and no max-pool."""
    layers: list[nn.Module] = [
        nn.Conv2d(channels, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
    ]
    # All blocks lie in one Sequential, without stages: `saliency_layer` and `head` of the entry count them.
    before = 64
    for stage, depth in enumerate((3, 4, 6, 3)):
        after = 64 * 2**stage
        for block in range(depth):
            layers.append(_ResidualBlock(before, after, stride=2 if stage and not block else 1))
            before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, num_classes))


def resnet18(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Build torchvision's ResNet-18, with its 7x7 stem of stride 2 and its max-pool, made for 224 pixels.

    Initialised by PyTorch's rule instead of torchvision's own, like `mobilenet`.
    """
    # Imported here because it takes a second that other models do not need.
    from torchvision.models import resnet18 as build

    network: nn.Module = build(num_classes=num_classes)
    if channels != 3:
        network.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
    return network


_SEPARABLE = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *[(512, 1)] * 5,
    (1024, 2),
    (1024, 1),
)
"""Width and stride of MobileNet's thirteen depthwise separable convolutions."""


def mobilenet_v1(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Build MobileNet (the first) at width 1, with a stem of stride 2 and one linear layer as its head.

    As in Keras, but for the dropout before the head, BatchNorm's constants (PyTorch's), and the padding at
    stride 2, which is the same on both sides.
    """
    layers: list[nn.Module] = _build_rectified(nn.Conv2d(channels, 32, 3, 2, padding=1, bias=False))
    before = 32
    for after, stride in _SEPARABLE:
        layers += _build_rectified(nn.Conv2d(before, before, 3, stride, padding=1, groups=before, bias=False))
        layers += _build_rectified(nn.Conv2d(before, after, 1, bias=False))
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, num_classes))


def _build_rectified(convolution: nn.Conv2d) -> list[nn.Module]:
    """Follow a convolution by BatchNorm and ReLU6."""
    return [convolution, nn.BatchNorm2d(convolution.out_channels), nn.ReLU6(inplace=True)]


def mobilenet(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Build torchvision's MobileNetV2 with a stem of stride 1, and without the dropout before its head.

    `models.flat_vectors` draws its weights from uniform distributions; torchvision would draw them from
    normal ones (kernels by the fan out, the head with deviation 0.01 and a bias of zero).
    """
    # Imported here because it takes a second that other models do not need.
    from torchvision.models import mobilenet_v2

    network = mobilenet_v2()
    network.features[0][0] = nn.Conv2d(channels, 32, 3, padding=1, bias=False)
    network.classifier = nn.Linear(network.last_channel, num_classes)
    module: nn.Module = network
    return module


def linear(inputs: Inputs, num_classes: int) -> nn.Module:
    """Build multinomial logistic regression."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(inputs.shape), num_classes))


def mlp(inputs: Inputs, num_classes: int) -> nn.Module:
    """Build a perceptron with two hidden layers."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(prod(inputs.shape), WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, num_classes),
    )


def cnn_1d(inputs: Inputs, num_classes: int) -> nn.Module:
    """Build three convolutions of stride 2 over a series; a row of numbers counts as one channel."""
    channels, length = inputs.shape if len(inputs.shape) == 2 else (1, *inputs.shape)
    # The layers have the same names either way, so that the head's entry has one.
    layers: list[nn.Module] = [nn.Identity() if len(inputs.shape) == 2 else nn.Unflatten(1, (1, length))]
    for before, kernel in ((channels, 5), (WIDTH // 2, 3), (WIDTH // 2, 3)):
        layers += [nn.Conv1d(before, WIDTH // 2, kernel, stride=2, padding=kernel // 2), nn.ReLU()]
        length = -(-length // 2)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(WIDTH // 2 * length, num_classes))


class _Lstm(nn.Module):
    """Embedding, one LSTM layer, and a linear layer on its last output."""

    def __init__(self, vocabulary: int, num_classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, CODE)
        self.lstm = nn.LSTM(CODE, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Compute logits, shape (N, L), of tokens, int64, shape (N, length)."""
        # The last output is that of the text's end, since short texts are filled in front.
        outputs, _ = self.lstm(self.embedding(tokens))
        logits: Tensor = self.head(outputs[:, -1])
        return logits


def lstm(inputs: Inputs, num_classes: int) -> nn.Module:
    """Build a small LSTM over tokens, such as characters."""
    return _Lstm(inputs.vocabulary, num_classes)
