"""Local training of one client: a pure function of model, data, settings and generator.

This is where a run's time goes. Images lie on the device as one uint8 tensor, channels last; an epoch
gathers them once in a seeded order and its batches are slices of that; the optimizer works on one flat
tensor; nothing is read back from the device before the last epoch ends. Shapes: N images, P entries of a
state vector of which W are parameters.
"""

from dataclasses import dataclass
from math import nan
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from fedgrid.algorithms.contract.updates import Vector
from fedgrid.engine.errors import ConfigError
from fedgrid.engine.models.flat_vectors import FlatModule
from fedgrid.engine.training.evaluation import to_inputs
from fedgrid.engine.training.settings import Training


@dataclass(frozen=True)
class LocalResult:
    """What local training leaves behind."""

    model: Vector
    """The whole state afterwards, float32, shape (P,)."""
    losses: tuple[float, ...]
    """Mean cross-entropy of each epoch, as the model changed; NaN where no image was trained on."""
    accuracies: tuple[float, ...]
    """Share of images classified rightly in each epoch, as the model changed; NaN likewise."""
    memory: Vector | None
    """The optimizer's memory, where it is kept and there is any: (W,) of SGD with momentum, (2 W + 1,)
    of Adam."""


class _Optimizer(Protocol):
    def step(self, weights: Tensor, gradient: Tensor) -> None:
        """Change `weights`, shape (W,), in place; `gradient` is free to be overwritten."""

    def memory(self) -> Vector | None:
        """Return what is remembered, in the layout's order."""


class _Sgd:
    """As `torch.optim.SGD`; the memory is the momentum buffer."""

    def __init__(self, flat: FlatModule, training: Training, memory: Vector | None) -> None:
        self._flat, self._training = flat, training
        self._velocity = None
        if training.momentum:
            self._velocity = torch.zeros_like(flat.weights) if memory is None else flat.scatter(memory)

    def step(self, weights: Tensor, gradient: Tensor) -> None:
        if self._training.weight_decay:
            gradient.add_(weights, alpha=self._training.weight_decay)
        if self._velocity is not None:
            gradient = self._velocity.mul_(self._training.momentum).add_(gradient)
        weights.add_(gradient, alpha=-self._training.learning_rate)

    def memory(self) -> Vector | None:
        return None if self._velocity is None else self._flat.gather(self._velocity)


class _Adam:
    """As `torch.optim.Adam` with its default betas and epsilon; the memory is (mean, square, [steps])."""

    FIRST, SECOND, EPSILON = 0.9, 0.999, 1e-8

    def __init__(self, flat: FlatModule, training: Training, memory: Vector | None) -> None:
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
        mean, square = self._flat.gather(self._mean), self._flat.gather(self._square)
        return np.concatenate([mean, square, np.array([self._steps], np.float32)])


OPTIMIZERS: dict[str, type[_Sgd] | type[_Adam]] = {"sgd": _Sgd, "adam": _Adam}


@torch.enable_grad()
def train(
    flat: FlatModule,
    start: Vector,
    images: Tensor,
    labels: Tensor,
    training: Training,
    rng: np.random.Generator,
    memory: Vector | None = None,
) -> LocalResult:
    """Train from `start` on all images for `training.local_epochs` epochs.

    A last batch of a single image is left out for models with BatchNorm, which has no variance there.

    Args:
        flat: the workspace; whatever it held before is overwritten.
        start: the whole state to start from, shape (P,); only read.
        images: uint8, shape (N, channels, height, width), best with channels last, on the module's device.
        labels: int64, shape (N,), on the same device.
        training: the settings.
        rng: draws one permutation of the images an epoch.
        memory: what `LocalResult.memory` was in the client's last round; None starts a fresh optimizer.

    Raises:
        ConfigError: batches of one image for a model with BatchNorm.
    """
    smallest = _smallest_batch(flat.module, training.batch_size)
    flat.write(start)
    optimizer = OPTIMIZERS[training.optimizer](flat, training, memory)
    flat.module.train()
    pixels = images.permute(0, 2, 3, 1).contiguous()
    logits, targets = [], []
    for _ in range(training.local_epochs):
        order = torch.from_numpy(rng.permutation(len(labels))).to(labels.device, non_blocking=True)
        epoch_inputs, epoch_labels = to_inputs(pixels[order]).permute(0, 3, 1, 2), labels[order]
        for begin in range(0, len(labels) - smallest + 1, training.batch_size):
            batch = slice(begin, begin + training.batch_size)
            logits.append(_step(flat, optimizer, epoch_inputs[batch], epoch_labels[batch]))
            targets.append(epoch_labels[batch])
    losses, accuracies = _running(logits, targets, training.local_epochs)
    return LocalResult(
        model=flat.read(),
        losses=losses,
        accuracies=accuracies,
        memory=optimizer.memory() if training.keep_optimizer_state else None,
    )


def _smallest_batch(module: nn.Module, batch_size: int) -> int:
    """Return the least number of images that the module can be trained on at a time."""
    if not any(isinstance(layer, _BatchNorm) for layer in module.modules()):
        return 1
    if batch_size == 1:
        raise ConfigError(
            "training.batch_size=1 does not work with a model that has BatchNorm; choose at least 2"
        )
    return 2


def _step(flat: FlatModule, optimizer: _Optimizer, images: Tensor, labels: Tensor) -> Tensor:
    """Train on one batch; return its logits before the step."""
    logits: Tensor = flat.module(images)
    flat.gradient.zero_()
    functional.cross_entropy(logits, labels).backward()  # type: ignore[no-untyped-call]
    optimizer.step(flat.weights, flat.gradient)
    return logits.detach()


def _running(
    logits: list[Tensor], labels: list[Tensor], num_epochs: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean cross-entropy and accuracy of each epoch from all batches, read back in one go."""
    if not logits:
        return (nan,) * num_epochs, (nan,) * num_epochs
    outputs, targets = torch.cat(logits).double(), torch.cat(labels)
    losses = functional.cross_entropy(outputs, targets, reduction="none")
    hits = (outputs.argmax(dim=1) == targets).double()
    means = torch.stack([losses, hits]).view(2, num_epochs, -1).mean(dim=2).tolist()
    return tuple(means[0]), tuple(means[1])
