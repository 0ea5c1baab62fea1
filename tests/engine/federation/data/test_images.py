"""Images with their classes and groups."""

import numpy as np

from fedgrid.engine.federation.data.images import ImageSet

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
