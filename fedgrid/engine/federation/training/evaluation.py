"""Evaluation of a model on a test set, and the choice among models by it.

Shapes: N images, L classes.
"""

from collections.abc import Callable, Sequence
from math import inf, isnan
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedgrid.engine.federation.training.confusion import Counts

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.orders import ChooseBy

TEST_BATCH = 128
"""Images per test batch. Fixed because the last bits of a loss depend on it; larger batches exceed the CPU's
cache and are slower."""


def to_inputs(images: Tensor) -> Tensor:
    """Return a copy of examples as a model is given it: uint8 images as float32 in [0, 1].

    Strides stay the same.
    """
    return images.to(torch.float32).div_(255) if images.dtype == torch.uint8 else images.clone()


def set_mode(module: nn.Module, *, training: bool) -> None:
    """Put the module into a mode unless it is in it.

    As `nn.Module.train` does, but without torch's checks of each attribute that is set. A model may have a
    `train` of its own, which is called.
    """
    if module.training is training:
        return
    parts = list(module.modules())
    if any(type(part).train is not nn.Module.train for part in parts):
        module.train(training)
    else:
        for part in parts:
            vars(part)["training"] = training


@torch.inference_mode()
def predict(module: nn.Module, images: Tensor) -> NDArray[Any]:
    """Return the class probabilities of images, float32, shape (N, L); the module stays in `eval` mode.

    `images` are uint8, and converted a batch at a time, or inputs as `to_inputs` makes them.
    """
    set_mode(module, training=False)
    parts = [module(to_inputs(part)) for part in torch.split(images, TEST_BATCH)]
    return np.asarray(torch.cat(parts).softmax(dim=1).cpu().numpy())


@torch.inference_mode()
def test(module: nn.Module, images: Tensor, labels: Tensor, num_classes: int, batch_size: int) -> Counts:
    """Return confusion matrix and summed cross-entropy of the module, in inference mode.

    Args:
        module: maps images to logits of shape (N, L); it stays in `eval` mode afterwards.
        images: as `ImageSet.images`, on the module's device.
        labels: int64, shape (N,), 0..L-1, on the same device.
        num_classes: L.
        batch_size: images per forward pass; runs use `TEST_BATCH` everywhere.
    """
    if not labels.shape[0]:
        return Counts(np.zeros((num_classes, num_classes), np.int64), 0.0)
    set_mode(module, training=False)
    parts = [images] if labels.shape[0] <= batch_size else torch.split(images, batch_size)
    outputs = [module(to_inputs(part)) for part in parts]
    logits = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
    loss_sum = functional.cross_entropy(logits.double(), labels, reduction="sum")
    cells = labels * num_classes + logits.argmax(dim=1)
    confusion = torch.bincount(cells, minlength=num_classes**2).view(num_classes, num_classes)
    return Counts(confusion.cpu().numpy(), float(loss_sum))


def best(candidates: Sequence[int], test: Callable[[int], Counts], by: "ChooseBy") -> int:
    """Return the candidate with the least loss, or the highest accuracy; ties go to the first.

    A loss that is NaN counts as infinite.
    """
    penalties = {candidate: _penalty(test(candidate), by) for candidate in candidates}
    return min(candidates, key=penalties.__getitem__)


def _penalty(counts: Counts, by: "ChooseBy") -> float:
    if by == "accuracy":
        return -float(counts.confusion.trace())
    return inf if isnan(counts.loss_sum) else counts.loss_sum
