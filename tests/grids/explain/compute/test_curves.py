"""Insertion and deletion curves whose areas are known in closed form."""

from itertools import permutations

import numpy as np
import pytest
import torch

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models import registry
from fedgrid.grids.explain.compute.curves import (
    build_class_score,
    compute_auc,
    compute_curves,
    draw_random_order,
    score_image,
    sort_pixels,
)
from fedgrid.grids.explain.compute.settings import compute_pixels_per_step, list_counts

ONES, ZEROS = torch.ones(1, 4, 4), torch.zeros(1, 4, 4)
PERFECT, REVERSED = torch.arange(16), torch.arange(15, -1, -1)


def additive(images):
    """A score of 1/4 for each of the first four of 16 pixels."""
    return images.flatten(1)[:, :4].sum(dim=1) / 4


def areas(score, order, step, image=ONES, baseline=ZEROS):
    [found] = compute_curves(score, image, baseline, [order], step)
    return compute_auc(found.insertion), compute_auc(found.deletion)


def small_model():
    torch.manual_seed(0)
    return registry.build_model("tinyvgg", image_inputs(1, 12, 12), 10).eval()


@pytest.mark.parametrize("step", [1, 2, 4])
def test_additive_score_with_a_perfect_order(step):
    """m = 4 of n = 16 pixels: insertion 1 - m/2n, deletion m/2n; the reversed order exchanges them."""
    assert areas(additive, PERFECT, step) == (0.875, 0.125)
    assert areas(additive, REVERSED, step) == (0.125, 0.875)


def test_additive_score_in_random_order_is_a_half_in_expectation():
    """Exactly, over all orders of four pixels of which one counts."""
    image, baseline = torch.ones(1, 2, 2), torch.zeros(1, 2, 2)
    orders = [torch.tensor(order) for order in permutations(range(4))]
    found = compute_curves(lambda images: images[:, 0, 0, 0], image, baseline, orders, 1)
    assert np.mean([compute_auc(each.insertion) for each in found]) == pytest.approx(0.5)
    assert np.mean([compute_auc(each.deletion) for each in found]) == pytest.approx(0.5)


@pytest.mark.parametrize("step", [1, 2, 8, 16])
def test_one_decisive_pixel_costs_half_an_interval(step):
    intervals = 16 // step
    expected = (1 - 1 / (2 * intervals), 1 / (2 * intervals))
    assert areas(lambda images: images[:, 0, 0, 0], PERFECT, step) == pytest.approx(expected)


def test_curves_begin_and_end_at_the_scores_of_image_and_baseline_exactly():
    score, image = build_class_score(small_model(), 3), torch.rand(1, 12, 12)
    orders = [torch.arange(144), draw_random_order(144, np.random.default_rng(0))]
    baseline = torch.zeros_like(image)
    for found in compute_curves(score, image, baseline, orders, 10):
        assert (
            found.insertion[0] == found.deletion[-1] == pytest.approx(score(baseline[None]).item(), rel=1e-6)
        )
        assert found.insertion[-1] == found.deletion[0] == pytest.approx(score(image[None]).item(), rel=1e-6)
        assert len(found.insertion) == len(found.deletion) == 16
        assert compute_auc(found.deletion) >= float(found.deletion[0]) / (2 * 15)


def test_short_last_step_breaks_that_symmetry():
    """Five pixels by two, pixel 1 decisive: inserted with the first two, deleted with the last but one."""
    image, baseline, order = torch.ones(1, 1, 5), torch.zeros(1, 1, 5), torch.arange(5)
    one, other = compute_curves(lambda images: images[:, 0, 0, 1], image, baseline, [order, order.flip(0)], 2)
    assert one.insertion.tolist() == [0, 1, 1, 1]
    assert other.deletion.flip(0).tolist() == [0, 0, 1, 1]


def test_all_channels_of_a_pixel_are_exchanged_at_once():
    seen = []
    image, baseline = torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]), torch.full((2, 1, 2), 9.0)

    def score(images):
        seen.append(images)
        return images.sum(dim=(1, 2, 3))

    compute_curves(score, image, baseline, [torch.tensor([1, 0])], 1)
    base, full, inserted, deleted = torch.cat(seen).tolist()
    assert (base, full) == (baseline.tolist(), image.tolist())
    assert inserted == [[[9.0, 2.0]], [[9.0, 4.0]]]
    assert deleted == [[[1.0, 9.0]], [[3.0, 9.0]]]


def test_constant_map_orders_pixels_row_by_row():
    assert sort_pixels(torch.zeros(2, 3)).tolist() == [0, 1, 2, 3, 4, 5]
    assert sort_pixels(torch.tensor([[0.0, 1.0], [0.0, 1.0]])).tolist() == [1, 3, 0, 2]


def test_map_with_nan_orders_nothing():
    with pytest.raises(ValueError, match="NaN"):
        sort_pixels(torch.tensor([[0.0, float("nan")]]))


@pytest.mark.parametrize(("pixels", "step", "intervals"), [(784, 10, 79), (1024, 10, 103), (16, 16, 1)])
def test_last_step_may_be_short(pixels, step, intervals):
    found = list_counts(pixels, step)
    assert (len(found) - 1, found[0], found[-1]) == (intervals, 0, pixels)


@pytest.mark.parametrize(
    ("pixels", "steps", "expected"), [(784, 32, 25), (1024, 32, 32), (64, 64, 1), (64, 1, 64)]
)
def test_number_of_steps_gives_the_pixels_of_one(pixels, steps, expected):
    assert compute_pixels_per_step(pixels, steps) == expected


@pytest.mark.parametrize("steps", [0, 65])
def test_more_steps_than_pixels_are_refused(steps):
    with pytest.raises(ConfigError, match=f"{steps} steps for an image of 64 pixels; choose 1 to 64"):
        compute_pixels_per_step(64, steps)
    with pytest.raises(ConfigError, match=f"{steps} pixels a step in an image of 64 pixels; choose 1 to 64"):
        list_counts(64, steps)


def test_score_of_a_model_in_train_mode_is_refused():
    with pytest.raises(ValueError, match="train mode"):
        build_class_score(small_model().train(), 0)


def first_pixel(images):
    return images[:, 0, 0, 0]


FOUR_ONES, FOUR_ZEROS = torch.ones(1, 2, 2), torch.zeros(1, 2, 2)


def test_image_is_scored_in_the_order_of_its_map_and_in_a_random_one():
    """The map's greatest pixel is the decisive one; the random order is the generator's."""
    saliency = torch.tensor([[1.0, 0.5], [0.5, 0.0]])
    found = score_image(first_pixel, FOUR_ONES, FOUR_ZEROS, saliency, 1, np.random.default_rng(3))
    place = int(np.flatnonzero(np.random.default_rng(3).permutation(4) == 0)[0])
    assert (found["insertion"], found["deletion"]) == (0.875, 0.125)
    assert found["random_insertion"] == pytest.approx(1 - (place + 0.5) / 4)
    assert found["random_deletion"] == pytest.approx((place + 0.5) / 4)
    assert (found["p_full"], found["p_base"], found["empty"]) == (1.0, 0.0, False)
    assert found["insertion_curve"].tolist() == [0, 1, 1, 1, 1]


def test_constant_map_is_empty_and_scored_row_by_row():
    found = score_image(first_pixel, FOUR_ONES, FOUR_ZEROS, torch.zeros(2, 2), 1, np.random.default_rng(0))
    assert (found["insertion"], found["empty"]) == (0.875, True)
