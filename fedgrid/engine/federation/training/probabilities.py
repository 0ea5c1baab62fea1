"""Outputs of models in tests, and the scores that need the probabilities of all classes.

Shapes: N images, L classes.
"""

from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import NDArray

BINS = 15
"""Number of bins of confidence, as in Guo et al."""


@dataclass(frozen=True)
class Outputs:
    """The outputs of a model for the images of one test, with their classes."""

    logits_NL: NDArray[np.float32]
    """Outputs before the softmax."""
    label_N: NDArray[np.int64]
    """True class of each image."""

    def __add__(self, other: "Outputs") -> "Outputs":
        return Outputs(
            np.concatenate([self.logits_NL, other.logits_NL]), np.concatenate([self.label_N, other.label_N])
        )

    def compute_scores(self) -> dict[str, float]:
        """Compute the `record_names.PROBABILITY_SCORES`; NaN without images, and if a logit is not finite."""
        if not len(self.label_N) or not np.isfinite(self.logits_NL).all():
            return {"auc": nan, "ece": nan}
        # In double precision: in single, sure answers are ties at 1.
        logits_NL = self.logits_NL.astype(np.float64)
        exponential_NL = np.exp(logits_NL - logits_NL.max(axis=1, keepdims=True))
        probability_NL = exponential_NL / exponential_NL.sum(axis=1, keepdims=True)
        hit_N = self.logits_NL.argmax(axis=1) == self.label_N
        return {
            "auc": compute_auc(probability_NL, self.label_N),
            "ece": compute_calibration_error(probability_NL.max(axis=1), hit_N),
        }


def compute_auc(probability_NL: NDArray[np.float64], label_N: NDArray[np.int64]) -> float:
    """Compute the area under the ROC curve, one class against the rest, mean over the classes of the labels.

    Of a class it is the probability that an image of it has a larger probability of it than one of the rest;
    equal ones count half (Hanley and McNeil, Radiology 143, 1982). NaN unless there are two classes.
    """
    areas = []
    for label in np.unique(label_N):
        is_own_N = label_N == label
        own = probability_NL[is_own_N, label]
        rest = np.sort(probability_NL[~is_own_N, label])
        if not len(rest):
            return nan
        # Ranks in the sorted rest, in N log N; `left` plus `right`, halved, counts an equal probability half.
        below = np.searchsorted(rest, own, "left") + np.searchsorted(rest, own, "right")
        areas.append(below.mean() / (2 * len(rest)))
    return float(np.mean(areas))


def compute_calibration_error(confidence_N: NDArray[np.float64], hit_N: NDArray[np.bool_]) -> float:
    """Compute the expected calibration error with `BINS` bins of equal width, the upper limit part of each.

    The mean over images of |accuracy - mean confidence| of an image's bin, where the confidence is the
    probability of the predicted class. Source: Guo, Pleiss, Sun and Weinberger, On Calibration of Modern
    Neural Networks, ICML 2017, equation 3.
    """
    bin_N = np.digitize(confidence_N, np.linspace(0, 1, BINS + 1)[1:-1], right=True)
    gaps = np.bincount(bin_N, weights=hit_N - confidence_N)
    return float(np.abs(gaps).sum() / len(hit_N))
