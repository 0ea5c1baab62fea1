"""Confusion matrices of tests, and the scores that follow from them.

Shapes: L classes.
"""

from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Counts:
    """Result of one test; results of parts of a test set add up to that of the whole."""

    confusion: NDArray[np.int64]
    """Shape (L, L): number of images of class `row` that were predicted as class `column`."""
    loss_sum: float
    """Sum of the images' cross-entropies."""

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.confusion + other.confusion, self.loss_sum + other.loss_sum)


@dataclass(frozen=True)
class TestScores:
    """Scores of one test; all NaN if the test set is empty."""

    loss: float
    """Mean cross-entropy."""
    accuracy: float
    f1_union: float
    """Mean F1 over all classes that have an image or a prediction (the published convention: one prediction
    outside a client's classes adds a class with F1 zero)."""
    f1_own: float
    """Mean F1 over the classes that have an image."""
    balanced_accuracy: float
    """Mean recall over the classes that have an image."""
    recall_L: NDArray[np.float64]
    """Recall of each class, shape (L,); NaN for a class without images."""


def scores(counts: Counts) -> TestScores:
    """Return the scores of one test. F1 is zero where it would be 0 / 0."""
    true_L = counts.confusion.sum(axis=1)
    predicted_L = counts.confusion.sum(axis=0)
    hits_L = np.diagonal(counts.confusion)
    own_L, union_L = true_L > 0, true_L + predicted_L > 0
    recall_L = np.divide(hits_L, true_L, out=np.full(len(true_L), nan), where=own_L)
    if not own_L.any():
        return TestScores(nan, nan, nan, nan, nan, recall_L)
    f1_L = np.divide(2 * hits_L, true_L + predicted_L, out=np.zeros(len(true_L)), where=union_L)
    total = int(true_L.sum())
    return TestScores(
        loss=counts.loss_sum / total,
        accuracy=float(hits_L.sum() / total),
        f1_union=float(f1_L[union_L].mean()),
        f1_own=float(f1_L[own_L].mean()),
        balanced_accuracy=float(recall_L[own_L].mean()),
        recall_L=recall_L,
    )
