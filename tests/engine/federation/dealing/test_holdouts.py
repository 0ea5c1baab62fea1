"""Training, test and validation images of clients."""

import numpy as np
import pytest

from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.data.partition import Partition
from fedgrid.engine.federation.dealing.holdouts import (
    build_group_sets,
    build_server_sets,
    choose_common_tests,
    cut_at_random,
    cut_by_subject,
    draw_server_subset,
    round_share,
)
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.kind import Changes
from fedgrid.engine.federation.partition.settings import Split
from tests.helpers.partitions import deal_labels, list_held

NUM_IMAGES = 20
SERVER = ImageSet(np.arange(NUM_IMAGES, dtype=np.uint8).reshape(-1, 1, 1, 1), np.arange(NUM_IMAGES) % 3)
"""Image i has the pixel i."""


def pixels(held):
    return held.images.flatten().tolist()


def test_server_subset_is_seeded_and_nested():
    ten, twelve, other = (draw_server_subset(SERVER, n, seed) for n, seed in ((10, 0), (12, 0), (10, 1)))
    assert len({*pixels(ten)}) == 10
    assert pixels(ten) == pixels(twelve)[:10] != pixels(other)
    assert ten.labels.tolist() == [pixel % 3 for pixel in pixels(ten)]
    assert draw_server_subset(SERVER, None, 0) is SERVER


@pytest.mark.parametrize("server_images", [None, 7])
def test_reference_images_are_in_no_test_set(server_images):
    test_set, reference_set = build_server_sets(
        SERVER, Split(reference_images=5, server_images=server_images), 3
    )
    assert (len(reference_set), len(test_set)) == (5, server_images or 15)
    assert len({*pixels(reference_set), *pixels(test_set)}) == 5 + len(test_set)
    for held in (reference_set, test_set):
        assert held.labels.tolist() == [pixel % 3 for pixel in pixels(held)]


def test_without_reference_images_the_test_set_is_a_subset():
    test_set, reference_set = build_server_sets(SERVER, Split(server_images=7), seed=3)
    assert pixels(test_set) == pixels(draw_server_subset(SERVER, 7, 3))
    assert reference_set is None


def test_reference_images_depend_on_the_seed_alone():
    drawn = [pixels(build_server_sets(SERVER, Split(reference_images=5), seed)[1]) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_one_image_to_test_on_is_enough():
    test_set, reference_set = build_server_sets(SERVER, Split(reference_images=NUM_IMAGES - 1), 0)
    assert (len(test_set), len(reference_set)) == (1, NUM_IMAGES - 1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"reference_images": NUM_IMAGES}, ("split.reference_images", "20", "19")),
        ({"server_images": NUM_IMAGES + 1}, ("split.server_images 21", "20 images")),
    ],
)
def test_more_images_than_there_are_are_refused_by_key(given, words):
    with pytest.raises(ConfigError) as error:
        build_server_sets(SERVER, Split(**given), 0)
    assert [word for word in words if word not in str(error.value)] == []


def test_texts_of_groups_keep_their_vocabulary():
    texts = ImageSet(np.array([[0, 1], [2, 2]]), np.arange(2), vocabulary=5, padding=0)
    rolled = Changes(2, lambda held, group: held)
    assert build_group_sets(texts, Split(), 0, rolled)[0].inputs == texts.inputs


LABELS = np.repeat(np.arange(10), 60)
KINDS = [("overlapping-balanced", "published"), ("overlapping-balanced", "none"), ("majority", "published")]


def deal(split, scored_on, test_leakage, seed=0):
    options = {"num_clusters": 2, "scored_on": scored_on, "test_leakage": test_leakage}
    return deal_labels(LABELS, split, 10, seed=seed, **options)


@pytest.mark.parametrize(
    ("count", "share", "expected"), [(10, 0.3, 3), (11, 0.3, 4), (30, 0.1, 3), (1, 0.3, 1)]
)
def test_the_test_share_is_rounded_up_as_a_decimal(count, share, expected):
    assert round_share(count, share) == expected


def test_cut_separates_train_and_test():
    held = np.arange(100, 111)
    train, test = cut_at_random(np.random.default_rng(0), held, 0.3)
    assert (len(train), len(test)) == (7, 4)
    assert sorted([*train, *test]) == held.tolist()


def test_common_test_never_takes_a_whole_class():
    """30 % rounded up of 10, 3 and 1 images would be 3, 1 and 1; the single image stays for training."""
    positions = [np.arange(10), np.arange(10, 13), np.array([13])]
    is_test = choose_common_tests(positions, 0.3, np.random.default_rng(0))
    assert [is_test[part].sum() for part in positions] == [3, 1, 0]


@pytest.mark.parametrize(("split", "test_leakage"), KINDS)
def test_validation_is_cut_from_the_training_images_of_the_run_by_the_same_share(split, test_leakage):
    """A search holds the same images as the run, and does not use the clients' own test images.

    Exactly 30 %, rounded up, of each client; if cut by image, 30 % in expectation, within 3 sd.
    """
    run, search = (deal(split, scored_on, test_leakage) for scored_on in ("test", "validation"))
    for before, after in zip(run, search, strict=True):
        assert (after.client, after.cluster) == (before.client, before.cluster)
        assert after.positions.tolist() == before.train.tolist()
        assert after.train.dtype == after.test.dtype == np.int64
    if test_leakage == "none":
        of_all = sum(len(part.train) for part in run)
        wide = 3 * np.sqrt(of_all * 0.3 * 0.7)
        assert sum(len(part.test) for part in search) == pytest.approx(0.3 * of_all, abs=wide)
    else:
        assert [len(part.test) for part in search] == [round_share(len(part.train), 0.3) for part in run]


@pytest.mark.parametrize(("split", "test_leakage"), KINDS[1:])
def test_without_leakage_validation_uses_no_test_image_of_any_client(split, test_leakage):
    """No client trains on an image that any client is scored on."""
    run, search = (deal(split, scored_on, test_leakage) for scored_on in ("test", "validation"))
    tested, trained, scored = (
        {int(position) for part in parts for position in getattr(part, name)}
        for parts, name in ((run, "test"), (search, "train"), (search, "test"))
    )
    assert not tested & (trained | scored)
    assert not trained & scored


def test_validation_cut_depends_only_on_the_seed():
    first, again, other = (deal("majority", "validation", "published", seed) for seed in (1, 1, 2))
    assert [part.test.tolist() for part in first] == [part.test.tolist() for part in again]
    assert [part.test.tolist() for part in first] != [part.test.tolist() for part in other]


def sides(held_K, subjects_N, before=None, **settings):
    """Return the subjects that each client trains on, and those that it is scored on."""
    rngs = [np.random.default_rng(client) for client in range(len(held_K))]
    held_K = [np.array(held) for held in held_K]
    subjects_N = np.array(subjects_N)
    dealt = Partition([0] * len(held_K), held_K)
    cut_K = list_held(cut_by_subject(dealt, rngs, subjects_N, Split(**settings), 0, "s", before))
    for held, (_, _, train, test) in zip(held_K, cut_K, strict=True):
        assert np.intersect1d(train, test).size == 0
        assert set(train) | set(test) <= set(held)
    return [tuple(set(subjects_N[part].tolist()) for part in (one.train, one.test)) for one in cut_K]


def test_a_share_of_each_clients_subjects_is_tested_whole():
    """30 % of 5 subjects, rounded up, are 2; of 2 subjects one."""
    of_first, of_second = sides([range(10), range(10, 16)], [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5, 6, 6, 6])
    assert [len(part) for part in (*of_first, *of_second)] == [3, 2, 1, 1]
    assert of_first[0] | of_first[1] == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("scored_on", ["test", "validation"])
def test_no_client_trains_on_a_subject_that_any_client_is_scored_on(scored_on):
    subjects = np.arange(300) % 60
    held_K = np.array_split(np.random.default_rng(0).permutation(300), 6)
    trained, scored = (
        set().union(*parts) for parts in zip(*sides(held_K, subjects, scored_on=scored_on), strict=True)
    )
    assert trained
    assert scored
    assert not trained & scored


def test_a_client_that_moves_keeps_to_the_sides_of_those_that_stay():
    before = Partition([0], [np.array([0, 1])], [np.array([2])])
    [(trained, scored)] = sides([[0, 2]], [0, 1, 2, 3], before)
    assert (trained, scored) == ({0}, {2})


def test_a_client_of_one_subject_is_refused():
    with pytest.raises(ConfigError, match="client 1 has rows of 1 subjects, .*leave the column subject out"):
        sides([[0, 1], [2, 3]], [0, 1, 2, 2])


def test_clients_that_are_tested_on_official_images_are_not_cut_by_subject():
    assert sides([[0, 1]], [0, 0], tested_on="official") == [({0}, set())]
