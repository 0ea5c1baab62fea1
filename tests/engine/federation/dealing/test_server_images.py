"""The server's test set and its reference images."""

import numpy as np
import pytest

from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.dealing.holdouts import server_sets
from fedgrid.engine.federation.dealing.split import server_subset
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.settings import Split

NUM_IMAGES = 20
SERVER = ImageSet(np.arange(NUM_IMAGES, dtype=np.uint8).reshape(-1, 1, 1, 1), np.arange(NUM_IMAGES) % 3)
"""Image i has the pixel i."""


def split(**changes):
    return Split(**changes)


def pixels(held):
    return held.images.flatten().tolist()


@pytest.mark.parametrize("server_images", [None, 7])
def test_without_reference_images_the_test_set_is_what_it_was(server_images):
    test_set, reference_set = server_sets(SERVER, split(server_images=server_images), seed=3)
    assert pixels(test_set) == pixels(server_subset(SERVER, server_images, 3))
    assert reference_set is None


@pytest.mark.parametrize("server_images", [None, 7])
def test_reference_images_are_in_no_test_set(server_images):
    test_set, reference_set = server_sets(
        SERVER, split(reference_images=5, server_images=server_images), seed=3
    )
    assert (len(reference_set), len(test_set)) == (5, server_images or 15)
    assert len({*pixels(reference_set), *pixels(test_set)}) == 5 + len(test_set)
    for held in (reference_set, test_set):
        assert held.labels.tolist() == [pixel % 3 for pixel in pixels(held)]


def test_reference_images_depend_on_the_seed_alone():
    drawn = [pixels(server_sets(SERVER, split(reference_images=5), seed)[1]) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("count", [NUM_IMAGES, NUM_IMAGES + 1])
def test_too_many_reference_images_are_refused_by_key(count):
    with pytest.raises(ConfigError) as error:
        server_sets(SERVER, split(reference_images=count), 0)
    for word in ("split.reference_images", str(count), str(NUM_IMAGES - 1)):
        assert word in str(error.value)


def test_one_image_to_test_on_is_enough():
    test_set, reference_set = server_sets(SERVER, split(reference_images=NUM_IMAGES - 1), 0)
    assert (len(test_set), len(reference_set)) == (1, NUM_IMAGES - 1)
