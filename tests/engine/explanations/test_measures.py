"""Scores of an image."""

import numpy as np
import pytest
import torch

from fedgrid.engine.explanations.curves import auc, curves
from fedgrid.engine.explanations.measures import score_image

ONES, ZEROS = torch.ones(1, 2, 2), torch.zeros(1, 2, 2)


def first_pixel(images):
    return images[:, 0, 0, 0]


def test_image_is_scored_in_the_order_of_its_map_and_in_a_random_one():
    """The map's greatest pixel is the decisive one; the random order is the generator's."""
    saliency = torch.tensor([[1.0, 0.5], [0.5, 0.0]])
    found = score_image(first_pixel, ONES, ZEROS, saliency, 1, np.random.default_rng(3))
    place = int(np.flatnonzero(np.random.default_rng(3).permutation(4) == 0)[0])
    assert (found.insertion, found.deletion, found.gap) == (0.875, 0.125, 0.75)
    assert found.random_insertion == pytest.approx(1 - (place + 0.5) / 4)
    assert found.excess == pytest.approx(0.75 - (found.random_insertion - found.random_deletion))
    assert (found.p_full, found.p_base, found.is_empty) == (1.0, 0.0, False)


def test_constant_map_is_empty_and_scored_row_by_row():
    found = score_image(first_pixel, ONES, ZEROS, torch.zeros(2, 2), 1, np.random.default_rng(0))
    assert (found.insertion, found.is_empty) == (0.875, True)


def test_mean_of_areas_is_the_area_of_the_mean_curve():
    rng = np.random.default_rng(0)
    orders = [torch.from_numpy(rng.permutation(4)) for _ in range(5)]
    found = [each.insertion for each in curves(first_pixel, ONES, ZEROS, orders, 1)]
    assert np.mean([auc(curve) for curve in found]) == pytest.approx(auc(torch.stack(found).mean(dim=0)))
