"""Dirichlet shares of each class among clients: Yurochkin et al. 2019, as in FLIS and Prigent et al."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.dirichlet import MIN_IMAGES, deal_by_shares, draw_valid_counts
from tests.helpers.partitions import deal_labels

LABELS = np.repeat(np.arange(5), 200)
POSITIONS_L = [np.flatnonzero(label == LABELS) for label in range(5)]


def deal(*, clients=8, **options):
    return deal_labels(LABELS, "dirichlet", clients, **{"alpha": 0.1, **options})


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 10), st.sampled_from([0.3, 1.0, 100.0]), st.integers(0, 99))
def test_every_image_has_one_client_and_every_client_ten(clients, alpha, seed):
    held_K = deal_by_shares(POSITIONS_L, clients, alpha, np.random.default_rng(seed))
    assert np.array_equal(np.sort(np.concatenate(held_K)), np.arange(len(LABELS)))
    assert min(map(len, held_K)) >= MIN_IMAGES
    assert all((np.diff(held) > 0).all() for held in held_K)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(1, 9), st.integers(0, 99))
def test_without_alpha_no_two_clients_differ_by_more_than_an_image(sizes, clients, seed):
    """Of a class, and altogether."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    positions_L = [np.flatnonzero(labels == label) for label in range(len(sizes))]
    held_K = deal_by_shares(positions_L, clients, None, np.random.default_rng(seed))
    counts_KL = np.stack([np.bincount(labels[held], minlength=len(sizes)) for held in held_K])
    assert np.ptp(counts_KL, axis=0).max() <= 1
    assert np.ptp(counts_KL.sum(axis=1)) <= 1
    assert np.array_equal(np.sort(np.concatenate(held_K)), np.arange(len(labels)))


def test_a_client_with_its_fair_share_gets_nothing_of_later_classes():
    """Two clients, classes of 30 and 30: whoever holds 30 or more of the first class is passed over."""
    seen = 0
    for seed in range(50):
        counts_LK = draw_valid_counts([30, 30], 2, 0.5, np.random.default_rng(seed))
        for client in np.flatnonzero(counts_LK[0] >= 30):
            seen += 1
            assert counts_LK[1].tolist() == [0 if each == client else 30 for each in range(2)]
    assert seen


def test_smaller_alpha_gives_clients_fewer_classes():
    few, all_classes = (
        np.mean([len(np.unique(LABELS[part.train])) for part in deal(alpha=alpha)]) for alpha in (0.1, 100)
    )
    assert few < all_classes == 5


def test_draws_are_alike_for_a_seed_alone_and_clients_are_one_group():
    drawn = [[part.train.tolist() for part in deal(seed=seed)] for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert {part.cluster for part in deal()} == {0}


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        # Three of eight clients at least get nothing when every class has a single client.
        ({"alpha": 1e-9}, "alpha", "none of 1000 draws gives each of 8 clients at least 10"),
        ({"alpha": None}, "alpha", "split.alpha = null: split dirichlet needs a number above 0"),
        ({"clients": 101}, "clients", "clients = 101: .* needs 10 of 1000 images; take at most 100"),
    ],
    ids=str,
)
def test_what_has_no_draw_is_refused(changes, key, message):
    with pytest.raises(ConfigError, match=message) as raised:
        deal(**changes)
    assert raised.value.key[-1] == key
