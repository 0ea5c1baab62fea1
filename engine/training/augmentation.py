"""Random crops and flips of training images: a fresh draw for each image and epoch.

A crop takes the image's size out of the image padded by `PAD` pixels of its own reflection; a flip mirrors it
left to right, with probability one half. As in FLIS (Morafah et al. 2022) and the usual recipe for CIFAR.
Offsets and flips are drawn whatever the setting, so that `[crop]` takes the same crops as `[crop, flip]`.

Shapes: N images, B of them in an epoch, C channels, H x W pixels.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fedgrid.engine.training.settings import PAD, Augment

BLOCK = 1024
"""Images gathered at a time: their indices take eight bytes a pixel."""


def gather(pixels: Tensor, order: Tensor, augment: Sequence[Augment], rng: np.random.Generator) -> Tensor:
    """Return images in an order, cropped and flipped as asked; a crop in place changes nothing.

    Args:
        pixels: uint8, shape (N, H, W, C).
        order: positions of images, int64, shape (B,), on the same device.
        augment: what is done to them; with nothing, nothing is drawn.
        rng: draws an offset and a flip for each image.
    """
    if not augment:
        return pixels[order]
    offsets_B2 = rng.integers(-PAD, PAD + 1, (len(order), 2)) * ("crop" in augment)
    flips_B = rng.integers(0, 2, len(order)) * ("flip" in augment)
    return moved(pixels, order, *(torch.from_numpy(draw).to(order.device) for draw in (offsets_B2, flips_B)))


def moved(pixels: Tensor, order: Tensor, offsets_B2: Tensor, flips_B: Tensor) -> Tensor:
    """Return images in an order, each shown from an offset on and then flipped.

    Args:
        pixels: uint8, shape (N, H, W, C).
        order: positions of images, int64, shape (B,).
        offsets_B2: int64, rows and columns from -PAD to PAD: the pixel that comes to the upper left corner,
            as seen from there.
        flips_B: int64, 1 where an image is mirrored left to right.
    """
    _, height, width, channels = pixels.shape
    rows_BH = _reflected(torch.arange(height, device=order.device) + offsets_B2[:, :1], height)
    columns_W = torch.arange(width, device=order.device)
    columns_BW = torch.where(flips_B[:, None] == 1, columns_W.flip(0), columns_W)
    columns_BW = _reflected(columns_BW + offsets_B2[:, 1:], width)
    flat = pixels.view(-1, channels)
    parts = zip(*(torch.split(each, BLOCK) for each in (order, rows_BH, columns_BW)), strict=True)
    blocks = []
    for positions, rows, columns in parts:
        where = ((positions[:, None] * height + rows) * width)[:, :, None] + columns[:, None, :]
        blocks.append(flat.index_select(0, where.flatten()).view(-1, height, width, channels))
    return torch.cat(blocks)


def _reflected(positions: Tensor, size: int) -> Tensor:
    """Return positions up to `size - 1` beyond either end, mirrored at the first and the last pixel."""
    last = size - 1
    return last - (last - positions.abs()).abs()
