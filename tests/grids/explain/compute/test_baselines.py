"""Baseline images worked out by hand."""

import pytest
import torch

from fedgrid.grids.explain.compute.explained_run import blur_image, build_baseline, compute_mean_colour

COLOUR = torch.tensor([0.25, 0.75])


def test_mean_colour_is_of_each_channel_over_all_images():
    """Channel 0: 0, 255, 255, 0 and 51 four times; channel 1: 0 and 102."""
    images = torch.zeros(2, 2, 2, 2, dtype=torch.uint8)
    images[0, 0] = torch.tensor([[0, 255], [255, 0]])
    images[1, 0], images[1, 1] = 51, 102
    assert compute_mean_colour(images).tolist() == pytest.approx([(2 * 255 + 4 * 51) / 8 / 255, 0.2])


def test_baseline_is_black_or_the_colour_in_each_pixel():
    image = torch.rand(2, 3, 4)
    assert not build_baseline("black", image, COLOUR).any()
    mean = build_baseline("mean", image, COLOUR)
    assert (mean[0].unique().tolist(), mean[1].unique().tolist()) == ([0.25], [0.75])
    assert mean.shape == image.shape


def test_blur_keeps_a_constant_and_spreads_a_point_evenly_to_all_sides():
    assert blur_image(torch.full((1, 6, 5), 0.5)) == pytest.approx(torch.full((1, 6, 5), 0.5))
    point = torch.zeros(1, 17, 17)
    point[0, 8, 8] = 1
    found = blur_image(point)[0]
    assert found == pytest.approx(found.flip(0), abs=1e-8)
    assert found == pytest.approx(found.T, abs=1e-8)
    # Two pixels further: exp(-2^2 / (2 5^2)).
    assert found[8, 10] / found[8, 8] == pytest.approx(0.923116, abs=1e-6)
