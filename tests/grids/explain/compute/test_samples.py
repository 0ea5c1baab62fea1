"""Which images are drawn, and which of them a member of the cluster trains on."""

import numpy as np
import pytest

from fedgrid.engine.federation.data.partition import Partition
from fedgrid.grids.explain.compute.samples import SampleSource, draw_samples
from fedgrid.grids.explain.compute.settings import ExplanationSettings


def split(*clients, **given):
    """Return a partition of what each client trains on and is tested on."""
    train_K, test_K = ([np.array(part) for part in parts] for parts in zip(*clients, strict=True))
    return Partition([0] * len(clients), train_K, test_K, **given)


LEAKY = split(([1, 2, 3], [10, 11]), ([10, 4, 5], [1, 12]), ([11, 12], [2, 3]))
"""Client 1 trains on a test image of client 0, client 0 on one of client 1 and both of client 2's."""


def drawn(splits, labels, on="members", images=2, seed=7, run_id="", **settings):
    source = SampleSource(splits, np.array(labels), 5, seed, run_id)
    return draw_samples(ExplanationSettings(on=on, round=1, images=images, **settings), source)


def seen(sample, splits):
    """Return the pool's positions of the images that a member trains on."""
    each = zip(sample.holder_N, sample.place_N, sample.trained_on_N, strict=True)
    return {int(splits.test_K[holder][place]) for holder, place, trained_on in each if trained_on}


def test_image_that_another_member_trains_on_is_flagged():
    together = drawn(LEAKY, [0, 0, 1])
    assert [seen(sample, LEAKY) for sample in together] == [{10}, {1}, set()]
    assert [seen(sample, LEAKY) for sample in drawn(LEAKY, [0, 1, 2])] == [set(), set(), set()]


def test_image_of_another_client_that_a_member_trains_on_is_flagged_too():
    of_first = drawn(LEAKY, [0, 1, 2], "others", images=4)[0]
    assert seen(of_first, LEAKY) == {1, 2, 3}


def test_official_and_server_images_are_never_flagged():
    official = split(([0, 1], [0, 1]), ([2], [0, 1]), is_official=True)
    assert not any(sample.trained_on_N.any() for sample in drawn(official, [0, 0]))
    assert not any(sample.trained_on_N.any() for sample in drawn(LEAKY, [0, 0, 0], "server"))


def test_fewer_images_are_the_first_of_more():
    few, many = drawn(LEAKY, [0, 0, 0], "server", 2), drawn(LEAKY, [0, 0, 0], "server", 4)
    for one, other in zip(few, many, strict=True):
        assert one.place_N.tolist() == other.place_N[:2].tolist()


@pytest.mark.parametrize(("on", "is_paired"), [("members", False), ("server", True)])
def test_as_published_only_the_servers_images_are_those_of_other_runs(on, is_paired):
    splits = split(([0], list(range(1, 41))), ([0], list(range(41, 81))))
    places = [
        drawn(splits, [0, 0], on, 5, run_id=run, as_published=True)[0].place_N.tolist() for run in ("a", "b")
    ]
    assert (places[0] == places[1]) == is_paired
