"""How an autoencoder trains: a local rule whose loss is the mean squared error of its pixels."""

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedgrid.algorithms.contract.local_rule import Finished, LocalModel, LocalRule, LocalSteps

if TYPE_CHECKING:
    from torch import Tensor

LOSSES = "losses"
"""Output: the mean squared error of each batch, as the model changed; float32, shape (steps,)."""


class Reconstruction(LocalRule):
    """Minimises the squared difference between images and what the model makes of them."""

    outputs: ClassVar[tuple[str, ...]] = (LOSSES,)
    public: ClassVar[tuple[str, ...]] = (LOSSES,)  # A record of the experiment's, which no server has.

    def start(self, local: LocalModel) -> LocalSteps:
        """Return the hook that replaces cross-entropy."""
        return _Reconstructing()


class _Reconstructing(LocalSteps):
    def __init__(self) -> None:
        self._losses: list[Tensor] = []

    def step(self, local: LocalModel, images: "Tensor", labels: "Tensor") -> "Tensor":
        loss = (local.logits(images) - images).square().mean()
        self._losses.append(loss.detach())
        local.descend(local.gradient(loss))
        # The loop takes logits: those of one class, of which its cross-entropy is 0.
        return labels.new_zeros((len(labels), 1)).float()

    def finish(self, local: LocalModel, num_steps: int) -> Finished:
        import torch

        # Read back in one go: each loss by itself would wait for the device.
        losses = torch.stack(self._losses).cpu().numpy() if self._losses else np.empty(0, np.float32)
        return Finished({LOSSES: losses})
