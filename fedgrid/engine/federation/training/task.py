"""The task of a model: to predict classes, or one number in place of them. The type of the labels says which.

A class has the loss cross-entropy, and its tests a confusion matrix. A number (float32) has the squared
error, a model for it one output, and its tests the sums that R2 needs. It is counted and dealt out like
examples of a single class.

Shapes: N examples, L outputs, 1 for a number.
"""

from math import nan

import torch
from torch import Tensor
from torch.nn import functional


def compute_loss(outputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """Compute the cross-entropy in nats of classes, or the squared error of numbers.

    Args:
        outputs: shape (N, L).
        labels: shape (N,).
        reduction: `mean`, `sum` or `none`, which keeps the shape (N,). Default: `mean`.
    """
    if labels.is_floating_point():
        return functional.mse_loss(outputs.squeeze(1), labels.to(outputs.dtype), reduction=reduction)
    return functional.cross_entropy(outputs, labels, reduction=reduction)


def find_hits(outputs: Tensor, labels: Tensor) -> Tensor:
    """Find which predictions are right, in the labels' shape; NaN for numbers, which none meets exactly."""
    if labels.is_floating_point():
        return torch.full_like(labels, nan)
    return outputs.argmax(dim=-1) == labels
