"""Rotated (Ghosh et al. 2020), flipped (Prigent et al. 2024) and swapped groups (Sattler et al. 2021)."""

from pathlib import Path

import numpy as np
import pytest

from fedgrid.engine.federation.before_training.setup import deal_images
from fedgrid.engine.federation.data.dataset import Facts
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.dealing.kinds import KINDS
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import Inputs, image_inputs
from fedgrid.engine.federation.partition.scenarios import Scenario
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.partition.shifted import (
    add_noise,
    dim_images,
    flip_labels,
    roll_values,
    rotate_images,
    swap_and_rotate,
    swap_labels,
)
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data.datasets import load_dataset
from fedgrid.engine.runtime.run.prepare import prepare_setup
from tests.helpers.partitions import list_held

NOWHERE = Path("no-data-needed")
SHIFTED = ("rotated", "rolled", "flipped", "swapped", "dimmed", "noisy", "two-levels")

CORNER = ImageSet(np.array([[[[1, 2], [3, 4]]]], np.uint8), np.array([1]))
"""One image with 1 in its upper left corner."""
NUM_CLASSES = 10
TEN = ImageSet(np.arange(10, dtype=np.uint8).reshape(10, 1, 1, 1), np.arange(10))
"""One image of each of ten classes."""

SQUARE, OBLONG = image_inputs(1, 28, 28), image_inputs(3, 28, 32)


def facts(inputs=SQUARE):
    return Facts(num_classes=10, inputs=inputs, pool_size=1000)


def run(kind, *, clients=6, **split):
    return complete_config(
        {"split": {"kind": kind, **split}, "clients": clients, "algorithm": "fedavg"}, NOWHERE
    )


def test_groups_turn_images_anticlockwise():
    turned = [rotate_images(CORNER, group, 4, 10).images[0, 0].tolist() for group in range(4)]
    assert turned == [[[1, 2], [3, 4]], [[2, 4], [1, 3]], [[4, 3], [2, 1]], [[3, 1], [4, 2]]]
    assert [rotate_images(CORNER, group, 3, 10).images[0, 0].tolist() for group in range(3)] == turned[:3]
    assert [rotate_images(CORNER, group, 2, 10).images[0, 0].tolist() for group in range(2)] == turned[::2]
    assert rotate_images(CORNER, 1, 4, 10).images.flags.c_contiguous


def test_groups_flip_labels_round_the_ring_of_classes():
    """Prigent: label <- (label - s) mod 10 for group s."""
    assert flip_labels(TEN, 0, 4, 10).labels.tolist() == list(range(10))
    assert flip_labels(TEN, 3, 4, 10).labels.tolist() == [7, 8, 9, 0, 1, 2, 3, 4, 5, 6]


def test_each_group_exchanges_two_labels_of_its_own():
    assert [swap_labels(TEN, group, 2, 10).labels.tolist()[:4] for group in range(2)] == [
        [1, 0, 2, 3],
        [0, 1, 3, 2],
    ]
    for group in range(5):
        twice = swap_labels(swap_labels(TEN, group, 5, 10), group, 5, 10)
        assert np.array_equal(twice.labels, TEN.labels)


def test_fine_groups_exchange_labels_and_the_second_half_is_upside_down():
    changed = [swap_and_rotate(CORNER, group, 4, 10) for group in range(4)]
    assert [held.labels.tolist() for held in changed] == [[0], [1], [0], [1]]
    assert [held.images.ravel().tolist() for held in changed] == [[1, 2, 3, 4]] * 2 + [[4, 3, 2, 1]] * 2
    labels = [swap_and_rotate(TEN, group, 4, 10).labels.tolist()[:4] for group in range(4)]
    assert labels == [[1, 0, 2, 3], [0, 1, 3, 2]] * 2


def test_groups_dim_their_images():
    assert [dim_images(CORNER, group, 4, 10).images.ravel().tolist() for group in range(4)] == [
        [1, 2, 3, 4],
        [1, 2, 2, 3],
        [0, 1, 2, 2],
        [0, 0, 1, 1],
    ]


def test_noise_has_the_groups_deviation_and_depends_on_the_image_alone():
    """255 g / 2 G: of two groups the second has 63.75; far from 0 and 255 nothing is cut off."""
    images = np.full((200, 1, 30, 30), 127, np.uint8)
    images[:, 0, 0, 0] = np.arange(200)
    held = ImageSet(images, np.zeros(200, np.int64))
    assert add_noise(held, 0, 2, 10) is held
    noisy = add_noise(held, 1, 4, 10)
    added = noisy.images[:, 0, 1:].astype(float) - 127
    assert added.std() == pytest.approx(255 / 8, rel=0.01)
    assert abs(added.mean()) < 0.5
    assert len(np.unique(noisy.images.reshape(200, -1), axis=0)) == 200
    some = add_noise(held.take(np.array([7, 3])), 1, 4, 10)
    assert np.array_equal(some.images, noisy.images[[7, 3]])
    assert add_noise(held.take(slice(0, 0)), 1, 4, 10).images.shape == (0, 1, 30, 30)


def test_clients_are_in_groups_in_turn_or_by_sizes_and_hold_every_image_once():
    pair = load_dataset("digits", NOWHERE)
    parts, by_sizes = (
        list_held(deal_images(run("rotated", sizes=sizes), pair, NUM_CLASSES))
        for sizes in (None, [3, 1, 1, 1])
    )
    assert [part.cluster for part in parts] == [0, 1, 2, 3, 0, 1]
    assert [part.cluster for part in by_sizes] == [0, 0, 0, 1, 2, 3]
    assert all(np.array_equal(one.train, two.train) for one, two in zip(parts, by_sizes, strict=True))
    held = np.concatenate([part.positions for part in parts])
    assert np.array_equal(np.sort(held), np.arange(len(pair[0])))


@pytest.mark.parametrize("split", SHIFTED)
@pytest.mark.parametrize("tested_on", ["own", "official"])
def test_training_and_test_images_have_their_groups_transform(split, tested_on):
    config = run(split, tested_on=tested_on)
    pool, server = load_dataset("digits", NOWHERE)
    setup, groups_K = prepare_setup(config, NOWHERE)
    partition = deal_images(config, (pool, server), NUM_CLASSES)
    for part, client in zip(list_held(partition), setup.clients, strict=True):
        tested = (server if tested_on == "official" else pool).take(part.test)
        for before, after in ((pool.take(part.train), client.train), (tested, client.test)):
            expected = KINDS[split].TRANSFORM(before, int(groups_K[part.client]), 4, 10)
            assert np.array_equal(after.images, expected.images)
            assert np.array_equal(after.labels, expected.labels)


@pytest.mark.parametrize("split", ["rotated", "flipped"])
def test_the_server_holds_an_equal_share_of_each_groups_images(split):
    """Each image as one of the groups has it; which, is seeded."""
    _, server = load_dataset("digits", NOWHERE)
    config = run(split, num_clusters=2)
    mixture = prepare_setup(config, NOWHERE)[0].server_set
    as_group = [KINDS[split].TRANSFORM(server, group, 2, 10) for group in range(2)]
    is_as_NG = np.stack(
        [
            (mixture.images == each.images).all(axis=(1, 2, 3)) & (mixture.labels == each.labels)
            for each in as_group
        ],
        axis=1,
    )
    assert is_as_NG.any(axis=1).all()
    only_N = is_as_NG[is_as_NG.sum(axis=1) == 1]
    assert len(only_N) > 50
    assert abs(int(only_N[:, 0].sum()) - int(only_N[:, 1].sum())) < 0.2 * len(only_N)
    again = prepare_setup(config, NOWHERE)[0].server_set
    assert np.array_equal(mixture.images, again.images)
    assert np.array_equal(mixture.labels, again.labels)


def test_a_single_group_is_the_data_set_itself():
    setup, groups_K = prepare_setup(run("flipped", num_clusters=1), NOWHERE)
    _, server = load_dataset("digits", NOWHERE)
    assert set(groups_K.tolist()) == {0}
    assert np.array_equal(setup.server_set.images, server.images)
    assert np.array_equal(setup.server_set.labels, server.labels)


def test_reference_images_are_a_mixture_and_in_no_test_set():
    """Labels apart, flipped images are as they are, so that they can be told by their pixels."""
    config = run("flipped", tested_on="official", reference_images=40)
    setup, _ = prepare_setup(config, NOWHERE)
    _, server = load_dataset("digits", NOWHERE)
    reference = {image.tobytes() for image in setup.reference_set.images}
    tests = {image.tobytes() for client in setup.clients for image in client.test.images}
    tests |= {image.tobytes() for image in setup.server_set.images}
    assert len(setup.reference_set) == 40
    assert len({image.tobytes() for image in server.images}) == len(server), (
        "else images cannot be told apart"
    )
    assert not reference & tests
    assert len(reference | tests) == len(server)


@pytest.mark.parametrize(
    ("split", "groups", "inputs", "says"),
    [
        ("rotated", 5, SQUARE, "turns by quarters .* take at most 4"),
        ("rotated", 3, OBLONG, "turns images by 90 degrees, these are 3x28x32; make them square"),
        ("flipped", 11, SQUARE, ".* take at most 10"),
        ("swapped", 6, SQUARE, ".* take at most 5"),
        ("two-levels", 3, SQUARE, ".* take an even number"),
        ("two-levels", 12, SQUARE, ".* take at most 10"),
        ("rolled", 5, Inputs("numbers", (2, 4)), "moves 4 values by whole places; take at most"),
    ],
)
def test_impossible_numbers_of_groups_are_refused(split, groups, inputs, says):
    scenario = Scenario("digits", split, 20)
    KINDS[split].check_settings(scenario, facts(inputs), Split(num_clusters=2), 0)
    with pytest.raises(ConfigError, match=f"split.num_clusters = {groups}: split {split} {says}") as raised:
        KINDS[split].check_settings(scenario, facts(inputs), Split(num_clusters=groups), 0)
    assert raised.value.key == ("split", "num_clusters")


def test_fewer_clients_than_groups_are_refused():
    with pytest.raises(ConfigError, match="clients = 3: .* has 4 hidden groups; take at least 4"):
        KINDS["rotated"].check_settings(Scenario("digits", "rotated", 3), facts(), Split(num_clusters=4), 0)


def test_rolled_series_are_moved_round_their_end():
    series = ImageSet(np.arange(8, dtype=np.float32).reshape(1, 2, 4), np.array([0]))
    assert roll_values(series, 1, 2, 10).images.tolist() == [[[2, 3, 0, 1], [6, 7, 4, 5]]]


def test_alpha_makes_clients_differ():
    sizes = [
        [len(client.train) for client in prepare_setup(run("rotated", **split), NOWHERE)[0].clients]
        for split in ({}, {"alpha": 1.0})
    ]
    assert np.ptp(sizes[0]) <= 2 < np.ptp(sizes[1])
