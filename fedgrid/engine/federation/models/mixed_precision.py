"""A model whose layers compute in bfloat16, while its weights and its outputs are float32.

Source: Kalamkar et al., A Study of BFLOAT16 for Deep Learning Training, 2019, arXiv:1905.12322: bfloat16 has
float32's range, so that gradients need no loss scaling.
"""

import torch
from torch import Tensor, nn


class MixedPrecision(nn.Module):
    """A module under torch's autocast: convolutions and matrix products take bfloat16 copies of the weights.

    What lies between them is bfloat16 too, and so is the backward pass up to the weights' gradients, which
    arrive in float32. BatchNorm keeps, and sums up, its statistics in float32. The state is the module's own.
    """

    def __init__(self, module: nn.Module, device: str) -> None:
        super().__init__()
        self.module = module
        self._kind = torch.device(device).type

    def forward(self, images: Tensor) -> Tensor:
        """Return the module's outputs, float32, for float32 images of shape (N, channels, height, width)."""
        with torch.autocast(self._kind, torch.bfloat16):
            outputs: Tensor = self.module(images)
        return outputs.float()
