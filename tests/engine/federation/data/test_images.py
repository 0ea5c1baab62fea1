"""Images with their classes and groups."""

import numpy as np
import pytest

from fedgrid.engine.federation.data import images as data_images
from fedgrid.engine.federation.data.images import ChannelStatistics, ImageSet
from fedgrid.engine.runtime.data.datasets import load_dataset


def test_two_channels_by_hand():
    """Pixels 0 and 1 with shares of a half: mean and deviation 0.5; the other channel is 0.2 everywhere."""
    images = np.zeros((3, 2, 2, 2), np.uint8)
    images[:, 0, 0], images[:, 1] = 255, 51
    statistics = ChannelStatistics.measure(images)
    assert statistics.means == pytest.approx((0.5, 0.2))
    assert statistics.deviations == pytest.approx((0.5, 0.0), abs=1e-12)


def test_statistics_are_those_of_numpy_and_blocks_change_no_bit(monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (10, 3, 4, 5)).astype(np.uint8)
    whole = ChannelStatistics.measure(images)
    assert whole.means == pytest.approx((images / 255).mean(axis=(0, 2, 3)))
    assert whole.deviations == pytest.approx((images / 255).std(axis=(0, 2, 3)))
    monkeypatch.setattr(data_images, "BLOCK", 3)
    assert ChannelStatistics.measure(images[::-1]) == whole


def test_mnist_has_its_well_known_mean_and_deviation(shared):
    pool, _ = load_dataset("mnist", shared / "data", download=False)
    statistics = ChannelStatistics.measure(pool.images)
    assert statistics.means == pytest.approx((0.1307,), abs=5e-5)
    assert statistics.deviations == pytest.approx((0.3081,), abs=5e-5)


HELD = ImageSet(np.zeros((3, 1, 2, 4), np.uint8), np.array([2, 0, 1]), np.array([0, 0, 1]))


def test_taken_images_keep_their_classes_and_groups():
    taken = HELD.take(np.array([2, 0]))
    assert (taken.labels.tolist(), taken.groups.tolist()) == ([1, 2], [1, 0])
    assert HELD.without_groups().take(slice(0, 1)).groups is None


def test_without_pixels_only_the_size_of_an_image_is_left():
    """And no memory is kept by a view."""
    left = HELD.without_pixels()
    assert left.images.shape == (0, 1, 2, 4)
    assert left.images.base is None
    assert (left.labels is HELD.labels, left.groups is HELD.groups) == (True, True)
