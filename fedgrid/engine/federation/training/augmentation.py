"""Random crops and flips of training images: a fresh draw for each image and epoch.

A crop takes the image's size out of the image padded by `PAD` pixels of its own reflection; a flip mirrors it
left to right, with probability one half. As in FLIS (Morafah et al. 2022) and the usual recipe for CIFAR.
Offsets and flips are drawn whatever the setting, so that `[crop]` takes the same crops as `[crop, flip]`.

Shapes: N images, B of them in an epoch, C channels, H x W pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedgrid.engine.federation.training.settings import PAD, Augment


@dataclass(frozen=True)
class Moves:
    """What is drawn for the images of an epoch."""

    offsets_B2: Tensor
    """Int64, rows and columns from -PAD to PAD: the pixel that comes to the upper left corner, as seen from
    there."""
    flips_B: Tensor
    """Int64, 1 where an image is mirrored left to right."""

    def part(self, where: slice) -> "Moves":
        """Return those of some of the images."""
        return Moves(self.offsets_B2[where], self.flips_B[where])


def drawn(
    num_images: int, augment: Sequence[Augment], rng: np.random.Generator, device: torch.device
) -> Moves | None:
    """Return an offset and a flip for each image, on a device. Without `augment` nothing is drawn: None."""
    if not augment:
        return None
    offsets_B2 = rng.integers(-PAD, PAD + 1, (num_images, 2)) * ("crop" in augment)
    flips_B = rng.integers(0, 2, num_images) * ("flip" in augment)
    return Moves(*(torch.from_numpy(each).to(device, non_blocking=True) for each in (offsets_B2, flips_B)))


def gather(pixels: Tensor, order: Tensor, moves: Moves | None) -> Tensor:
    """Return images in an order, cropped and flipped as drawn; a crop in place changes nothing.

    Args:
        pixels: uint8, shape (N, H, W, C).
        order: positions of images, int64, shape (B,), on the same device.
        moves: of each image in the order.
    """
    if moves is None:
        return pixels.index_select(0, order)
    return moved(pixels, order, moves.offsets_B2, moves.flips_B)


def moved(pixels: Tensor, order: Tensor, offsets_B2: Tensor, flips_B: Tensor) -> Tensor:
    """Return images in an order, each shown from an offset on and then flipped.

    Args:
        pixels: uint8, shape (N, H, W, C).
        order: positions of images, int64, shape (B,).
        offsets_B2: as in `Moves`.
        flips_B: as in `Moves`.
    """
    _, height, width, channels = pixels.shape
    rows_BH = _reflected(torch.arange(height, device=order.device) + offsets_B2[:, :1], height)
    columns_W = torch.arange(width, device=order.device)
    columns_BW = torch.where(flips_B[:, None] == 1, columns_W.flip(0), columns_W)
    columns_BW = _reflected(columns_BW + offsets_B2[:, 1:], width)
    where = ((order[:, None] * height + rows_BH) * width)[:, :, None] + columns_BW[:, None, :]
    shown = pixels.view(-1, channels).index_select(0, where.flatten())
    return shown.view(len(order), height, width, channels)


def _reflected(positions: Tensor, size: int) -> Tensor:
    """Return positions up to `size - 1` beyond either end, mirrored at the first and the last pixel."""
    last = size - 1
    return last - (last - positions.abs()).abs()
