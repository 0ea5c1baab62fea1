"""Clients with an angle each."""

from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.shifted import rotate_images, turn_images
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data.datasets import load_dataset
from fedgrid.engine.runtime.run.prepare import prepare_setup

NOWHERE = Path("no-data-needed")


def run(**split):
    return complete_config(
        {"split": {"kind": "continuum", **split}, "clients": 6, "algorithm": "fedavg"}, NOWHERE
    )


def images(*shape):
    return ImageSet(np.random.default_rng(0).integers(0, 256, shape, np.uint8), np.arange(shape[0]))


def test_quarters_are_those_of_rotated_groups():
    held = images(2, 3, 7, 7)
    for group in range(4):
        assert np.array_equal(turn_images(held, 90 * group).images, rotate_images(held, group, 4, 10).images)
    assert np.array_equal(turn_images(held, 360).images, held.images)


def test_bilinear_weights_of_half_a_quarter():
    """Only the pixel above the middle is not 0, but 100.

    The new upper left corner was 1.414 above the middle: 0.586 of that pixel, 0.414 of the outside. The new
    pixels above and left were 0.707 above and beside the middle: 0.707 x 0.293 = 0.207 of that pixel.
    """
    spot = ImageSet(np.array([[[[0, 100, 0], [0, 0, 0], [0, 0, 0]]]], np.uint8), np.array([0]))
    assert turn_images(spot, 45).images[0, 0].tolist() == [[59, 21, 0], [21, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("shape", [(2, 1, 8, 8), (2, 3, 5, 9)])
def test_pixels_are_those_of_scipy(shape):
    held = images(*shape)
    for degrees in (10, 77.7, 200):
        exact = ndimage.rotate(
            held.images.astype(float), degrees, (2, 3), reshape=False, order=1, mode="grid-constant"
        )
        assert np.abs(turn_images(held, degrees).images - exact).max() < 0.5 + 1e-5


@pytest.mark.parametrize("arc", [90, 360])
def test_each_client_has_its_angle_and_the_server_an_equal_share_of_all(arc):
    setup, groups_K = prepare_setup(run(arc=arc), NOWHERE)
    assert groups_K.tolist() == [0] * 6
    _, server = load_dataset("digits", NOWHERE)
    official, _ = prepare_setup(run(arc=arc, tested_on="official"), NOWHERE)
    turned_K = [turn_images(server, arc * client / 6).images for client in range(6)]
    for client, turned in zip(official.clients, turned_K, strict=True):
        assert np.array_equal(client.test.images, turned)
    is_as_KN = np.array([(setup.server_set.images == turned).all(axis=(1, 2, 3)) for turned in turned_K])
    assert is_as_KN.any(axis=0).all()
    assert all(count in (59, 60) for count in is_as_KN.sum(axis=1)), "355 images"


@pytest.mark.parametrize(("key", "value"), [("num_clusters", 2), ("alpha", 0.5), ("arc", 0), ("arc", 361)])
def test_settings_without_effect_or_sense_are_refused(key, value):
    with pytest.raises(ConfigError, match=rf"split\.{key} = {value}"):
        prepare_setup(run(**{key: value}), NOWHERE)
