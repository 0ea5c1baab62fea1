"""The clients' optimizers, on one flat tensor each, or for a stack of clients, on a row each.

`torch.optim` on the same tensor gives the same bits, but a training step with it takes longer (one core):
digitnet on 8x8 images 1.17 times with SGD, 1.25 with Adam; LeNet-5 on 28x28 images 1.03 to 1.09. And with its
first optimizer a process imports torch's compiler, which takes a second.

Shapes: S slots of a stack, W entries of a state vector that are parameters.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgrid.algorithms.updates.source import Vector
from fedgrid.engine.federation.models.flat_vectors import FlatModule
from fedgrid.engine.federation.training.settings import LocalTraining


def clip_gradients(gradient: Tensor, max_norm: float | None) -> None:
    """Scale gradients, shape (..., W), down to a norm, like torch's `clip_grad_norm_`; None leaves them."""
    if max_norm is not None:
        norms = torch.linalg.vector_norm(gradient, dim=-1, keepdim=True)
        # torch's own 1e-6, without which the bits would differ.
        gradient.mul_((max_norm / (norms + 1e-6)).clamp(max=1))


class Sgd:
    """SGD as in `torch.optim.SGD`; its memory is the momentum buffer.

    Args:
        flat: the model's workspace.
        training: learning rate, momentum and weight decay.
        memory: the momentum buffer of the client's last round; None: zero.
    """

    def __init__(self, flat: FlatModule, training: LocalTraining, memory: Vector | None) -> None:
        self._flat = flat
        self._training = training
        self.tensors: list[Tensor] = []
        if training.momentum:
            self.tensors = [torch.zeros_like(flat.weights) if memory is None else flat.scatter_vector(memory)]

    def take_step(self, weights: Tensor, gradient: Tensor) -> None:
        """Take one step along a gradient, shape (W,), which is overwritten; called once a batch."""
        if self._training.weight_decay:
            gradient.add_(weights, alpha=self._training.weight_decay)
        # At most one buffer: without momentum the loop is empty and the gradient is taken as it is.
        for velocity in self.tensors:
            gradient = velocity.mul_(self._training.momentum).add_(gradient)
        weights.add_(gradient, alpha=-self._training.learning_rate)

    def read_memory(self) -> Vector | None:
        """Read the momentum buffer, shape (W,), in the layout's order; None without momentum."""
        return self._flat.gather_vector(self.tensors[0]) if self.tensors else None


class Adam:
    """Adam as in `torch.optim.Adam` with its default betas and epsilon.

    The memory is (first moment, second moment, [number of steps]).

    Args:
        flat: the model's workspace.
        training: learning rate and weight decay.
        memory: moments and number of steps of the client's last round; None: zero.
    """

    FIRST, SECOND, EPSILON = 0.9, 0.999, 1e-8

    def __init__(self, flat: FlatModule, training: LocalTraining, memory: Vector | None) -> None:
        self._flat = flat
        self._training = training
        if memory is None:
            self._mean, self._square, self._steps = (
                torch.zeros_like(flat.weights),
                torch.zeros_like(flat.weights),
                0,
            )
        else:
            mean, square, steps = np.split(memory, [len(flat.weights), 2 * len(flat.weights)])
            self._mean, self._square, self._steps = (
                flat.scatter_vector(mean),
                flat.scatter_vector(square),
                int(steps[0]),
            )

    def take_step(self, weights: Tensor, gradient: Tensor) -> None:
        """Take one step along a gradient, shape (W,), which is overwritten; called once a batch."""
        if self._training.weight_decay:
            gradient.add_(weights, alpha=self._training.weight_decay)
        self._steps += 1
        take_adam_step(weights, gradient, self._mean, self._square, self._steps, self._training.learning_rate)

    def read_memory(self) -> Vector | None:
        """Read the moments and the number of steps, shape (2 W + 1,), in the layout's order."""
        mean, square = self._flat.gather_vector(self._mean), self._flat.gather_vector(self._square)
        return np.concatenate([mean, square, np.array([self._steps], np.float32)])


def take_adam_step(
    weights: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, steps: int, learning_rate: float
) -> None:
    """Take step number `steps`, from 1, of Adam; all tensors are of one shape, and change.

    Args:
        weights: the parameters.
        gradient: their gradient; it ends up as the denominator.
        mean: first moment.
        square: second moment.
        steps: number of this step, from 1.
        learning_rate: rate of this round.
    """
    mean.lerp_(gradient, 1 - Adam.FIRST)
    square.mul_(Adam.SECOND).addcmul_(gradient, gradient, value=1 - Adam.SECOND)
    # In the order of torch's own single-tensor Adam, so that the bits are the same.
    scale = (1 - Adam.SECOND**steps) ** 0.5
    size = learning_rate / (1 - Adam.FIRST**steps)
    denominator = torch.sqrt(square, out=gradient).div_(scale).add_(Adam.EPSILON)
    weights.addcdiv_(mean, denominator, value=-size)


OPTIMIZERS: dict[str, type[Sgd] | type[Adam]] = {"sgd": Sgd, "adam": Adam}
"""Optimizers of one client, by `training.optimizer`."""


class StackedSgd(Sgd):
    """SGD of a stack of clients: `Sgd`'s steps are the same for rows."""

    def __init__(self, weights: Tensor, training: LocalTraining, memories: Mapping[int, Vector]) -> None:
        """Continue from the memories by slot; the other slots start fresh."""
        self._training = training
        self.tensors = [_stack_memories(weights, memories)] if training.momentum else []

    def read_memory(self) -> NDArray[Any] | None:
        """Read the momentum buffers, shape (S, W); None without momentum."""
        return self.tensors[0].cpu().numpy() if self.tensors else None


class StackedAdam:
    """Adam of a stack of clients, which may have taken different numbers of steps."""

    def __init__(self, weights: Tensor, training: LocalTraining, memories: Mapping[int, Vector]) -> None:
        """Continue from the memories by slot; the other slots start fresh."""
        self._training = training
        size = weights.shape[1]
        self._mean = _stack_memories(weights, {slot: memory[:size] for slot, memory in memories.items()})
        self._square = _stack_memories(weights, {slot: memory[size:-1] for slot, memory in memories.items()})
        # Float64, as the Python floats of `take_adam_step`.
        self._steps_S1 = torch.zeros(len(weights), 1, dtype=torch.float64, device=weights.device)
        for slot, memory in memories.items():
            self._steps_S1[slot] = float(memory[-1])
        self.tensors = [self._mean, self._square, self._steps_S1]

    def take_step(self, weights: Tensor, gradient: Tensor) -> None:
        """Take one step along the gradients, shape (S, W), which are overwritten; called once a batch."""
        if self._training.weight_decay:
            gradient.add_(weights, alpha=self._training.weight_decay)
        self._steps_S1 += 1
        self._mean.lerp_(gradient, 1 - Adam.FIRST)
        self._square.mul_(Adam.SECOND).addcmul_(gradient, gradient, value=1 - Adam.SECOND)
        scales_S1 = (1 - Adam.SECOND**self._steps_S1).sqrt().float()
        sizes_S1 = (self._training.learning_rate / (1 - Adam.FIRST**self._steps_S1)).float()
        denominator = torch.sqrt(self._square, out=gradient).div_(scales_S1).add_(Adam.EPSILON)
        weights.sub_(sizes_S1 * self._mean / denominator)

    def read_memory(self) -> NDArray[Any] | None:
        """Read moments and numbers of steps, shape (S, 2 W + 1)."""
        return torch.cat([self._mean, self._square, self._steps_S1.float()], 1).cpu().numpy()


def _stack_memories(weights: Tensor, memories: Mapping[int, Vector]) -> Tensor:
    """Stack the slots' memories as rows of a tensor like `weights`, zero where there is none."""
    filled = torch.zeros_like(weights, requires_grad=False)
    for slot, memory in memories.items():
        filled[slot] = torch.from_numpy(np.array(memory, np.float32)).to(weights.device)
    return filled


StackedOptimizer = StackedSgd | StackedAdam
STACKED_OPTIMIZERS: dict[str, type[StackedOptimizer]] = {"sgd": StackedSgd, "adam": StackedAdam}
"""Optimizers of a stack, by `training.optimizer`."""
