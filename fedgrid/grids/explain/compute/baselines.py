"""What stands for an absent pixel of an image.

Shapes: an image of C channels and H x W pixels.
"""

import torch
from torch import Tensor
from torch.nn import functional

from fedgrid.grids.explain.compute.settings import Baseline

KERNEL, DEVIATION = 11, 5.0
"""Pixels of the Gaussian blur of RISE's insertion curve."""


def mean_colour(images_NCHW: Tensor) -> Tensor:
    """Return the mean of each channel of uint8 images, float32 in [0, 1], shape (C,).

    Sums of whole numbers: the same bits in any order.
    """
    sums_C = images_NCHW.sum(dim=(0, 2, 3), dtype=torch.int64).double()
    return (sums_C / (images_NCHW.numel() / images_NCHW.shape[1]) / 255).float()


def baseline_of(kind: Baseline, image_CHW: Tensor, colour_C: Tensor) -> Tensor:
    """Return the baseline of an image of [0, 1], of its shape."""
    if kind == "black":
        return torch.zeros_like(image_CHW)
    if kind == "mean":
        return colour_C.view(-1, 1, 1).expand_as(image_CHW).contiguous()
    return blurred(image_CHW)


def blurred(image_CHW: Tensor) -> Tensor:
    """Return an image under a Gaussian; what lies outside it does not count, so that a constant stays one."""
    at = torch.arange(KERNEL, dtype=torch.float64, device=image_CHW.device) - KERNEL // 2
    line = torch.exp(-(at**2) / (2 * DEVIATION**2)).float()
    kernel = torch.outer(line, line).view(1, 1, KERNEL, KERNEL)
    image_C1HW = image_CHW[:, None]
    sums = functional.conv2d(image_C1HW, kernel, padding=KERNEL // 2)
    weights = functional.conv2d(torch.ones_like(image_C1HW), kernel, padding=KERNEL // 2)
    return (sums / weights)[:, 0]
