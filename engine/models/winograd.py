"""3x3 convolutions of many channels by Winograd's minimal filtering, for `training.kernels`.

Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016, arXiv:1509.09308:
F(2x2, 3x3) of section 4.1 and F(4x4, 3x3) of section 4.3. A tile of m x m outputs takes (m + 2)^2 products
instead of 9 m^2, for each pair of channels. Both gradients are the same steps, transposed, backwards.

Shapes: N images of H x W pixels, C channels in and O out; tiles of m x m outputs, T of them in all images,
a of them down and b across an image; n = m + 2, the side of what a tile sees.
"""

from functools import cache
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

LEAST_CHANNELS = 128
"""In and out; with fewer the products are too thin to win back what the transforms cost."""
LEAST_TILES = 32
"""With fewer the transforms of the weights take longer than the products."""
SIDES = {7: 4, 4: 2}
"""Least side of a map -> m."""

_TRANSFORMS: dict[int, dict[str, list[list[float]]]] = {
    2: {
        "inputs": [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]],
        "weights": [[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]],
        "outputs": [[1, 1, 1, 0], [0, 1, -1, -1]],
    },
    4: {
        "inputs": [
            [4, 0, -5, 0, 1, 0],
            [0, -4, -4, 1, 1, 0],
            [0, 4, -4, -1, 1, 0],
            [0, -2, -1, 2, 1, 0],
            [0, 2, -1, -2, 1, 0],
            [0, 4, 0, -5, 0, 1],
        ],
        "weights": [
            [1 / 4, 0, 0],
            [-1 / 6, -1 / 6, -1 / 6],
            [-1 / 6, 1 / 6, -1 / 6],
            [1 / 24, 1 / 12, 1 / 6],
            [1 / 24, -1 / 12, 1 / 6],
            [0, 0, 1],
        ],
        "outputs": [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]],
    },
}
"""m -> the matrices B^T, G and A^T of one dimension."""


def tile_of(images: Tensor, num_outputs: int) -> int | None:
    """Return m, the side of a tile, for images of shape (N, C, H, W); None where the library is faster.

    Float32 on a processor only: in bfloat16 the transforms cost as much as the products save, and the tiles
    of 4 x 4 lose more digits than it has.
    """
    num_images, channels, height, width = images.shape
    if images.device.type != "cpu" or images.dtype not in (torch.float32, torch.float64):
        return None
    if min(channels, num_outputs) < LEAST_CHANNELS:
        return None
    side = next((m for least, m in SIDES.items() if min(height, width) >= least), None)
    if side is None or num_images * -(-height // side) * -(-width // side) < LEAST_TILES:
        return None
    return side


class FastConv2d(nn.Conv2d):
    """A 3x3 convolution with padding 1; how it is computed follows from the images' shape and type alone."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the outputs, shape (N, O, H, W), for images of shape (N, C, H, W)."""
        is_narrow = torch.is_autocast_enabled(input.device.type)
        side = None if is_narrow else tile_of(input, self.out_channels)
        if side is None:
            return super().forward(input)
        outputs: Tensor = Convolution.apply(input, self.weight, side)
        return outputs if self.bias is None else outputs + self.bias[:, None, None]


def with_fast_convolutions(module: nn.Module) -> nn.Module:
    """Return the module, its 3x3 convolutions of stride 1 replaced by `FastConv2d` with the same weights."""
    for name, layer in list(module.named_modules()):
        if type(layer) is nn.Conv2d and _is_plain(layer):
            parent, _, own = name.rpartition(".")
            setattr(module.get_submodule(parent), own, _fast(layer))
    return module


def _is_plain(layer: nn.Conv2d) -> bool:
    ones = layer.stride, layer.dilation, layer.padding
    return (
        layer.kernel_size == (3, 3)
        and all(each == (1, 1) for each in ones)
        and layer.groups == 1
        and layer.padding_mode == "zeros"
        and min(layer.in_channels, layer.out_channels) >= LEAST_CHANNELS
    )


def _fast(layer: nn.Conv2d) -> FastConv2d:
    # On the device `meta` nothing is drawn: weights come from the layer.
    fast = FastConv2d(
        *(layer.in_channels, layer.out_channels, 3), padding=1, bias=layer.bias is not None, device="meta"
    )
    fast.weight, fast.bias = layer.weight, layer.bias
    return fast.train(layer.training)


class Convolution(torch.autograd.Function):
    """The convolution of images with padding 1; gradients of the first order only."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, weights: Tensor, side: int) -> Tensor:
        """Return shape (N, O, H, W), channels last, for images (N, C, H, W) and weights (O, C, 3, 3)."""
        num_images, channels, height, width = images.shape
        span, down, across = side + 2, -(-height // side), -(-width // side)
        kernels = _matrix(side, "weights", weights.dtype) @ weights.permute(2, 3, 0, 1).reshape(9, -1)
        kernels = kernels.view(span**2, -1, channels)
        rest = 1, side * across - width + 1, 1, side * down - height + 1
        padded = functional.pad(images.permute(0, 2, 3, 1), (0, 0, *rest))
        seen = padded.unfold(1, span, side).unfold(2, span, side).permute(4, 5, 0, 1, 2, 3)
        seen = _matrix(side, "inputs", images.dtype) @ seen.reshape(span**2, -1)
        seen = seen.view(span**2, -1, channels)
        ctx.save_for_backward(seen, kernels)
        ctx.side, ctx.shape = side, images.shape
        products = torch.bmm(seen, kernels.transpose(1, 2))
        tiles = _matrix(side, "outputs", images.dtype) @ products.view(span**2, -1)
        tiles = tiles.view(side, side, num_images, down, across, -1).permute(2, 3, 0, 4, 1, 5)
        outputs = tiles.reshape(num_images, side * down, side * across, -1)[:, :height, :width]
        return outputs.contiguous().permute(0, 3, 1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """Return the gradients of images and weights."""
        (seen, kernels), side = ctx.saved_tensors, ctx.side
        num_images, channels, height, width = ctx.shape
        span, down, across = side + 2, -(-height // side), -(-width // side)
        rest = 0, side * across - width, 0, side * down - height
        padded = functional.pad(gradient.permute(0, 2, 3, 1), (0, 0, *rest))
        tiles = _split(padded, down, across, side).permute(2, 4, 0, 1, 3, 5)
        products = _matrix(side, "outputs", gradient.dtype).t() @ tiles.reshape(side**2, -1)
        products = products.view(span**2, -1, kernels.shape[1])
        of_images = of_weights = None
        if ctx.needs_input_grad[0]:
            windows = _matrix(side, "inputs", gradient.dtype).t() @ torch.bmm(products, kernels).flatten(1)
            whole = _overlapped(windows.view(span, span, num_images, down, across, channels), side)
            of_images = whole[:, 1 : height + 1, 1 : width + 1].contiguous().permute(0, 3, 1, 2)
        if ctx.needs_input_grad[1]:
            of_kernels = torch.bmm(products.transpose(1, 2), seen).flatten(1)
            of_weights = _matrix(side, "weights", kernels.dtype).t() @ of_kernels
            of_weights = of_weights.view(3, 3, -1, channels).permute(2, 3, 0, 1)
        return of_images, of_weights, None


def _split(images: Tensor, down: int, across: int, side: int) -> Tensor:
    """Return a view of shape (N, a, m, b, m, C) of (N, a m, b m, C), whatever its strides."""
    num_images, _, _, channels = images.shape
    rows, columns = images.stride()[1:3]
    shape = num_images, down, side, across, side, channels
    strides = images.stride(0), side * rows, rows, side * columns, columns, images.stride(3)
    return images.as_strided(shape, strides)


def _overlapped(windows: Tensor, side: int) -> Tensor:
    """Add up windows of n x n that overlap by two: (n, n, N, a, b, C) -> (N, a m + 2, b m + 2, C)."""
    _, _, num_images, down, across, channels = windows.shape
    whole = windows.new_zeros(num_images, side * down + 2, side * across + 2, channels)
    _split(whole[:, :-2, :-2], down, across, side).copy_(windows[:side, :side].permute(2, 3, 0, 4, 1, 5))
    for row, column in product(range(side + 2), repeat=2):
        if row >= side or column >= side:
            whole[:, row : row + side * down : side, column : column + side * across : side].add_(
                windows[row, column]
            )
    return whole


@cache
def _matrix(side: int, of: str, dtype: torch.dtype) -> Tensor:
    """Return the Kronecker square of a transform, which is its form in two dimensions."""
    one = torch.tensor(_TRANSFORMS[side][of], dtype=torch.float64)
    return torch.kron(one, one).to(dtype)
