"""What clients train on and what they are scored on, in a run and in a search."""

import numpy as np
import pytest

from fedgrid.engine.partition.deal import split_pool
from fedgrid.engine.partition.holdouts import common_test, cut, share_of
from fedgrid.engine.partition.settings import Split

LABELS = np.repeat(np.arange(10), 60)
KINDS = [("overlapping", "published"), ("overlapping", "none"), ("majority", "published")]
EVERYWHERE = pytest.mark.parametrize(("overlap", "test_leakage"), KINDS)


def deal(overlap, scored_on, test_leakage, seed=0):
    options = {"num_clusters": 2, "scored_on": scored_on, "test_leakage": test_leakage}
    return split_pool(
        LABELS,
        dataset="digits",
        num_classes=10,
        overlap=overlap,
        balance="balanced",
        num_clients=10,
        split=Split(**options),
        seed=seed,
    )


@pytest.mark.parametrize(
    ("count", "share", "expected"), [(10, 0.3, 3), (11, 0.3, 4), (30, 0.1, 3), (1, 0.3, 1)]
)
def test_the_test_share_is_rounded_up_as_a_decimal(count, share, expected):
    assert share_of(count, share) == expected


def test_cut():
    held = np.arange(100, 111)
    train, test = cut(np.random.default_rng(0), held, 0.3)
    assert (len(train), len(test)) == (7, 4)
    assert sorted([*train, *test]) == held.tolist()


def test_the_common_test_is_a_share_of_each_class_and_never_all_of_it():
    """30 % rounded up of 10, 3 and 1 images would be 3, 1 and 1; the single image stays for training."""
    positions = [np.arange(10), np.arange(10, 13), np.array([13])]
    is_test = common_test(positions, 0.3, np.random.default_rng(0))
    assert [is_test[part].sum() for part in positions] == [3, 1, 0]


@EVERYWHERE
def test_a_search_cuts_the_training_images_that_the_run_would_have(overlap, test_leakage):
    """So it draws what the run draws, and leaves every client's own test images alone."""
    for run, search in zip(
        deal(overlap, "test", test_leakage), deal(overlap, "validation", test_leakage), strict=True
    ):
        assert (search.client, search.cluster) == (run.client, run.cluster)
        assert sorted([*search.train, *search.test]) == run.train.tolist()
        assert search.train.dtype == search.test.dtype == np.int64


@EVERYWHERE
def test_the_second_cut_is_as_large_a_share_as_the_first(overlap, test_leakage):
    """Exactly, rounded up, of each client; cut by image it is 30 % in expectation: of 300 images, 3 sd."""
    run, search = (deal(overlap, scored_on, test_leakage) for scored_on in ("test", "validation"))
    if test_leakage == "none":
        of_all = sum(len(part.train) for part in run)
        wide = 3 * np.sqrt(of_all * 0.3 * 0.7)
        assert sum(len(part.test) for part in search) == pytest.approx(0.3 * of_all, abs=wide)
    else:
        assert [len(part.test) for part in search] == [share_of(len(part.train), 0.3) for part in run]


@pytest.mark.parametrize(("overlap", "test_leakage"), KINDS[1:])
def test_without_leakage_a_search_sees_no_test_image_of_anybody(overlap, test_leakage):
    """And nobody trains on what anybody is scored on."""
    run, search = (deal(overlap, scored_on, test_leakage) for scored_on in ("test", "validation"))
    tested, trained, scored = (
        {int(position) for part in parts for position in getattr(part, name)}
        for parts, name in ((run, "test"), (search, "train"), (search, "test"))
    )
    assert not tested & (trained | scored)
    assert not trained & scored


def test_the_second_cut_depends_on_the_seed_alone():
    first, again, other = (deal("majority", "validation", "published", seed) for seed in (1, 1, 2))
    assert [part.test.tolist() for part in first] == [part.test.tolist() for part in again]
    assert [part.test.tolist() for part in first] != [part.test.tolist() for part in other]
