"""Scores of an image and their means."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedgrid.grids.explain.compute.curves import auc, curves
from fedgrid.grids.explain.compute.measures import ImageScores, score_image, summary

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


def test_summary_has_means_and_the_share_of_empty_maps():
    one = ImageScores(0.75, 0.25, 0.5, 0.5, 1.0, 0.0, is_empty=False)
    other = replace(one, insertion=0.5, deletion=0.5, p_full=0.5, is_empty=True)
    found = summary([one, other, other, other])
    assert (found.images, found.insertion, found.deletion) == (4, 0.5625, 0.4375)
    assert (found.gap, found.excess, found.p_full, found.empty_share) == (0.125, 0.125, 0.625, 0.75)


def test_summary_of_no_image_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        summary([])


def test_mean_of_areas_is_the_area_of_the_mean_curve():
    rng = np.random.default_rng(0)
    orders = [torch.from_numpy(rng.permutation(4)) for _ in range(5)]
    found = [each.insertion for each in curves(first_pixel, ONES, ZEROS, orders, 1)]
    assert np.mean([auc(curve) for curve in found]) == pytest.approx(auc(torch.stack(found).mean(dim=0)))
