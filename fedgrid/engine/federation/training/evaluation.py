"""Evaluation of a model on a test set, and the choice among models by it.

Shapes: N images, L classes.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf, isnan
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.jit import ScriptModule

from fedgrid.engine.federation.training.confusion import Counts
from fedgrid.engine.federation.training.probabilities import Outputs
from fedgrid.engine.federation.training.task import compute_loss

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.orders import ChooseBy

Logits = Callable[[Tensor], Tensor]
"""Function from inputs to logits, shape (N, L)."""
TEST_BATCH = 128
"""Images in a test batch. Fixed because the last bits of a loss depend on it; larger batches exceed the CPU's
cache and are slower."""


def convert_to_inputs(images: Tensor) -> Tensor:
    """Convert a copy of examples to a model's inputs: uint8 images to float32 in [0, 1], others as they are.

    Strides stay the same.
    """
    # In place, as `to` has made a new tensor.
    return images.to(torch.float32).div_(255) if images.dtype == torch.uint8 else images.clone()


def set_mode(module: nn.Module, *, training: bool) -> None:
    """Put all parts of the module into training or evaluation mode, whatever mode each is in.

    As `nn.Module.train` does, but without torch's checks of each attribute that is set. A model, or a
    part of it, may have a `train` of its own, which is called; scripted ones have the attribute elsewhere.
    """
    parts = list(module.modules())
    if any(
        type(part).train is not nn.Module.train or "train" in vars(part) or isinstance(part, ScriptModule)
        for part in parts
    ):
        module.train(training)
    else:
        for part in parts:
            vars(part)["training"] = training


# Not `inference_mode`, in which a module cannot take a gradient of its own.
@torch.no_grad()
def predict_probabilities(module: nn.Module, images: Tensor) -> NDArray[Any]:
    """Predict the class probabilities of images, float32, shape (N, L); the module stays in `eval` mode.

    Args:
        module: maps inputs to logits.
        images: uint8, converted a batch at a time, or inputs as `convert_to_inputs` makes them.
    """
    set_mode(module, training=False)
    parts = [module(convert_to_inputs(part)) for part in torch.split(images, TEST_BATCH)]
    return np.asarray(torch.cat(parts).softmax(dim=1).cpu().numpy())


@torch.no_grad()
def evaluate_model(
    module: nn.Module,
    images: Tensor,
    labels: Tensor,
    num_classes: int,
    batch_size: int,
    *,
    with_outputs: bool = False,  # noqa: PT028
    logits_of: Logits | None = None,  # noqa: PT028
) -> Counts:
    """Test the module on a test set, in `eval` mode.

    Args:
        module: maps images to logits of shape (N, L); it stays in `eval` mode afterwards.
        images: as `ImageSet.images`, on the module's device.
        labels: as `ImageSet.labels`, on the same device.
        num_classes: L.
        batch_size: images in a forward pass; runs use `TEST_BATCH` everywhere.
        with_outputs: whether the result has the logits and labels too. Default: False.
        logits_of: maps inputs to logits in the module's place, with its help. Default: the module does.

    Raises:
        ValueError: the logits have another shape.
    """
    if not labels.shape[0]:
        # `torch.cat` of no batches fails; an empty set has an empty matrix.
        return _count_results(
            images.new_zeros(0, num_classes, dtype=torch.float32), labels, with_outputs=with_outputs
        )
    set_mode(module, training=False)
    parts = [images] if labels.shape[0] <= batch_size else torch.split(images, batch_size)
    part_logits = [(logits_of or module)(convert_to_inputs(part)) for part in parts]
    logits = part_logits[0] if len(part_logits) == 1 else torch.cat(part_logits)
    if logits.shape != (len(labels), num_classes):
        raise ValueError(
            f"the model returned logits of shape {tuple(logits.shape)}; expected {(len(labels), num_classes)}"
        )
    return _count_results(logits, labels, with_outputs=with_outputs)


def _count_results(logits: Tensor, labels: Tensor, *, with_outputs: bool) -> Counts:
    """Count the results of a test from outputs, shape (N, L); `with_outputs` keeps these and the labels."""
    num_classes = logits.shape[1]
    moments = None
    # Summed in float64: parts of a test set, tested by different clients, add up to the sum of the whole.
    loss_sum = compute_loss(logits.double(), labels, "sum")
    classes = labels
    if labels.is_floating_point():
        classes = torch.zeros_like(labels, dtype=torch.int64)
        exact = labels.double()
        moments = float(exact.sum()), float(exact.square().sum())
    # One `bincount` of (class, prediction) pairs is the confusion matrix, without a loop or a copy from the
    # device.
    cells = classes * num_classes + logits.argmax(dim=1)
    confusion = torch.bincount(cells, minlength=num_classes**2).view(num_classes, num_classes)
    outputs = Outputs(logits.cpu().numpy(), labels.cpu().numpy()) if with_outputs else None
    return Counts(confusion.cpu().numpy(), float(loss_sum), outputs, moments)


def choose_best(tests: Mapping[int, Counts], by: "ChooseBy") -> int:
    """Choose the candidate with the least loss, or the highest accuracy; ties go to the first.

    A loss that is NaN counts as infinite.
    """
    return min(tests, key=lambda candidate: _compute_penalty(tests[candidate], by))


def compute_mean_losses(tests: Mapping[int, Counts], candidates: Sequence[int]) -> NDArray[np.float32]:
    """Compute the mean loss of each candidate, in their order."""
    results = (tests[candidate] for candidate in candidates)
    return np.array([counts.loss_sum / counts.confusion.sum() for counts in results], np.float32)


def _compute_penalty(counts: Counts, by: "ChooseBy") -> float:
    """Compute what the best candidate has least of: loss, or minus the number of hits."""
    if by == "accuracy":
        return -float(counts.confusion.trace())
    return inf if isnan(counts.loss_sum) else counts.loss_sum
