"""Testing a model, and what its confusion matrix says.

Shapes: N images, L classes.
"""

from dataclasses import dataclass
from math import nan

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from engine.messages import Counts

TEST_BATCH = 128
"""Images a test batch. Fixed, since the last bits of a loss depend on it; larger ones fall out of cache."""


def to_inputs(images: Tensor) -> Tensor:
    """Return uint8 images as float32 in [0, 1], with the strides they have."""
    return images.to(torch.float32).div_(255)


@torch.inference_mode()
def test(module: nn.Module, images: Tensor, labels: Tensor, num_classes: int, batch_size: int) -> Counts:
    """Return the confusion matrix and the summed cross-entropy of the module in inference mode.

    Args:
        module: maps images to logits (N, L); left in `eval` mode.
        images: uint8, shape (N, channels, height, width), on the module's device.
        labels: int64, shape (N,), 0..L-1, on the same device.
        num_classes: L.
        batch_size: images a forward pass; `TEST_BATCH` everywhere in a run.
    """
    if not len(labels):
        return Counts(np.zeros((num_classes, num_classes), np.int64), 0.0)
    module.eval()
    starts = range(0, len(labels), batch_size)
    logits = torch.cat([module(to_inputs(images[start : start + batch_size])) for start in starts])
    loss_sum = functional.cross_entropy(logits.double(), labels, reduction="sum")
    cells = labels * num_classes + logits.argmax(dim=1)
    confusion = torch.bincount(cells, minlength=num_classes**2).view(num_classes, num_classes)
    return Counts(confusion.cpu().numpy(), float(loss_sum))


@dataclass(frozen=True)
class Scores:
    """What is said of one test; all NaN when there was nothing to test."""

    loss: float
    """Mean cross-entropy."""
    accuracy: float
    f1_union: float
    """Mean F1 over the classes that are true or predicted somewhere (the published convention: one
    prediction outside a client's classes adds a class of F1 zero)."""
    f1_own: float
    """Mean F1 over the classes that are true somewhere."""
    balanced_accuracy: float
    """Mean recall over the classes that are true somewhere."""
    recall_L: NDArray[np.float64]
    """Recall of each class, shape (L,); NaN where the class has no image."""


def scores(counts: Counts) -> Scores:
    """Return the scores of one test; a zero denominator of an F1 counts as zero."""
    true_L = counts.confusion.sum(axis=1)
    predicted_L = counts.confusion.sum(axis=0)
    hits_L = np.diagonal(counts.confusion)
    own_L, union_L = true_L > 0, true_L + predicted_L > 0
    recall_L = np.divide(hits_L, true_L, out=np.full(len(true_L), nan), where=own_L)
    if not own_L.any():
        return Scores(nan, nan, nan, nan, nan, recall_L)
    f1_L = np.divide(2 * hits_L, true_L + predicted_L, out=np.zeros(len(true_L)), where=union_L)
    total = int(true_L.sum())
    return Scores(
        loss=counts.loss_sum / total,
        accuracy=float(hits_L.sum() / total),
        f1_union=float(f1_L[union_L].mean()),
        f1_own=float(f1_L[own_L].mean()),
        balanced_accuracy=float(recall_L[own_L].mean()),
        recall_L=recall_L,
    )
