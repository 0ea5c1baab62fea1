"""The OCFL papers' rule: class shares and draws with replacement; the authors' forty blueprints."""

import numpy as np
import pytest

from fedgrid.engine.federation.data.dataset import Facts
from fedgrid.engine.federation.dealing.kinds import KINDS
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.partition.ocfl import compute_class_shares, count_draws, draw_images
from fedgrid.engine.federation.partition.scenarios import (
    SCENARIOS,
    Scenario,
    compute_cluster_sizes,
    find_cluster_sizes,
)
from fedgrid.engine.federation.partition.settings import Split


class TestScenarios:
    def test_scenarios_are_the_forty_of_the_paper(self):
        assert len(SCENARIOS) == 40
        assert SCENARIOS["mnist-15-overlapping-imbalanced"] == Scenario("mnist", "overlapping-imbalanced", 15)
        assert all(name == scenario.name for name, scenario in SCENARIOS.items())

    def test_published_exception_has_equal_sizes_with_three_clusters_only(self):
        scenario = SCENARIOS["bloodmnist-30-overlapping-imbalanced"]
        assert find_cluster_sizes(scenario, 3) == (10, 10, 10)
        assert find_cluster_sizes(scenario, 2) == compute_cluster_sizes(30, 2, "imbalanced") != (15, 15)
        assert find_cluster_sizes(SCENARIOS["bloodmnist-30-nonoverlapping-imbalanced"], 3) == (7, 14, 9)


class TestClassShares:
    COUNTS = (10, 30, 60, 1, 1, 2, 3, 3, 2, 2)

    def test_balanced_clusters_have_the_pools_own_frequencies(self):
        """Clusters {0,1,2,3}, {4,5,6}, {7,8,9} of 101, 6 and 7 images."""
        shares = compute_class_shares(
            Scenario("digits", "nonoverlapping-balanced", 15), self.COUNTS, Split(), 0
        )
        np.testing.assert_allclose(shares[0], np.array([10, 30, 60, 1]) / 101)
        np.testing.assert_allclose(shares[1], np.array([1, 2, 3]) / 6)
        np.testing.assert_allclose(shares[2], np.array([3, 2, 2]) / 7)

    def test_class_shares_of_imbalanced_clusters_depend_on_the_seed(self):
        scenario = Scenario("digits", "overlapping-imbalanced", 15)
        first, again, other = (
            compute_class_shares(scenario, self.COUNTS, Split(), seed) for seed in (1, 1, 2)
        )
        np.testing.assert_array_equal(np.concatenate(first), np.concatenate(again))
        assert not np.allclose(np.concatenate(first), np.concatenate(other))
        assert [len(shares) for shares in first] == [6, 6, 6]
        np.testing.assert_allclose([shares.sum() for shares in first], 1)

    def test_large_alpha_gives_even_shares(self):
        scenario = Scenario("digits", "nonoverlapping-imbalanced", 15)
        shares = compute_class_shares(scenario, self.COUNTS, Split(alpha=1e8), 0)
        np.testing.assert_allclose(shares[1], [1 / 3] * 3, atol=1e-3)

    def test_published_shares_are_normalised(self):
        """These three of the authors' estimated shares sum to 1.000 as they are printed."""
        scenario = SCENARIOS["mnist-15-nonoverlapping-imbalanced"]
        shares = compute_class_shares(scenario, (6000,) * 10, Split(proportions="published"), 5)
        np.testing.assert_allclose(shares[0], [0.039, 0.031, 0.423, 0.507])
        np.testing.assert_allclose(shares[1], [0.488, 0.000, 0.512])
        np.testing.assert_allclose(shares[2], [0.792, 0.182, 0.026])

    @pytest.mark.parametrize("name", [name for name in SCENARIOS if name.endswith("imbalanced")])
    def test_every_imbalanced_scenario_has_published_shares_of_its_class_sets(self, name):
        num_classes = {"pathmnist": 9, "bloodmnist": 8}.get(SCENARIOS[name].dataset, 10)
        shares = compute_class_shares(SCENARIOS[name], (1,) * num_classes, Split(proportions="published"), 0)
        np.testing.assert_allclose([share.sum() for share in shares], [1, 1, 1])

    @pytest.mark.parametrize(
        ("scenario", "clusters", "message"),
        [
            (
                Scenario("digits", "overlapping-imbalanced", 15),
                3,
                "'digits-15-overlapping-imbalanced'.*mnist-15-nonoverlapping-imb",
            ),
            (
                SCENARIOS["mnist-15-overlapping-imbalanced"],
                2,
                "for 3 clusters .* not 2 clusters of 10 classes; take 'drawn'",
            ),
        ],
    )
    def test_shares_that_were_not_published_are_refused(self, scenario, clusters, message):
        with pytest.raises(ConfigError, match=message):
            compute_class_shares(
                scenario, self.COUNTS, Split(proportions="published", num_clusters=clusters), 0
            )


class TestDraws:
    def test_draws_are_the_clients_share_of_the_pool(self):
        assert count_draws(60000, 30, None) == 2000
        assert count_draws(13671, 15, None) == 911
        assert count_draws(13671, 15, 40) == 40

    def test_more_clients_than_images_are_refused(self):
        with pytest.raises(ConfigError, match="8 clients cannot share 7 images"):
            count_draws(7, 8, None)

    def test_duplicates_of_a_draw_are_dropped(self):
        """A hundred draws from two images find both (short of once in 2^99) and each is held once."""
        held = draw_images(
            np.random.default_rng(0), [np.array([4]), np.array([2])], np.array([0.5, 0.5]), 100
        )
        assert held.tolist() == [2, 4]

    def test_a_class_without_a_share_is_not_drawn(self):
        held = draw_images(
            np.random.default_rng(0), [np.array([0, 1]), np.array([7])], np.array([0.0, 1.0]), 5
        )
        assert held.tolist() == [7]

    def test_expected_images_are_those_that_some_draw_finds(self):
        """Three clients of a class of ten images each, ten draws: 10 (1 - 0.9^10) of each."""
        facts = Facts(num_classes=3, inputs=image_inputs(1, 8, 8), pool_size=30)
        scenario = Scenario("digits", "nonoverlapping-balanced", 3)
        kind = KINDS[scenario.split]
        assert kind.expected_images(scenario, facts, Split(), 0) == pytest.approx(30 * (1 - 0.9**10))
