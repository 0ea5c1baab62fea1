import warnings
from math import isnan, log

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, f1_score, recall_score
from torch import nn

from fedgrid.engine.federation.training import evaluation
from fedgrid.engine.federation.training.confusion import Counts
from fedgrid.engine.federation.training.confusion import compute_scores as confusion_scores
from fedgrid.engine.federation.training.layers import find_smallest_batch, reset_norms


class PixelLogits(nn.Module):
    """Takes the three pixels of a 1x1x3 image for the logits of three classes."""

    def forward(self, images):
        return images.flatten(1)


def test_counts_and_loss_of_two_images_by_hand():
    """Pixels 255, 0, 0 are logits 1, 0, 0: cross-entropy log(e + 2) - 1 of class 0, log(e + 2) of class 2."""
    images = torch.tensor([[[[255, 0, 0]]], [[[255, 0, 0]]]], dtype=torch.uint8)
    counts = evaluation.evaluate_model(PixelLogits(), images, torch.tensor([0, 2]), 3, 1)
    assert counts.confusion.tolist() == [[1, 0, 0], [0, 0, 0], [1, 0, 0]]
    assert counts.loss_sum == pytest.approx(2 * log(np.e + 2) - 1)


def test_r2_of_numbers_by_hand_also_in_parts():
    """Answers 1, 2, 3, 5 to 1, 2, 3, 4: one squared error of 1; squares about their mean 2.5 are 5."""
    answers, numbers = torch.tensor([[1.0], [2], [3], [5]]), torch.tensor([1.0, 2, 3, 4])
    parts = [
        evaluation.evaluate_model(nn.Identity(), answers[i], numbers[i], 1, 4)
        for i in (slice(3), slice(3, 4))
    ]
    whole = evaluation.evaluate_model(nn.Identity(), answers, numbers, 1, 4)
    for scores in confusion_scores([whole, parts[0] + parts[1]]):
        assert (scores["loss"], scores["r2"], scores["accuracy"]) == (
            pytest.approx(0.25),
            pytest.approx(0.8),
            None,
        )
    [of_equal] = confusion_scores([evaluation.evaluate_model(nn.Identity(), answers[3:], numbers[3:], 1, 4)])
    assert isnan(of_equal["r2"])


def test_a_model_of_nans_has_a_nan_loss_and_raises_nothing():
    class Nans(nn.Module):
        def forward(self, images):
            return images.flatten(1) * float("nan")

    images, labels = torch.zeros(2, 1, 1, 3, dtype=torch.uint8), torch.tensor([0, 1])
    counts = evaluation.evaluate_model(Nans(), images, labels, 3, 2)
    assert isnan(counts.loss_sum)
    assert counts.confusion.sum() == 2


def test_no_images_give_empty_counts_and_nan_scores_in_silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        images, labels = torch.zeros(0, 1, 1, 3, dtype=torch.uint8), torch.zeros(0, dtype=torch.int64)
        counts = evaluation.evaluate_model(PixelLogits(), images, labels, 3, 2)
        [scores] = confusion_scores([counts])
    assert not counts.confusion.any()
    assert counts.loss_sum == 0
    assert np.isnan([*scores.pop("recall"), *scores.values()]).all()


def test_mode_is_set_by_a_model_of_its_own_and_in_all_parts():
    class Frozen(nn.Linear):
        def train(self, mode=True):
            return super().train(False)

    plain, own = nn.Sequential(nn.Sequential(nn.ReLU())), nn.Sequential(Frozen(1, 1), nn.ReLU())
    for model in (plain, own):
        evaluation.set_mode(model, training=False)
        assert not any(part.training for part in model.modules())
        evaluation.set_mode(model, training=True)
    assert all(part.training for part in plain.modules())
    assert [part.training for part in own.modules()] == [True, False, True]


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_scripted_module_is_set_to_a_mode_and_its_norms_are_reset():
    model, ones = torch.jit.script(nn.Sequential(nn.BatchNorm1d(1), nn.Dropout(0.5))), torch.ones(64, 1)
    evaluation.set_mode(model, training=False)
    assert torch.allclose(model(ones), ones)
    evaluation.set_mode(model, training=True)
    assert torch.allclose(model(ones), torch.zeros(64, 1))
    assert [buffer.tolist() for buffer in model.buffers()] == [[pytest.approx(0.1)], [pytest.approx(0.9)], 1]
    reset_norms(model)
    assert [buffer.tolist() for buffer in model.buffers()] == [[0], [1], 0]
    assert find_smallest_batch(model, 4) == 2


def test_one_prediction_outside_the_own_classes_halves_f1_over_the_union_only():
    """Three of four images of class 0 right, one taken for class 1: F1 of class 0 is 2 * 3 / (4 + 3)."""
    [scores] = confusion_scores([Counts(np.array([[3, 1, 0], [0, 0, 0], [0, 0, 0]]), 2.0)])
    assert scores["f1"] == pytest.approx(6 / 7)
    assert scores["f1_union"] == pytest.approx(3 / 7)
    assert scores["accuracy"] == scores["balanced_accuracy"] == scores["recall"][0] == 0.75
    assert np.isnan(scores["recall"][1:]).all()
    assert scores["loss"] == 0.5


@pytest.mark.parametrize("seed", range(20))
def test_scores_are_those_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    own = rng.choice(6, rng.integers(1, 4), replace=False)
    true, predicted = rng.choice(own, 30), rng.choice(rng.choice(6, 4, replace=False), 30)
    confusion = np.zeros((6, 6), np.int64)
    np.add.at(confusion, (true, predicted), 1)
    [scores] = confusion_scores([Counts(confusion, 0.0)])
    present = np.unique(true)
    assert scores["f1_union"] == pytest.approx(f1_score(true, predicted, average="macro", zero_division=0))
    assert scores["f1"] == pytest.approx(
        f1_score(true, predicted, labels=present, average="macro", zero_division=0)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert scores["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(true, predicted))
    assert np.array(scores["recall"])[present] == pytest.approx(
        recall_score(true, predicted, labels=present, average=None)
    )
    assert np.isnan(np.delete(scores["recall"], present)).all()
