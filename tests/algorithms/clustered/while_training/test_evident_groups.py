"""Evident groups: one clustering, when the groups have held for a round and are evident."""

import numpy as np
import pytest

from fedgrid.algorithms.registry import create_algorithm
from tests.helpers.small_cases import partition, play, sets, start, step

DIMENSIONS = 30


def federation(sizes, seed, spread=0.4, dimensions=DIMENSIONS):
    """Return client -> update: a common direction, one of each group (of length 1), and noise."""
    draw = np.random.default_rng(seed)
    truth = np.repeat(np.arange(len(sizes)), sizes)
    axes = np.eye(dimensions)[: len(sizes)]
    noise = spread * draw.standard_normal((len(truth), dimensions)) / np.sqrt(dimensions)
    vectors = 3 * np.eye(dimensions)[-1] + (axes[truth] if len(sizes) > 1 else 0) + noise
    return dict(enumerate(vectors.astype(np.float32)))


def algorithm(**settings):
    return create_algorithm("evident-groups", settings)


def rounds_clustered(history):
    return [index for index, (_, diagnostics) in enumerate(history, 1) if diagnostics.clustered]


class TestDecision:
    @pytest.mark.parametrize("sizes", [(5, 5, 5), (8, 7), (12, 3), (9, 4, 2), (3, 3, 3, 3, 3)])
    def test_groups_are_found_by_round_three(self, sizes):
        rounds = [federation(sizes, seed) for seed in range(3)]
        history = play(algorithm(), rounds, len(rounds[0]))
        assert rounds_clustered(history) in ([2], [3])
        stops = np.cumsum(sizes)
        assert partition(history[-1][0]) == sets(*map(range, stops - sizes, stops))

    @pytest.mark.parametrize("num_clients", [6, 15])
    def test_homogeneous_clients_stay_together(self, num_clients):
        """Their deviations are the same in every round, as those of clients with fixed images are."""
        for seed in range(4):
            same = federation((num_clients,), seed, spread=1.0)
            assert rounds_clustered(play(algorithm(), [same] * 4, num_clients)) == []

    def test_other_groups_than_in_the_round_before_are_not_taken(self):
        """The groups change after round 1; the sums of rounds 1 to 3 show the new ones first in round 3."""
        old = federation((5, 5, 5), 0)
        order = [0, 5, 10, 1, 6, 11, 2, 7, 12, 3, 8, 13, 4, 9, 14]
        new = {client: 1.0 * old[order[client]] for client in old}
        history = play(algorithm(), [old, new, new, new], 15)
        assert 2 not in rounds_clustered(history)

    def test_near_groups_are_told_apart_though_others_are_far(self):
        """Of 3, 5 and 7 clients; the directions of the first two are at 37 degrees, the third's at 90."""
        directions = np.array([[1, 0, 0, 0, 0], [0.8, 0.6, 0, 0, 0], [0, 0, 1, 0, 0]], np.float32)
        rounds = []
        for seed in range(2):
            noise = np.random.default_rng(seed).standard_normal((15, 5), np.float32)
            rounds.append(dict(enumerate(np.repeat(directions, (3, 5, 7), axis=0) + 0.06 * noise)))
        history = play(algorithm(), rounds, 15)
        assert rounds_clustered(history) == [2]
        assert partition(history[-1][0]) == sets(range(3), range(3, 8), range(8, 15))

    def test_after_the_clustering_nothing_is_remembered(self):
        state, _ = play(algorithm(), [federation((5, 5, 5), seed) for seed in range(2)], 15)[-1]
        assert set(state.arrays) == set()


class TestOddClients:
    """Clients that are like no others: `OUTLIERS` has an update of its own, in every round."""

    @staticmethod
    def with_odd(sizes, rounds, odd):
        every = [federation((*sizes, *[1] * odd), seed) for seed in range(rounds)]
        return every, play(algorithm(), every, len(every[0]))

    @pytest.mark.parametrize("odd", [1, 2])
    def test_are_set_aside_and_named_while_all_others_stay_together(self, odd):
        _, history = self.with_odd((18,), 5, odd)
        assert rounds_clustered(history) == []
        names = ", ".join(str(18 + client) for client in range(odd))
        assert [each for _, diagnostics in history for each in diagnostics.warnings] == [
            f"clients that are like no others, and no group: {names}"
        ]

    def test_join_the_nearest_group(self):
        """Client 15 is of no group, and a little like the second."""
        rounds = [federation((8, 7, 1), seed) for seed in range(3)]
        for each in rounds:
            each[15] = (0.5 * (each[15] + each[8])).astype(np.float32)
        history = play(algorithm(), rounds, 16)
        assert partition(history[-1][0]) == sets(range(8), range(8, 16))


class TestParticipation:
    def test_clusters_once_every_pair_has_met_or_a_third_client_and_each_has_come_twice(self):
        """Halves of 16 clients take turns: clients 0-7, 8-15, then the crossed halves."""
        everyone = [federation((8, 8), seed) for seed in range(8)]
        evens, odds = set(range(0, 16, 2)), set(range(1, 16, 2))
        low, high = set(range(8)), set(range(8, 16))
        turns = [low, high, (low & evens) | (high & evens), (low & odds) | (high & odds)]
        turns += [(low & evens) | (high & odds), (low & odds) | (high & evens)]
        state = start(algorithm(), 16, np.zeros(DIMENSIONS))
        clustered = []
        for index, asked in enumerate(turns):
            sent = {client: everyone[index][client] for client in sorted(asked)}
            state, diagnostics = step(algorithm(), state, index, sent)
            clustered += [index + 1] if diagnostics.clustered else []
        assert clustered == [5], "in round 4 the last clients come twice; round 5 shows the same groups"
        assert partition(state) == sets(range(8), range(8, 16))


class TestWindow:
    """Homogeneous clients, then groups: what comes after the window is not seen."""

    ROUNDS = [federation((15,), 0)] * 3 + [federation((5, 5, 5), seed) for seed in range(6)]

    def test_nothing_is_looked_for_or_remembered_after_it(self):
        history = play(algorithm(window=3), self.ROUNDS, 15)
        assert rounds_clustered(history) == []
        assert len(history[1][0].arrays) == 7
        assert [set(state.arrays) for state, _ in history[3:]] == [set()] * 6

    def test_more_evidence_can_be_asked_for(self):
        rounds = [federation((5, 5, 5), seed) for seed in range(3)]
        assert rounds_clustered(play(algorithm(evidence=1000), rounds, 15)) == []


def test_names_of_stored_arrays_stay():
    """A state without `rounds_asked` is one whose search is over: a new name would end it on resume."""
    first = start(algorithm(), 16, np.zeros(DIMENSIONS))
    groups = {"found_as_they_are_K", "found_standardised_K"}
    assert set(first.arrays) == {"rounds_asked", "odd_K"} | groups
