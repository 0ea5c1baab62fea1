"""Images of each client, and their cut into training and test set."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.dealing.holdouts import round_share
from fedgrid.engine.federation.dealing.kinds import KINDS
from fedgrid.engine.federation.dealing.split import compute_mean_share, reduce_quantity
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.kind import ImagePool
from fedgrid.engine.federation.partition.scenarios import compute_class_sets, compute_cluster_sizes
from fedgrid.engine.federation.partition.settings import Split
from tests.helpers.partitions import Held, deal_labels, find_leakage

LABELS = np.repeat(np.arange(10), 60)
"""A pool of 600 images, 60 of each class, ordered by class."""


def deal(split="nonoverlapping-balanced", clients=6, **options):
    return deal_labels(LABELS, split, clients, **options)


def as_lists(splits):
    return [(part.client, part.cluster, part.train.tolist(), part.test.tolist()) for part in splits]


def test_positions_of_a_pool_are_listed_by_class():
    pool = ImagePool.from_images(ImageSet(np.empty((0, 1, 1, 1), np.uint8), np.array([1, 0, 1, 2])), 3)
    assert [part.tolist() for part in pool.positions_L] == [[1], [0, 2], [3]]


def test_leakage_counts_test_images_that_others_train_on():
    """Others train on one of the two test images of client 0 and the one of client 1: (1/2 + 1) / 2."""
    splits = [
        Held(0, 0, np.array([0, 3]), np.array([1, 2])),
        Held(1, 0, np.array([1]), np.array([0])),
    ]
    assert find_leakage(splits) == 0.75


class TestQuantity:
    def test_clients_keep_shares_of_their_images_log_uniform_between_the_least_and_all(self):
        """The mean of 0.1 to 1 is 0.9 / ln 10 = 0.391, of 2,000 draws known to 0.02."""
        held, rngs = np.arange(1000), [np.random.default_rng(seed) for seed in range(2000)]
        counts = [len(reduce_quantity(held, Split(quantity=0.1), rng)) for rng in rngs]
        assert min(counts) >= 100
        assert max(counts) <= 1000
        assert np.mean(counts) / 1000 == pytest.approx(compute_mean_share(0.1), abs=0.02)
        assert np.median(counts) / 1000 == pytest.approx(0.1**0.5, abs=0.03)

    def test_what_is_kept_is_some_of_the_images_in_order_and_two_at_least(self):
        rng = np.random.default_rng(0)
        assert reduce_quantity(np.array([3, 5, 9]), Split(quantity=1e-9), rng).tolist() in (
            [3, 5],
            [3, 9],
            [5, 9],
        )
        assert reduce_quantity(np.array([7]), Split(quantity=0.5), rng).tolist() == [7]

    @pytest.mark.parametrize("split", ["nonoverlapping-balanced", "rotated"])
    def test_each_client_holds_a_part_of_what_it_held(self, split):
        alpha = Split(kind=split, **KINDS[split].DEFAULTS).alpha
        options = {"split": split, "alpha": alpha, "num_clusters": 2}
        plain, skewed = deal(**options), deal(**options, quantity=0.2)
        for one, two in zip(plain, skewed, strict=True):
            assert set(two.positions) <= set(one.positions)
        assert len({len(part.train) for part in skewed}) > 3


class TestSplitPool:
    @settings(max_examples=30, deadline=None)
    @given(
        st.sampled_from(["overlapping", "nonoverlapping"]),
        st.sampled_from(["balanced", "imbalanced"]),
        st.integers(3, 12),
        st.integers(1, 3),
        st.integers(0, 1000),
    )
    def test_every_client_holds_unique_images_of_its_group(
        self, overlap, balance, clients, num_clusters, seed
    ):
        splits = deal(
            split=f"{overlap}-{balance}",
            clients=clients,
            num_clusters=num_clusters,
            seed=seed,
            test_leakage="published",
        )
        sets = compute_class_sets(10, num_clusters, overlap)
        assert [part.client for part in splits] == list(range(clients))
        clusters = [part.cluster for part in splits]
        assert tuple(np.bincount(clusters)) == compute_cluster_sizes(clients, num_clusters, balance)
        assert clusters == sorted(clusters)
        for part in splits:
            held = part.positions
            assert held.dtype == np.int64
            assert len(np.unique(held)) == len(held) <= 600 // clients
            assert len(part.test) == round_share(len(held), 0.3)
            assert set(LABELS[held]) <= set(sets[part.cluster])

    def test_split_depends_only_on_its_arguments(self):
        assert as_lists(deal(seed=3)) == as_lists(deal(seed=3))
        assert as_lists(deal(seed=3)) != as_lists(deal(seed=4))

    def test_data_set_but_not_its_path_changes_the_draws(self):
        assert as_lists(deal(dataset="digits")) != as_lists(deal(dataset="mnist"))
        assert as_lists(deal(dataset="folder:/here")) == as_lists(deal(dataset="folder:/there"))

    def test_clients_of_one_cluster_hold_different_images(self):
        first, second, *_ = deal()
        assert first.cluster == second.cluster
        assert set(first.train) != set(second.train)

    def test_draws_override_the_clients_share_of_the_pool(self):
        assert max(len(part.positions) for part in deal(draws=9)) <= 9
        assert max(len(part.positions) for part in deal()) > 9

    def test_published_splits_leak_and_the_default_does_not(self):
        """Two clients a cluster of 180 or 240 images draw 100 each: the other one holds 1 - exp(-100/200) of
        a client's test images, and trains on 70 % of what it holds: 0.28."""
        assert find_leakage(deal(test_leakage="published")) == pytest.approx(0.28, abs=0.06)
        for split in ("overlapping-balanced", "nonoverlapping-balanced"):
            assert find_leakage(deal(split=split)) == 0.0

    def test_leakage_setting_does_not_change_the_images_of_a_client(self):
        """Only the cut differs, so sizes agree in expectation: 30 % of about 500 images, within 3 sd."""
        leaking, clean = deal(test_leakage="published"), deal()
        for one, other in zip(leaking, clean, strict=True):
            assert one.positions.tolist() == other.positions.tolist()
        sizes = [sum(len(part.test) for part in splits) for splits in (leaking, clean)]
        assert sizes[1] == pytest.approx(sizes[0], abs=3 * np.sqrt(500 * 0.3 * 0.7))

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"draws": 1, "test_leakage": "published"}, "client 0 would hold 0 training and 1 test images"),
            ({"draws": 1}, "needs at least one of each"),
            ({"clients": 601}, "601 clients cannot share 600 images"),
        ],
        ids=str,
    )
    def test_client_without_training_or_test_images_is_refused(self, changes, message):
        with pytest.raises(ConfigError, match=message):
            deal(**changes)
