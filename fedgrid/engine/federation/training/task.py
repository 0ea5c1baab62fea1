"""What models learn: classes, or a number in place of them. The type of the labels says which.

A class has the loss cross-entropy, and its tests a confusion matrix. A number (float32) has the squared
error, a model for it one output, and its tests what R2 needs. As one class for all, it is counted and dealt
out like classes.

Shapes: N examples, L outputs, 1 for a number.
"""

from math import nan

import torch
from torch import Tensor
from torch.nn import functional


def loss(outputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """Return the cross-entropy in nats of classes, the squared error of numbers.

    `reduction` is `mean`, `sum` or `none`: shape (N,).
    """
    if labels.is_floating_point():
        return functional.mse_loss(outputs.squeeze(1), labels.to(outputs.dtype), reduction=reduction)
    return functional.cross_entropy(outputs, labels, reduction=reduction)


def hits(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return which answers are right, of the labels' shape; NaN of numbers, which no answer meets exactly."""
    if labels.is_floating_point():
        return torch.full_like(labels, nan)
    return outputs.argmax(dim=-1) == labels
