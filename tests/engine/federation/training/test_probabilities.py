"""AUC and expected calibration error, against scikit-learn and worked by hand."""

from math import isnan

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

from fedgrid.engine.federation.training import evaluation
from fedgrid.engine.federation.training.probabilities import Outputs, compute_auc, compute_calibration_error


@pytest.mark.parametrize("seed", range(5))
def test_auc_is_that_of_scikit_learn_over_the_classes_of_the_labels(seed):
    """Rounded, so that some probabilities are equal; with all classes it is scikit-learn's macro mean."""
    rng = np.random.default_rng(seed)
    probability_NL = rng.dirichlet(np.ones(4), 40).round(1 + seed % 2)
    probability_NL /= probability_NL.sum(axis=1, keepdims=True)
    label_N = rng.integers(0, 4, 40)
    assert compute_auc(probability_NL, label_N) == pytest.approx(
        roc_auc_score(label_N, probability_NL, multi_class="ovr")
    )
    own_N = label_N < 2
    areas = [roc_auc_score(label_N[own_N] == label, probability_NL[own_N, label]) for label in (0, 1)]
    assert compute_auc(probability_NL[own_N], label_N[own_N]) == pytest.approx(np.mean(areas))


def test_calibration_error_by_hand():
    """In bins of a fifteenth: 0.92 is alone in (13/15, 14/15], and right, 0.96 in (14/15, 1], too.

    0.4 is the upper limit of (5/15, 6/15], where 0.38 is too; one of the two is right: |1 - 0.78| = 0.22.
    """
    error = compute_calibration_error(np.array([0.92, 0.96, 0.4, 0.38]), np.array([True, True, True, False]))
    assert error == pytest.approx((0.08 + 0.04 + 0.22) / 4)


def test_scores_of_logits_by_hand():
    """Probabilities 0.8 and 0.2, then 0.6 and 0.4: both images are of the class with the larger one."""
    logits_NL = np.log(np.array([[0.8, 0.2], [0.4, 0.6]], np.float32))
    scores = Outputs(logits_NL, np.array([0, 1])).compute_scores()
    assert scores == pytest.approx({"auc": 1.0, "ece": (0.2 + 0.4) / 2})


@pytest.mark.parametrize(
    ("logits", "labels", "has_ece"),
    [([], [], False), ([[0, 1], [2, 0]], [1, 1], True), ([[0, np.nan], [1, 0]], [0, 1], False)],
    ids=["no images", "one class", "not finite"],
)
def test_what_is_not_defined_is_nan(logits, labels, has_ece):
    outputs = Outputs(np.array(logits, np.float32).reshape(-1, 2), np.array(labels, np.int64))
    scores = outputs.compute_scores()
    assert isnan(scores["auc"])
    assert isnan(scores["ece"]) != has_ece


def test_outputs_of_parts_add_up_to_those_of_the_whole():
    """One part is empty; a pixel of 255 is a logit of 1."""
    images = torch.tensor([255, 0, 0, 255], dtype=torch.uint8).reshape(2, 1, 1, 2)
    labels, module = torch.tensor([0, 1]), nn.Flatten()
    parts = [
        evaluation.evaluate_model(module, images[where], labels[where], 2, 4, with_outputs=True)
        for where in (slice(1), slice(1, 1), slice(1, 2))
    ]
    outputs = (parts[0] + parts[1] + parts[2]).outputs
    assert outputs.logits_NL.tolist() == [[1, 0], [0, 1]]
    assert outputs.compute_scores() == pytest.approx({"auc": 1, "ece": 1 / (1 + np.e)})
    assert evaluation.evaluate_model(module, images, labels, 2, 4).outputs is None


def test_sure_answers_are_no_ties():
    """In single precision both probabilities of class 0 are 1."""
    logits_NL = np.array([[30, 0], [20, 0]], np.float32)
    assert Outputs(logits_NL, np.array([0, 1])).compute_scores()["auc"] == 1
