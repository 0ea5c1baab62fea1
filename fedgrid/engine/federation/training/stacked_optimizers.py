"""The optimizers of `optimizers` for a stack of clients: one row a client.

Shapes: S slots of the stack, W parameters of a model.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgrid.algorithms.updates.source import Vector
from fedgrid.engine.federation.training.optimizers import Adam, Sgd
from fedgrid.engine.federation.training.settings import LocalTraining


class StackedSgd(Sgd):
    """As `Sgd`, whose steps are the same for rows."""

    def __init__(self, weights: Tensor, training: LocalTraining, memories: Mapping[int, Vector]) -> None:
        """Go on from the memories by slot; the other slots start fresh."""
        self._training = training
        self.tensors = [_filled(weights, memories)] if training.momentum else []

    def memory(self) -> NDArray[Any] | None:
        """Return the momentum buffers, shape (S, W)."""
        return self.tensors[0].cpu().numpy() if self.tensors else None


class StackedAdam:
    """As `Adam`. Clients may have taken different numbers of steps."""

    def __init__(self, weights: Tensor, training: LocalTraining, memories: Mapping[int, Vector]) -> None:
        """Go on from the memories by slot; the other slots start fresh."""
        self._training = training
        size = weights.shape[1]
        self._mean = _filled(weights, {slot: memory[:size] for slot, memory in memories.items()})
        self._square = _filled(weights, {slot: memory[size:-1] for slot, memory in memories.items()})
        self._steps_S1 = torch.zeros(len(weights), 1, dtype=torch.float64, device=weights.device)
        for slot, memory in memories.items():
            self._steps_S1[slot] = float(memory[-1])
        self.tensors = [self._mean, self._square, self._steps_S1]

    def step(self, weights: Tensor, gradient: Tensor) -> None:
        """Take one step."""
        if self._training.weight_decay:
            gradient.add_(weights, alpha=self._training.weight_decay)
        self._steps_S1 += 1
        self._mean.lerp_(gradient, 1 - Adam.FIRST)
        self._square.mul_(Adam.SECOND).addcmul_(gradient, gradient, value=1 - Adam.SECOND)
        scales_S1 = (1 - Adam.SECOND**self._steps_S1).sqrt().float()
        sizes_S1 = (self._training.learning_rate / (1 - Adam.FIRST**self._steps_S1)).float()
        denominator = torch.sqrt(self._square, out=gradient).div_(scales_S1).add_(Adam.EPSILON)
        weights.sub_(sizes_S1 * self._mean / denominator)

    def memory(self) -> NDArray[Any] | None:
        """Return moments and numbers of steps, shape (S, 2 W + 1)."""
        return torch.cat([self._mean, self._square, self._steps_S1.float()], 1).cpu().numpy()


def _filled(weights: Tensor, memories: Mapping[int, Vector]) -> Tensor:
    """Return a tensor like `weights` with a row of each slot's memory, zero where there is none."""
    filled = torch.zeros_like(weights, requires_grad=False)
    for slot, memory in memories.items():
        filled[slot] = torch.from_numpy(np.array(memory, np.float32)).to(weights.device)
    return filled


StackedOptimizer = StackedSgd | StackedAdam
STACKED_OPTIMIZERS: dict[str, type[StackedOptimizer]] = {"sgd": StackedSgd, "adam": StackedAdam}
