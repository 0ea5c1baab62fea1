"""Cosines of several rounds, with the mean direction taken out.

Unit vectors (1, 0) and (0, 1) have the mean (1/2, 1/2); what is left is (1/2, -1/2) and (-1/2, 1/2), whose
cosine is -1. In three dimensions the unit vectors' remainders have cosine -1/2.
"""

import numpy as np
import pytest

from fedgrid.algorithms.clustering.pooled_cosines import (
    CosineSettings,
    add_to_sums,
    average_over_rounds,
    can_compare,
    centre_cosines,
    compute_clustering_distances,
    estimate_distances,
    find_seen_clients,
    have_shared_round,
    pool_cosines,
)
from fedgrid.algorithms.registry import create_algorithm
from tests.helpers.small_cases import build_updates, clients, freeze, play, start


def state_of(num_clients, *rounds):
    state = start(create_algorithm("fedavg"), num_clients)
    for vectors in rounds:
        state = pool_cosines(freeze(state), build_updates(vectors))
    return state


class TestCentred:
    def test_orthogonal_vectors_by_hand(self):
        np.testing.assert_allclose(centre_cosines(np.eye(2)), [[1, -1], [-1, 1]])
        np.testing.assert_allclose(centre_cosines(np.eye(3)), 1.5 * np.eye(3) - 0.5)

    def test_a_vector_that_is_the_mean_has_no_direction(self):
        """Rows have means 2/3, 2/3 and 1, all of them 7/9: of the last 1 - 2 + 7/9 < 0 is left."""
        cosines = np.array([[1.0, 0.0, 1 - 1e-12], [0.0, 1.0, 1 - 1e-12], [1 - 1e-12, 1 - 1e-12, 1.0]])
        np.testing.assert_allclose(centre_cosines(cosines), [[1, -1, 0], [-1, 1, 0], [0, 0, 1]])

    def test_parallel_vectors_stay_alike(self):
        """They are their own mean, so nothing is left of them; but the same clients are no groups."""
        np.testing.assert_array_equal(centre_cosines(np.ones((3, 3))), np.ones((3, 3)))


class TestPool:
    def test_mean_over_the_rounds_of_a_pair(self):
        """Clients 0 and 1 meet in both rounds (cosines 0 and 1), 0 and 2 in the second only (0.6)."""
        state = state_of(3, clients((1, 0), (0, 2)), clients((1, 0), (7, 0), (3, 4)))
        np.testing.assert_allclose(average_over_rounds(state, (0, 1)), [[1, 0.5], [0.5, 1]])
        np.testing.assert_allclose(average_over_rounds(state, (0, 2)), [[1, 0.6], [0.6, 1]], atol=1e-7)

    def test_pairs_that_never_met_are_not_compared(self):
        state = state_of(3, clients((1, 0), (0, 1)), {2: (1, 1), 0: (1, 0)})
        assert find_seen_clients(state) == (0, 1, 2)
        assert not have_shared_round(state, (0, 1, 2))
        assert have_shared_round(state, (0, 2))


class TestThirdClients:
    """Clients 0 and 1, and 1 and 2, meet: 0 and 2 do not. Client 3 comes alone, then with 0."""

    NAME = "distances"

    def state(self, *rounds):
        state = start(create_algorithm("fedavg"), 4)
        for pair, distance in rounds:
            distances = np.full((len(pair), len(pair)), distance) * (1 - np.eye(len(pair)))
            state = add_to_sums(freeze(state), pair, {self.NAME: distances})
        return state

    def test_two_that_never_met_are_compared_by_a_third(self):
        state = self.state(((0, 1), 0.5), ((1, 2), 0.2), ((0, 1), 0.1))
        assert can_compare(state, (0, 1, 2))
        expected = [[0, 0.3, 0.3], [0.3, 0, 0.2], [0.3, 0.2, 0]]
        np.testing.assert_allclose(estimate_distances(state, (0, 1, 2), self.NAME), expected)

    def test_others_cannot_be_compared(self):
        state = self.state(((0, 1), 0.5), ((1, 2), 0.2), ((3,), 0.0))
        assert not can_compare(state, (0, 1, 2, 3))
        state = self.state(((0, 1), 0.5), ((1, 2), 0.2), ((3, 0), 0.2))
        assert not can_compare(state, (0, 1, 2, 3)), "2 and 3 are two clients apart"


class TestDistances:
    @pytest.fixture
    def state(self):
        return state_of(2, clients((1, 0), (0, 1)), clients((1, 0), (1, 0)))

    LAST = clients((1, 0), (1, 0))

    @pytest.mark.parametrize(
        ("settings", "distance"), [({}, 0), ({"pool_rounds": True}, 0.5), ({"centre": True}, 0)]
    )
    def test_of_two_clients_by_hand(self, state, settings, distance):
        """Cosine 1 in the last round, 1/2 over both; parallel updates are alike without their mean too."""
        found = compute_clustering_distances(state, build_updates(self.LAST), CosineSettings(**settings))
        np.testing.assert_allclose(found, [[0, distance], [distance, 0]], atol=1e-12)

    def test_standardised_entries_are_compared_and_pooled(self):
        """By hand in `test_updates`: 0.04 in the second round; (1, 0) and (0, 1) in the first: 1."""
        settings = CosineSettings(standardise=True, pool_rounds=True)
        state = start(create_algorithm("fedavg"), 2)
        for round_of in (clients((1, 0), (0, 1)), clients((3, 4), (8, 6))):
            state = pool_cosines(freeze(state), build_updates(round_of), standardise=True)
        found = compute_clustering_distances(state, build_updates(clients((3, 4), (8, 6))), settings)
        assert found[0, 1] == pytest.approx((1 + 0.04) / 2, abs=1e-6)
        assert compute_clustering_distances(
            start(create_algorithm("fedavg"), 2),
            build_updates(clients((3, 4), (8, 6))),
            CosineSettings(standardise=True),
        )[0, 1] == pytest.approx(0.04, abs=1e-6)

    def test_defaults_take_the_published_distances(self, state):
        updates = build_updates(self.LAST)
        found = compute_clustering_distances(state, updates, CosineSettings())
        np.testing.assert_array_equal(found, updates.cosine_distances_KK)


COMMON = 8.0
GROUPS = clients((COMMON, 1, 0), (COMMON, 1.1, 0), (COMMON, 0, 1), (COMMON, 0, 1.1))
"""Two groups whose updates share a direction eight times as long as what tells them apart."""


class TestAlgorithms:
    def test_briggs_finds_groups_below_a_large_common_direction_only_when_centred(self):
        found = {}
        for centre in (False, True):
            algorithm = create_algorithm("briggs", {"round": 1, "threshold": 0.5, "centre": centre})
            found[centre] = play(algorithm, [GROUPS], 4)[-1][0].labels_K.tolist()
        assert found == {False: [0, 0, 0, 0], True: [0, 0, 1, 1]}

    @pytest.mark.parametrize("pooled", [False, True])
    def test_ocfl_clusters_by_the_pooled_cosines_at_a_rise(self, pooled, monkeypatch):
        """Clients 0 and 1 are parallel in round 1 and orthogonal in round 2: the temperature rises."""
        asked = []

        def fit(self, distances_KK, generator):
            asked.append(distances_KK)
            return np.array([0, 1])

        algorithm = create_algorithm("ocfl-kmeans", {"pool_rounds": pooled})
        monkeypatch.setattr(type(algorithm.settings.clusterer), "fit", fit)
        play(algorithm, [clients((1, 0), (2, 0)), clients((1, 0), (0, 1))], 2)
        np.testing.assert_allclose(asked[0][0, 1], 0.5 if pooled else 1.0)
