"""Models around models: one computes in bfloat16, the other first normalises its inputs.

Shapes: C channels of images or series, or columns.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class MixedPrecision(nn.Module):
    """A module under torch's autocast: convolutions and matrix products take bfloat16 copies of the weights.

    What lies between them is bfloat16 too, and so is the backward pass up to the weights' gradients, which
    arrive in float32. BatchNorm keeps, and sums up, its statistics in float32. The state is the module's own.

    Source: Kalamkar et al., A Study of BFLOAT16 for Deep Learning Training, 2019, arXiv:1905.12322: bfloat16
    has float32's range, so that gradients need no loss scaling.

    Args:
        module: the model.
        device: the torch device that it is on.
    """

    def __init__(self, module: nn.Module, device: str) -> None:
        super().__init__()
        self.module = module
        self._kind = torch.device(device).type

    def forward(self, images: Tensor) -> Tensor:
        """Compute the module's outputs, float32, for a batch of its inputs."""
        with torch.autocast(self._kind, torch.bfloat16):
            outputs: Tensor = self.module(images)
        return outputs.float()


class Normalised(nn.Module):
    """A module that first brings each channel to mean 0 and deviation 1; a deviation of 0 counts as 1.

    Its constants are neither parameters nor buffers: the state is the module's own.

    Args:
        module: the model.
        means: mean of each channel, shape (C,).
        deviations: standard deviation of each channel, shape (C,).
        device: the torch device that the model is on.
    """

    def __init__(
        self, module: nn.Module, means: Sequence[float], deviations: Sequence[float], device: str
    ) -> None:
        super().__init__()
        self.module = module
        # Scale and shift in float64, rounded once: one multiplication and one addition a value remain for
        # each batch.
        means_C, deviations_C = (torch.tensor(values, dtype=torch.float64) for values in (means, deviations))
        scales_C = 1 / torch.where(deviations_C > 0, deviations_C, 1)
        self._scales_C = scales_C.float().to(device)
        self._shifts_C = (-means_C * scales_C).float().to(device)

    def forward(self, images: Tensor) -> Tensor:
        """Compute the module's outputs for images in [0, 1] or numbers, shape (N, C, ...)."""
        shifts_C, scales_C = (
            one.view(-1, *[1] * (images.dim() - 2)) for one in (self._shifts_C, self._scales_C)
        )
        outputs: Tensor = self.module(torch.addcmul(shifts_C, images, scales_C))
        return outputs
