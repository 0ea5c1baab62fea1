"""Dirichlet shares of each class among clients: facts/BASELINES.md section 10 (FLIS, Prigent)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.dirichlet import LEAST_IMAGES, counts_of_draw, deal_out
from fedgrid.engine.federation.partition.settings import Split
from tests.helpers.partitions import split_pool

LABELS = np.repeat(np.arange(5), 200)
POSITIONS_L = [np.flatnonzero(label == LABELS) for label in range(5)]


def deal(*, labels=LABELS, clients=8, seed=0, **options):
    return split_pool(
        labels,
        dataset="digits",
        num_classes=5,
        num_clients=clients,
        split=Split(kind="dirichlet", **{"alpha": 0.1, **options}),
        seed=seed,
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 10), st.sampled_from([0.3, 1.0, 100.0]), st.integers(0, 99))
def test_every_image_has_one_client_and_every_client_ten(clients, alpha, seed):
    held_K = deal_out(POSITIONS_L, clients, alpha, np.random.default_rng(seed))
    assert np.array_equal(np.sort(np.concatenate(held_K)), np.arange(len(LABELS)))
    assert min(map(len, held_K)) >= LEAST_IMAGES
    assert all((np.diff(held) > 0).all() for held in held_K)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(1, 9), st.integers(0, 99))
def test_without_alpha_no_two_clients_differ_by_more_than_an_image(sizes, clients, seed):
    """Of a class, and altogether."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    positions_L = [np.flatnonzero(labels == label) for label in range(len(sizes))]
    held_K = deal_out(positions_L, clients, None, np.random.default_rng(seed))
    counts_KL = np.stack([np.bincount(labels[held], minlength=len(sizes)) for held in held_K])
    assert np.ptp(counts_KL, axis=0).max() <= 1
    assert np.ptp(counts_KL.sum(axis=1)) <= 1
    assert np.array_equal(np.sort(np.concatenate(held_K)), np.arange(len(labels)))


def test_a_client_with_its_fair_share_gets_nothing_of_later_classes():
    """Two clients, classes of 30 and 30: whoever holds 30 or more of the first class is passed over."""
    seen = 0
    for seed in range(50):
        counts_LK = counts_of_draw([30, 30], 2, 0.5, np.random.default_rng(seed))
        for client in np.flatnonzero(counts_LK[0] >= 30):
            seen += 1
            assert counts_LK[1].tolist() == [0 if each == client else 30 for each in range(2)]
    assert seen


def test_smaller_alpha_gives_clients_fewer_classes():
    def classes(alpha):
        parts = deal(alpha=alpha)
        return np.mean([len(np.unique(LABELS[part.train])) for part in parts])

    assert classes(0.1) < classes(100) == 5


def test_draws_are_alike_for_a_seed_alone():
    drawn = [[part.train.tolist() for part in deal(seed=seed)] for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_clients_without_groups_are_one_group():
    assert {part.cluster for part in deal()} == {0}


@pytest.mark.parametrize("alpha", [1e-9, 1e-4])
def test_an_alpha_without_a_valid_draw_ends_in_one_line(alpha):
    """Three of eight clients at least get nothing when every class has a single client."""
    with pytest.raises(ConfigError, match="none of 1000 draws gives each of 8 clients at least 10") as raised:
        deal(alpha=alpha)
    assert raised.value.key == ("split", "alpha")


def test_too_many_clients_are_refused_before_any_draw():
    with pytest.raises(ConfigError, match="clients = 101: .* needs 10 of 1000 images; take at most 100"):
        deal(clients=101)


def test_no_alpha_is_refused():
    with pytest.raises(ConfigError, match="split.alpha = null: split dirichlet needs a number above 0"):
        deal(alpha=None)
