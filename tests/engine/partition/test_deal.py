"""The rule by which images are dealt out: OCFL blueprints, facts/OCFL.md section 1."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrid.engine.data.images import ImageSet
from fedgrid.engine.errors import ConfigError, DataError
from fedgrid.engine.partition.deal import (
    SCENARIOS,
    ClientSplit,
    Scenario,
    class_sets,
    class_shares,
    cluster_sizes,
    draw,
    draws_per_client,
    leakage,
    positions_by_class,
    server_subset,
    sizes_of,
    split_pool,
)
from fedgrid.engine.partition.holdouts import share_of
from fedgrid.engine.partition.settings import Split

LABELS = np.repeat(np.arange(10), 60)
"""A pool of 600 images, 60 of each class, ordered by class."""


def deal(
    labels=LABELS, *, dataset="digits", overlap="nonoverlapping", balance="balanced", clients=6, **options
):
    seed = options.pop("seed", 0)
    return split_pool(
        labels,
        dataset=dataset,
        num_classes=10,
        overlap=overlap,
        balance=balance,
        num_clients=clients,
        split=Split(**options),
        seed=seed,
    )


def as_lists(splits):
    return [(part.client, part.cluster, part.train.tolist(), part.test.tolist()) for part in splits]


class TestClassSets:
    def test_ten_classes_as_published(self):
        assert class_sets(10, 3, "nonoverlapping") == ((0, 1, 2, 3), (4, 5, 6), (7, 8, 9))
        assert class_sets(10, 3, "overlapping") == (
            (0, 1, 2, 3, 8, 9),
            (4, 5, 6, 7, 8, 9),
            (0, 1, 2, 3, 4, 5),
        )

    def test_nine_classes_as_published(self):
        assert class_sets(9, 3, "nonoverlapping") == ((0, 1, 2), (3, 4, 5), (6, 7, 8))
        assert class_sets(9, 3, "overlapping") == ((0, 1, 2, 7, 8), (4, 5, 6, 7, 8), (0, 1, 2, 3, 4, 5))

    def test_eight_classes_as_published(self):
        assert class_sets(8, 3, "nonoverlapping") == ((0, 1), (2, 3, 4), (5, 6, 7))
        assert class_sets(8, 3, "overlapping") == ((0, 1, 2, 6, 7), (3, 4, 5, 6, 7), (0, 1, 2, 3, 4))

    def test_one_cluster_holds_every_class(self):
        assert class_sets(4, 1, "overlapping") == class_sets(4, 1, "nonoverlapping") == ((0, 1, 2, 3),)

    @given(st.data())
    def test_any_number_of_clusters_and_classes_that_can_carry_it(self, data):
        num_classes = data.draw(st.integers(3, 120))
        num_clusters = data.draw(st.integers(2, num_classes))
        tiles = class_sets(num_classes, num_clusters, "nonoverlapping")
        assert sum(tiles, ()) == tuple(range(num_classes))
        assert max(map(len, tiles)) - min(map(len, tiles)) <= 1
        arcs = [set(labels) for labels in class_sets(num_classes, num_clusters, "overlapping")]
        assert set.union(*arcs) == set(range(num_classes))
        for arc in arcs:
            others = [other for other in arcs if other is not arc]
            assert any(arc & other for other in others), "every set shares a class with another"
            assert not any(arc <= other for other in others), "no set lies inside another"

    def test_more_clusters_than_classes(self):
        with pytest.raises(ConfigError, match="4 clusters need at least 4 classes, the data set has 3"):
            class_sets(3, 4, "overlapping")

    def test_two_classes_cannot_overlap(self):
        with pytest.raises(ConfigError, match="cannot overlap on 2 classes"):
            class_sets(2, 2, "overlapping")


class TestClusterSizes:
    @pytest.mark.parametrize(
        ("clients", "balance", "sizes"),
        [
            (15, "balanced", (5, 5, 5)),
            (30, "balanced", (10, 10, 10)),
            (15, "imbalanced", (3, 7, 5)),
            (30, "imbalanced", (7, 14, 9)),
            (16, "balanced", (6, 5, 5)),
            (3, "imbalanced", (1, 1, 1)),
            (100, "imbalanced", (22, 47, 31)),
        ],
    )
    def test_three_clusters(self, clients, balance, sizes):
        assert cluster_sizes(clients, 3, balance) == sizes

    @given(st.integers(1, 80), st.integers(1, 80), st.sampled_from(["balanced", "imbalanced"]))
    def test_every_client_is_in_a_cluster_and_no_cluster_is_empty(self, one, other, balance):
        clients, clusters = max(one, other), min(one, other)
        sizes = cluster_sizes(clients, clusters, balance)
        assert len(sizes) == clusters
        assert sum(sizes) == clients
        assert min(sizes) >= 1

    def test_more_clusters_than_clients(self):
        with pytest.raises(ConfigError, match="3 clusters need at least 3 clients, not 2"):
            cluster_sizes(2, 3, "balanced")

    def test_the_one_published_exception_holds_for_its_three_clusters_only(self):
        scenario = SCENARIOS["bloodmnist-30-overlapping-imbalanced"]
        assert sizes_of(scenario, 3) == (10, 10, 10)
        assert sizes_of(scenario, 2) == cluster_sizes(30, 2, "imbalanced") != (15, 15)
        assert sizes_of(SCENARIOS["bloodmnist-30-nonoverlapping-imbalanced"], 3) == (7, 14, 9)


class TestScenarios:
    def test_the_forty_of_the_paper(self):
        assert len(SCENARIOS) == 40
        assert SCENARIOS["mnist-15-overlapping-imbalanced"] == Scenario(
            "mnist", "overlapping", "imbalanced", 15
        )
        assert all(name == scenario.name for name, scenario in SCENARIOS.items())


class TestClassShares:
    COUNTS = (10, 30, 60, 1, 1, 2, 3, 3, 2, 2)

    def test_balanced_clusters_have_the_pools_own_frequencies(self):
        """Clusters {0,1,2,3}, {4,5,6}, {7,8,9} of 101, 6 and 7 images."""
        shares = class_shares(Scenario("digits", "nonoverlapping", "balanced", 15), self.COUNTS, Split(), 0)
        np.testing.assert_allclose(shares[0], np.array([10, 30, 60, 1]) / 101)
        np.testing.assert_allclose(shares[1], np.array([1, 2, 3]) / 6)
        np.testing.assert_allclose(shares[2], np.array([3, 2, 2]) / 7)

    def test_imbalanced_clusters_draw_theirs_from_the_seed(self):
        scenario = Scenario("digits", "overlapping", "imbalanced", 15)
        first, again, other = (class_shares(scenario, self.COUNTS, Split(), seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(np.concatenate(first), np.concatenate(again))
        assert not np.allclose(np.concatenate(first), np.concatenate(other))
        assert [len(shares) for shares in first] == [6, 6, 6]
        np.testing.assert_allclose([shares.sum() for shares in first], 1)

    def test_a_great_alpha_makes_shares_even(self):
        scenario = Scenario("digits", "nonoverlapping", "imbalanced", 15)
        shares = class_shares(scenario, self.COUNTS, Split(alpha=1e8), 0)
        np.testing.assert_allclose(shares[1], [1 / 3] * 3, atol=1e-3)

    def test_published_shares_are_those_of_the_table_made_to_sum_to_one(self):
        """These three rows of facts/OCFL.md 1.5 sum to 1.000 as they are printed."""
        scenario = SCENARIOS["mnist-15-nonoverlapping-imbalanced"]
        shares = class_shares(scenario, (6000,) * 10, Split(proportions="published"), 5)
        np.testing.assert_allclose(shares[0], [0.039, 0.031, 0.423, 0.507])
        np.testing.assert_allclose(shares[1], [0.488, 0.000, 0.512])
        np.testing.assert_allclose(shares[2], [0.792, 0.182, 0.026])

    @pytest.mark.parametrize("name", [name for name in SCENARIOS if name.endswith("imbalanced")])
    def test_every_imbalanced_scenario_has_published_shares_of_its_class_sets(self, name):
        num_classes = {"pathmnist": 9, "bloodmnist": 8}.get(SCENARIOS[name].dataset, 10)
        shares = class_shares(SCENARIOS[name], (1,) * num_classes, Split(proportions="published"), 0)
        np.testing.assert_allclose([share.sum() for share in shares], [1, 1, 1])

    def test_no_published_shares_names_the_scenarios_that_have_some(self):
        scenario = Scenario("digits", "overlapping", "imbalanced", 15)
        with pytest.raises(
            ConfigError, match="'digits-15-overlapping-imbalanced'.*mnist-15-nonoverlapping-imb"
        ):
            class_shares(scenario, self.COUNTS, Split(proportions="published"), 0)

    def test_published_shares_are_for_three_clusters(self):
        scenario = SCENARIOS["mnist-15-overlapping-imbalanced"]
        with pytest.raises(ConfigError, match="for 3 clusters .* not 2 clusters of 10 classes; take 'drawn'"):
            class_shares(scenario, self.COUNTS, Split(proportions="published", num_clusters=2), 0)


class TestSteps:
    def test_positions_by_class(self):
        positions = positions_by_class(np.array([1, 0, 1, 2]), 3)
        assert [part.tolist() for part in positions] == [[1], [0, 2], [3]]

    def test_a_class_without_images(self):
        with pytest.raises(DataError, match="class 1 has no images in the pool"):
            positions_by_class(np.array([0, 2, 2]), 3)

    @pytest.mark.parametrize("label", [3, -1])
    def test_a_label_that_is_no_class(self, label):
        with pytest.raises(DataError, match=f"label {label} at position 2 .* allowed: 0 to 2"):
            positions_by_class(np.array([0, 1, label, 2]), 3)

    def test_a_client_draws_its_share_of_the_pool(self):
        assert draws_per_client(60000, 30, None) == 2000
        assert draws_per_client(13671, 15, None) == 911
        assert draws_per_client(13671, 15, 40) == 40

    def test_more_clients_than_images(self):
        with pytest.raises(ConfigError, match="8 clients cannot share 7 images"):
            draws_per_client(7, 8, None)

    def test_duplicates_of_a_draw_are_dropped(self):
        """A hundred draws from two images find both (short of once in 2^99) and each is held once."""
        held = draw(np.random.default_rng(0), [np.array([4]), np.array([2])], np.array([0.5, 0.5]), 100)
        assert held.tolist() == [2, 4]

    def test_a_class_without_a_share_is_not_drawn(self):
        held = draw(np.random.default_rng(0), [np.array([0, 1]), np.array([7])], np.array([0.0, 1.0]), 5)
        assert held.tolist() == [7]

    def test_leakage_counts_test_images_that_others_train_on(self):
        """Others train on one of the two test images of client 0 and the one of client 1: (1/2 + 1) / 2."""
        splits = [
            ClientSplit(0, 0, np.array([0, 3]), np.array([1, 2])),
            ClientSplit(1, 0, np.array([1]), np.array([0])),
        ]
        assert leakage(splits) == 0.75


class TestSplitPool:
    @settings(max_examples=30, deadline=None)
    @given(
        st.sampled_from(["overlapping", "nonoverlapping"]),
        st.sampled_from(["balanced", "imbalanced"]),
        st.integers(3, 12),
        st.integers(1, 3),
        st.integers(0, 1000),
    )
    def test_what_always_holds(self, overlap, balance, clients, num_clusters, seed):
        splits = deal(overlap=overlap, balance=balance, clients=clients, num_clusters=num_clusters, seed=seed)
        sets = class_sets(10, num_clusters, overlap)
        assert [part.client for part in splits] == list(range(clients))
        clusters = [part.cluster for part in splits]
        assert tuple(np.bincount(clusters)) == cluster_sizes(clients, num_clusters, balance)
        assert clusters == sorted(clusters)
        for part in splits:
            held = np.concatenate([part.train, part.test])
            assert held.dtype == np.int64
            assert len(np.unique(held)) == len(held) <= 600 // clients
            assert len(part.test) == share_of(len(held), 0.3)
            assert set(LABELS[held]) <= set(sets[part.cluster])

    def test_a_pure_function_of_its_arguments(self):
        assert as_lists(deal(seed=3)) == as_lists(deal(seed=3))
        assert as_lists(deal(seed=3)) != as_lists(deal(seed=4))

    def test_scenarios_draw_independently_but_a_path_is_no_scenario(self):
        assert as_lists(deal(dataset="digits")) != as_lists(deal(dataset="mnist"))
        assert as_lists(deal(dataset="folder:/here")) == as_lists(deal(dataset="folder:/there"))

    def test_clients_of_one_cluster_hold_different_images(self):
        first, second, *_ = deal()
        assert first.cluster == second.cluster
        assert set(first.train) != set(second.train)

    def test_draws_override_the_clients_share_of_the_pool(self):
        held = [len(part.train) + len(part.test) for part in deal(draws=9)]
        assert max(held) <= 9
        assert max(len(part.train) + len(part.test) for part in deal()) > 9

    def test_the_published_rule_leaks_and_none_does_not(self):
        """Two clients a cluster of 180 or 240 images draw 100 each: the other one holds 1 - exp(-100/200) of
        a client's test images, and trains on 70 % of what it holds: 0.28."""
        assert leakage(deal()) == pytest.approx(0.28, abs=0.06)
        for overlap in ("overlapping", "nonoverlapping"):
            assert leakage(deal(overlap=overlap, test_leakage="none")) == 0.0

    def test_without_leakage_a_client_holds_the_very_same_images(self):
        """Only the cut differs, so sizes agree in expectation; 30 % of about 500 held images, within 3 sd."""
        leaking, clean = deal(), deal(test_leakage="none")
        for one, other in zip(leaking, clean, strict=True):
            assert set(one.train) | set(one.test) == set(other.train) | set(other.test)
        sizes = [sum(len(part.test) for part in splits) for splits in (leaking, clean)]
        assert sizes[1] == pytest.approx(sizes[0], abs=3 * np.sqrt(500 * 0.3 * 0.7))

    def test_a_client_needs_a_training_and_a_test_image(self):
        with pytest.raises(ConfigError, match="client 0 would hold 0 training and 1 test images"):
            deal(draws=1)

    def test_too_many_clients(self):
        with pytest.raises(ConfigError, match="601 clients cannot share 600 images"):
            deal(clients=601)


class TestServerSubset:
    SERVER = ImageSet(np.arange(50, dtype=np.uint8).reshape(50, 1, 1, 1), np.arange(50))

    def test_none_is_all(self):
        assert server_subset(self.SERVER, None, 0) is self.SERVER

    def test_the_first_of_a_seeded_order(self):
        ten, twenty, other = (server_subset(self.SERVER, n, seed) for n, seed in ((10, 0), (20, 0), (10, 1)))
        assert len(set(ten.labels)) == 10
        assert ten.labels.tolist() == twenty.labels[:10].tolist() != other.labels.tolist()
        assert ten.images.ravel().tolist() == ten.labels.tolist()

    def test_more_than_there_are(self):
        with pytest.raises(ConfigError, match="split.server_images 51 is more than the 50 images"):
            server_subset(self.SERVER, 51, 0)
