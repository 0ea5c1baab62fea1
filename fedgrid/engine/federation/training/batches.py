"""The batches of an epoch, gathered in its order when they are due.

A block of several batches is gathered at a time, because each call takes time, but never more memory than a
batch or `BLOCK` take: an epoch of 1,000 colour images of 224 x 224 pixels is 602 MB as float32.

Images may be cropped and flipped, by a fresh draw for each image and epoch. A crop takes the image's size out
of the image padded by `PAD` pixels of its own reflection; a flip mirrors it left to right, with probability
one half. As in FLIS (Morafah et al. 2022) and the usual recipe for CIFAR. Both are drawn whatever the
setting, so that `[crop]` takes the same crops as `[crop, flip]`.

Shapes: N images, C channels, H x W pixels, B images of a batch or an epoch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor

from fedgrid.engine.federation.training.evaluation import convert_to_inputs
from fedgrid.engine.federation.training.settings import PAD, Augment


@dataclass(frozen=True)
class Moves:
    """Random offsets and flips of the images of an epoch."""

    offsets_B2: Tensor
    """Int64, rows and columns from -PAD to PAD: position, in the image, of the pixel that comes to the upper
    left corner."""
    flips_B: Tensor
    """Int64, 1 where an image is mirrored left to right."""

    def select_part(self, where: slice) -> "Moves":
        """Select the moves of some of the images."""
        return Moves(self.offsets_B2[where], self.flips_B[where])


def draw_moves(
    num_images: int, augment: Sequence[Augment], rng: np.random.Generator, device: torch.device
) -> Moves | None:
    """Draw an offset and a flip for each image, on a device; None, without a draw, if `augment` is empty.

    Args:
        num_images: number of images in the epoch.
        augment: `crop`, `flip`, both or none.
        rng: generator of moves alone.
        device: where the tensors go.
    """
    if not augment:
        return None
    # Both are drawn whatever `augment` names, and then multiplied by 0 or 1: `[crop]` has the crops of
    # `[crop, flip]`.
    offsets_B2 = rng.integers(-PAD, PAD + 1, (num_images, 2)) * ("crop" in augment)
    flips_B = rng.integers(0, 2, num_images) * ("flip" in augment)
    return Moves(*(torch.from_numpy(drawn).to(device, non_blocking=True) for drawn in (offsets_B2, flips_B)))


def move_channels_last(images: Tensor) -> Tensor:
    """Move the channels of uint8 images last, in memory and in shape; other examples stay as they are."""
    return images.movedim(-3, -1).contiguous() if images.dtype == torch.uint8 else images


def move_channels_first(images: Tensor) -> Tensor:
    """Move the channels back to the front of the shape; they stay last in memory."""
    return images.movedim(-1, -3) if images.dtype == torch.uint8 else images


def gather_images(pixels: Tensor, order: Tensor, moves: Moves | None) -> Tensor:
    """Gather images in an order, each from its offset on and then flipped; a crop of 0 changes nothing.

    Args:
        pixels: uint8, shape (N, H, W, C); without moves they may be numbers or tokens.
        order: positions of images, int64, shape (B,), on the same device.
        moves: offset and flip of each of these B images; None: images are taken as they are.
    """
    if moves is None:
        return pixels.index_select(0, order)
    offsets_B2, flips_B = moves.offsets_B2, moves.flips_B
    _, height, width, channels = pixels.shape
    rows_BH = _reflect_positions(torch.arange(height, device=order.device) + offsets_B2[:, :1], height)
    columns_W = torch.arange(width, device=order.device)
    columns_BW = torch.where(flips_B[:, None] == 1, columns_W.flip(0), columns_W)
    columns_BW = _reflect_positions(columns_BW + offsets_B2[:, 1:], width)
    # One index for crop, reflection and flip: a single `index_select` copies the pixels once, without a
    # padded image.
    where = ((order[:, None] * height + rows_BH) * width)[:, :, None] + columns_BW[:, None, :]
    shown = pixels.view(-1, channels).index_select(0, where.flatten())
    return shown.view(len(order), height, width, channels)


def _reflect_positions(positions: Tensor, size: int) -> Tensor:
    """Reflect positions up to `size - 1` beyond either end at the first and the last pixel."""
    last = size - 1
    return last - (last - positions.abs()).abs()


BLOCK = 4 << 20
"""Most bytes of a block that has more than one batch."""


def divide_into_blocks(num_images: int, batch_size: int, batch_bytes: int) -> Iterator[slice]:
    """Divide the images of an epoch into blocks of whole batches; the last one may end within a batch.

    Args:
        num_images: number of images in the epoch.
        batch_size: images in a batch.
        batch_bytes: memory of a batch as it is gathered.
    """
    size = batch_size * max(1, BLOCK // batch_bytes)
    return (slice(begin, begin + size) for begin in range(0, num_images, size))


def gather_batches(pixels: Tensor, order: Tensor, moves: Moves | None, batch_size: int) -> Iterator[Tensor]:
    """Gather the inputs of each batch of an epoch, of images float32 in [0, 1], (B, C, H, W), channels last.

    Args:
        pixels: all images of the client, as in `gather_images`.
        order: positions of the epoch's images.
        moves: their offsets and flips; None: none.
        batch_size: images in a batch; the last one may have fewer.
    """
    for block in divide_into_blocks(len(order), batch_size, 4 * batch_size * prod(pixels.shape[1:])):
        # Gathered as bytes, and converted to float32 a block at a time: four times the bytes for a moment
        # only.
        images = gather_images(pixels, order[block], moves and moves.select_part(block))
        yield from torch.split(convert_to_inputs(move_channels_first(images)), batch_size)


class ImageBatches:
    """Batches of images in their order, converted to inputs as they are read.

    Args:
        images: as `ImageSet.images`, on a device, shape (N, C, H, W).
        labels: shape (N,).
        batch_size: images in a batch; the last one may have fewer.
        smallest: a last batch with fewer images than this is left out.
    """

    def __init__(self, images: Tensor, labels: Tensor, batch_size: int, smallest: int) -> None:
        self._images, self._labels = images, labels
        self._batch_size, self._smallest = batch_size, smallest

    def __len__(self) -> int:
        return len(range(0, len(self._labels) - self._smallest + 1, self._batch_size))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for number in range(len(self)):
            part = slice(number * self._batch_size, (number + 1) * self._batch_size)
            yield convert_to_inputs(self._images[part]), self._labels[part]
