"""Confusion matrices of tests, and the scores that follow from them.

Shapes: N tests, L classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.record_names import SCORES
from fedgrid.engine.federation.training.probabilities import Outputs

EQUAL = 1e-12
"""Share of their mean square below which the variance of numbers counts as rounding: they are all equal."""


@dataclass(frozen=True)
class Counts:
    """Result of one test; results of parts of a test set add up to that of the whole set."""

    confusion: NDArray[np.int64]
    """Shape (L, L): number of images of class `row` that were predicted as class `column`."""
    loss_sum: float
    """Sum of the images' losses, in float64."""
    outputs: Outputs | None = None
    """Outputs for all images, where probabilities are scored (`evaluation.probabilities`)."""
    moments: tuple[float, float] | None = None
    """Sum of the numbers to predict and sum of their squares; the matrix then holds their number alone. None:
    classes."""

    def __add__(self, other: "Counts") -> "Counts":
        outputs = None
        if self.outputs is not None and other.outputs is not None:
            outputs = self.outputs + other.outputs
        moments = None
        if self.moments is not None and other.moments is not None:
            moments = self.moments[0] + other.moments[0], self.moments[1] + other.moments[1]
        return Counts(self.confusion + other.confusion, self.loss_sum + other.loss_sum, outputs, moments)


def compute_scores(tests: Sequence[Counts]) -> list[dict[str, Any]]:
    """Compute the scores of each test, all of the same classes, by the names of `record_names.SCORES`.

    With outputs there are those of `PROBABILITY_SCORES` too. All are NaN if the test set is empty; F1 is zero
    where it would be 0 / 0. The loss is the mean cross-entropy. One prediction outside a client's classes
    adds a class with F1 zero to `f1_union`, as published. Of numbers to predict there are the loss, their
    mean squared error, and `record_names.R2`; the others are None.
    """
    if not tests:
        return []
    if tests[0].moments is not None:
        return [{**dict.fromkeys(SCORES), **compute_errors(counts)} for counts in tests]
    # All tests at once: a round tests each client several times, and NumPy's calls would cost more than its
    # arithmetic.
    confusion_NLL = np.stack([counts.confusion for counts in tests])
    true_NL, predicted_NL = confusion_NLL.sum(axis=2), confusion_NLL.sum(axis=1)
    hits_NL = confusion_NLL.diagonal(axis1=1, axis2=2)
    own_NL, union_NL = true_NL > 0, true_NL + predicted_NL > 0
    recall_NL = np.divide(hits_NL, true_NL, out=np.full(true_NL.shape, nan), where=own_NL)
    f1_NL = np.divide(2 * hits_NL, true_NL + predicted_NL, out=np.zeros(true_NL.shape), where=union_NL)
    totals = true_NL.sum(axis=1).tolist()
    hits = hits_NL.sum(axis=1).tolist()
    return [
        {
            "loss": counts.loss_sum / totals[i] if totals[i] else nan,
            "accuracy": hits[i] / totals[i] if totals[i] else nan,
            "f1_union": _compute_mean(f1_NL[i][union_NL[i]]),
            "f1": _compute_mean(f1_NL[i][own_NL[i]]),
            "balanced_accuracy": _compute_mean(recall_NL[i][own_NL[i]]),
            "recall": recall_NL[i].tolist(),
            **(counts.outputs.compute_scores() if counts.outputs is not None else {}),
        }
        for i, counts in enumerate(tests)
    ]


def compute_errors(counts: Counts) -> dict[str, float]:
    """Compute mean squared error and R2 of a test of numbers to predict; NaN without any.

    R2 is 1 minus the squared errors over those of the test set's own mean; NaN if its numbers are all equal.
    """
    assert counts.moments is not None
    (total, squares) = counts.moments
    number = int(counts.confusion.sum())
    spread = squares - total**2 / number if number else nan
    return {
        "loss": counts.loss_sum / number if number else nan,
        "r2": 1 - counts.loss_sum / spread if spread > EQUAL * squares else nan,
    }


def _compute_mean(values: NDArray[np.float64]) -> float:
    """Compute what `values.mean()` does, in half the time; NaN without values."""
    return float(np.add.reduce(values) / len(values)) if len(values) else nan
