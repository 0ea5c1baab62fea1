"""The batches of an epoch, gathered in its order when they are due.

A block of several batches is gathered at a time, because each call takes time, but never more memory than a
batch or `BLOCK` take: an epoch of 1,000 colour images of 224 x 224 pixels is 602 MB as float32.

Shapes: N images, C channels, H x W pixels, B images of a batch.
"""

from collections.abc import Iterator
from math import prod

import torch
from torch import Tensor

from fedgrid.engine.federation.training.augmentation import Moves, gather
from fedgrid.engine.federation.training.evaluation import to_inputs

BLOCK = 4 << 20
"""Bytes of a block that has more than one batch."""
FLOAT = 4
"""Bytes of a float32."""


def blocks(num_images: int, batch_size: int, batch_bytes: int) -> Iterator[slice]:
    """Yield the images of each block: whole batches, but for the last one.

    Args:
        num_images: of the epoch.
        batch_size: B.
        batch_bytes: what a batch takes as it is gathered.
    """
    size = batch_size * max(1, BLOCK // batch_bytes)
    return (slice(begin, begin + size) for begin in range(0, num_images, size))


def batches(pixels: Tensor, order: Tensor, moves: Moves | None, batch_size: int) -> Iterator[Tensor]:
    """Yield the inputs of each batch, float32 in [0, 1], shape (B, C, H, W), channels last.

    Args:
        pixels: uint8, shape (N, H, W, C).
        order: the images of the epoch, as positions, int64, on the same device.
        moves: how they are moved.
        batch_size: B; the last batch may have fewer.
    """
    for block in blocks(len(order), batch_size, FLOAT * batch_size * prod(pixels.shape[1:])):
        images = gather(pixels, order[block], moves and moves.part(block))
        yield from torch.split(to_inputs(images).permute(0, 3, 1, 2), batch_size)
