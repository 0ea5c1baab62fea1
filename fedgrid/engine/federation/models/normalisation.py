"""A model whose forward pass begins by normalising its images.

Shapes: C channels.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Normalised(nn.Module):
    """A module that first brings each channel to mean 0 and deviation 1; a deviation of 0 counts as 1.

    Its constants are neither parameters nor buffers: the state is the module's own.
    """

    def __init__(
        self, module: nn.Module, means: Sequence[float], deviations: Sequence[float], device: str
    ) -> None:
        super().__init__()
        self.module = module
        means_C, deviations_C = (
            torch.tensor(each, dtype=torch.float64).view(1, -1, 1, 1) for each in (means, deviations)
        )
        scales_C = 1 / torch.where(deviations_C > 0, deviations_C, 1)
        self._scales_C = scales_C.float().to(device)
        self._shifts_C = (-means_C * scales_C).float().to(device)

    def forward(self, images: Tensor) -> Tensor:
        """Return the module's outputs for images in [0, 1], shape (N, channels, height, width)."""
        outputs: Tensor = self.module(torch.addcmul(self._shifts_C, images, self._scales_C))
        return outputs
