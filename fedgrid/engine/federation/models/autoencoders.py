"""The autoencoders of Prigent et al. (2024), whose codes describe images.

The release's shapes: dense, 784-50-20-50-784 with ReLU between, 81,304 parameters; convolutional, three 4x4
convolutions of stride 2 (12, 24, 48 wide) with BatchNorm and ReLU, and their mirror image, 47,601 parameters
for three channels. Outputs are sigmoids: pixels in 0..1. Here the images may have any size: the dense one
follows it, the convolutional one pads the sides with zeros to multiples of eight, and cuts its output.

Shapes: N images, Z entries of a code.
"""

from torch import Tensor, nn
from torch.nn import functional

HIDDEN, CODE = 50, 20
"""Widths of the dense autoencoder's hidden layers and of its code."""
WIDTHS = (12, 24, 48)
"""Channels after each of the three convolutions."""
STRIDE = 8
"""Factor by which the three convolutions together shrink a side."""


class Autoencoder(nn.Module):
    """A module that encodes images and decodes their codes; its own output is the images as decoded.

    Args:
        shape: channels, height and width of an image.
        encoder: maps padded images to codes.
        decoder: maps codes to padded images.
        stride: sides are padded with zeros to multiples of it. Default: 1, no padding.
    """

    def __init__(
        self, shape: tuple[int, int, int], encoder: nn.Module, decoder: nn.Module, stride: int = 1
    ) -> None:
        """Store the parts; nothing is initialised."""
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self._shape = shape
        self._stride = stride

    def encode(self, images: Tensor) -> Tensor:
        """Encode images in 0..1, shape (N, channels, height, width), to codes, float32, shape (N, Z)."""
        _, height, width = self._shape
        padding = 0, -width % self._stride, 0, -height % self._stride
        codes: Tensor = self.encoder(functional.pad(images, padding) if any(padding) else images).flatten(1)
        return codes

    def decode(self, codes: Tensor) -> Tensor:
        """Decode codes, shape (N, Z), to images in 0..1, shape (N, channels, height, width)."""
        _, height, width = self._shape
        images: Tensor = self.decoder(codes)
        return images[:, :, :height, :width]

    def forward(self, images: Tensor) -> Tensor:
        """Encode images and decode their codes."""
        return self.decode(self.encode(images))


def dense(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Build the dense autoencoder.

    Args:
        channels: channels of an image.
        height: rows of pixels.
        width: columns of pixels.
        num_classes: it has no effect.
    """
    pixels = channels * height * width
    return Autoencoder(
        (channels, height, width),
        nn.Sequential(
            nn.Flatten(), nn.Linear(pixels, HIDDEN), nn.ReLU(inplace=True), nn.Linear(HIDDEN, CODE)
        ),
        nn.Sequential(
            *(nn.Linear(CODE, HIDDEN), nn.ReLU(inplace=True), nn.Linear(HIDDEN, pixels), nn.Sigmoid()),
            nn.Unflatten(1, (channels, height, width)),
        ),
    )


def convolutional(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Build the convolutional autoencoder.

    Args:
        channels: channels of an image.
        height: rows of pixels.
        width: columns of pixels.
        num_classes: it has no effect.
    """
    down: list[nn.Module] = []
    up: list[nn.Module] = []
    for before, after in zip((channels, *WIDTHS), WIDTHS, strict=False):
        down += [nn.Conv2d(before, after, 4, 2, padding=1), nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        # Built from the inside out: the first layer that is added to `up` is the last one, whose outputs are
        # pixels.
        bound = nn.ReLU(inplace=True) if up else nn.Sigmoid()
        up = [nn.ConvTranspose2d(after, before, 4, 2, padding=1), nn.BatchNorm2d(before), bound, *up]
    sides = -(-height // STRIDE), -(-width // STRIDE)
    return Autoencoder(
        (channels, height, width),
        nn.Sequential(*down),
        nn.Sequential(nn.Unflatten(1, (WIDTHS[-1], *sides)), *up),
        STRIDE,
    )
