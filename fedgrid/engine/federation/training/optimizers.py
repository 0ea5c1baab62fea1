"""The clients' optimizers, on one flat tensor each.

`torch.optim` on the same tensor gives the same bits, but a training step with it takes longer (one core):
digitnet on 8x8 images 1.17 times with SGD, 1.25 with Adam; LeNet-5 on 28x28 images 1.03 to 1.09.

Shapes: W entries of a state vector that are parameters.
"""

import numpy as np
import torch
from torch import Tensor

from fedgrid.algorithms.updates.source import Vector
from fedgrid.engine.federation.models.flat_vectors import FlatModule
from fedgrid.engine.federation.training.settings import LocalTraining


class Sgd:
    """As `torch.optim.SGD`; the memory is the momentum buffer."""

    def __init__(self, flat: FlatModule, training: LocalTraining, memory: Vector | None) -> None:
        self._flat, self._training = flat, training
        self.tensors: list[Tensor] = []
        if training.momentum:
            self.tensors = [torch.zeros_like(flat.weights) if memory is None else flat.scatter(memory)]

    def step(self, weights: Tensor, gradient: Tensor) -> None:
        """Take one step."""
        if self._training.weight_decay:
            gradient.add_(weights, alpha=self._training.weight_decay)
        for velocity in self.tensors:
            gradient = velocity.mul_(self._training.momentum).add_(gradient)
        weights.add_(gradient, alpha=-self._training.learning_rate)

    def memory(self) -> Vector | None:
        """Return the momentum buffer, shape (W,)."""
        return self._flat.gather(self.tensors[0]) if self.tensors else None


class Adam:
    """As `torch.optim.Adam` with its default betas and epsilon; the memory is (mean, square, [steps])."""

    FIRST, SECOND, EPSILON = 0.9, 0.999, 1e-8

    def __init__(self, flat: FlatModule, training: LocalTraining, memory: Vector | None) -> None:
        self._flat, self._training = flat, training
        if memory is None:
            self._mean, self._square, self._steps = (
                torch.zeros_like(flat.weights),
                torch.zeros_like(flat.weights),
                0,
            )
        else:
            mean, square, steps = np.split(memory, [len(flat.weights), 2 * len(flat.weights)])
            self._mean, self._square, self._steps = flat.scatter(mean), flat.scatter(square), int(steps[0])

    def step(self, weights: Tensor, gradient: Tensor) -> None:
        """Take one step."""
        if self._training.weight_decay:
            gradient.add_(weights, alpha=self._training.weight_decay)
        self._steps += 1
        self._mean.lerp_(gradient, 1 - self.FIRST)
        self._square.mul_(self.SECOND).addcmul_(gradient, gradient, value=1 - self.SECOND)
        scale = (1 - self.SECOND**self._steps) ** 0.5
        size = self._training.learning_rate / (1 - self.FIRST**self._steps)
        denominator = torch.sqrt(self._square, out=gradient).div_(scale).add_(self.EPSILON)
        weights.addcdiv_(self._mean, denominator, value=-size)

    def memory(self) -> Vector | None:
        """Return the moments and the number of steps, shape (2 W + 1,)."""
        mean, square = self._flat.gather(self._mean), self._flat.gather(self._square)
        return np.concatenate([mean, square, np.array([self._steps], np.float32)])


OPTIMIZERS: dict[str, type[Sgd] | type[Adam]] = {"sgd": Sgd, "adam": Adam}
