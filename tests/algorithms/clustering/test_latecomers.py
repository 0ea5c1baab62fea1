"""Clients that were absent when their cluster was split: which of them wait, what they join, and why.

Updates are in the plane. Unless a test says otherwise clients 0 and 1 go one way, 2 and 3 another one, and
client 4 comes late.
"""

import numpy as np
import pytest

from fedgrid.algorithms.clustering.latecomers import place_latecomers, read_past_splits, split_present
from fedgrid.algorithms.contract.base import State
from fedgrid.algorithms.contract.split import split
from fedgrid.algorithms.registry import create_algorithm
from tests.helpers.small_cases import (
    build_orders,
    build_updates,
    clients,
    freeze,
    frozen,
    has_same_bits,
    partition,
    read_model,
    sets,
    start,
    step,
)

EAST, WEST, NORTH, SOUTH, NOWHERE = (1, 0), (-1, 0), (0, 1), (0, -1), (0, 0)
TWO_GROUPS = [[0, 1], [2, 3]]


def one_cluster(num_clients, arrays=None, model=(7, 7)):
    return freeze(State((frozen(model),), np.zeros(num_clients, np.int64), arrays or {}))


def parted(*vectors, groups=TWO_GROUPS, num_clients=5, **options):
    """Return the state of one model (7, 7) after a split at which the last client was absent."""
    updates = build_updates(clients(*vectors), absent={num_clients - 1}, **options)
    return freeze(split_present(one_cluster(num_clients), 0, groups, updates))


def arrive(state, vectors, **options):
    """Return the labels after these updates have come, the clients whose updates count, and the reasons."""
    state, rest, reasons = place_latecomers(state, build_updates(vectors, **options))
    return state.labels_K.tolist(), rest.clients, dict(reasons)


def test_client_absent_at_a_split_waits_with_the_parents_model():
    state = parted(EAST, EAST, NORTH, NORTH)
    assert state.labels_K.tolist() == [0, 0, 1, 1, 2]
    assert [model.tolist() for model in state.models] == [[7, 7]] * 3


def test_an_unusable_update_is_no_absence():
    """Of six clients 4 has sent NaN (it is not in the updates), 5 was absent: {2, 3} is the larger group."""
    updates = build_updates({0: EAST, 2: NORTH, 3: NORTH}, absent={5})
    state = split_present(one_cluster(6), 0, [[0], [2, 3]], updates)
    assert partition(state) == sets([0], [1, 2, 3, 4], [5])


@pytest.mark.parametrize("missing", [set(), {1}, {1, 2}])
def test_split_with_all_clients_present_is_the_plain_split_to_the_bit(missing):
    """Missing here are unusable updates."""
    rows = frozen(np.arange(4).reshape(1, 4))
    before = one_cluster(5, {"cluster_first": rows, "other": frozen([3])})
    vectors = {c: EAST if c < 2 else NORTH for c in set(range(5)) - missing}
    groups = [[c for c in (0, 1) if c in vectors], [c for c in (2, 3, 4) if c in vectors]]
    assert has_same_bits(split_present(before, 0, groups, build_updates(vectors)), split(before, 0, groups))


def test_nearest_is_by_the_mean_of_the_distances_not_by_the_distance_to_the_mean():
    """Client 4 = (0, 1) is 1 and 0 from (10, 0) and (0, 1), 0.5 on average; 1 - 7/25 = 0.72 from (-24, 7).

    The mean update of the first two, (5, 0.5), is 1 - 0.5 / 5.025 = 0.90 away: farther than 0.72.
    """
    labels, _, reasons = arrive(parted((10, 0), NORTH, (-24, 7), (-24, 7)), {4: NORTH})
    assert labels == [0, 0, 1, 1, 0]
    assert reasons == {4: "mean cosine distances 0: 0.500, 1: 0.720"}


def test_tie_between_clusters_goes_to_the_first():
    assert arrive(parted(EAST, EAST, NORTH, NORTH), {4: (1, 1)})[0] == [0, 0, 1, 1, 0]


def test_members_with_zero_updates_do_not_count_for_their_cluster():
    """Client 1 has sent zeros: {0, 1} is North by client 0 alone."""
    _, _, reasons = arrive(parted(NORTH, NOWHERE, WEST, WEST), {4: NORTH})
    assert reasons == {4: "mean cosine distances 0: 0.000, 1: 1.000"}


def test_buffers_are_not_looked_at_unless_similarity_sees_them():
    """The last entry is a counter. Over (x, y | counter) client 4 = (0, 1 | 9) is nearest to (1, 0 | 9)."""
    vectors = [(1, 0, 9), (1, 0, 9), (0, 1, 0), (0, 1, 0)]
    for over, expected in (("parameters", 1), ("state", 0)):
        options = {"num_buffers": 1, "similarity_over": over}
        updates = build_updates(clients(*vectors), absent={4}, **options)
        state = split_present(one_cluster(5, model=(7, 7, 7)), 0, TWO_GROUPS, updates)
        assert arrive(state, {4: (0, 1, 9)}, **options)[0] == [0, 0, 1, 1, expected]


def test_latecomer_with_a_zero_update_keeps_waiting():
    labels, counted, reasons = arrive(parted(EAST, EAST, NORTH, NORTH), {0: EAST, 4: NOWHERE})
    assert (labels, counted, reasons) == ([0, 0, 1, 1, 2], (0,), {})


def test_waiting_cluster_has_the_server_moments_of_its_parent():
    """Three rows: the two parts and the waiting cluster."""
    before = one_cluster(5, {"cluster_first": frozen([[3, 4]])})
    updates = build_updates(clients(EAST, EAST, NORTH, NORTH), absent={4})
    assert split_present(before, 0, TWO_GROUPS, updates).arrays["cluster_first"].tolist() == [[3, 4]] * 3


class TestDownTheTree:
    """Clients 0 to 3 go East at first and 4, 5 West; then 0, 1 part from 2, 3. Client 6 comes late."""

    FIRST = clients(EAST, EAST, EAST, EAST, WEST, WEST)
    SECOND = clients(NORTH, NORTH, SOUTH, SOUTH, WEST, WEST)

    @pytest.fixture
    def twice(self):
        """Parts 0 and 1, waiting cluster 2; then parts 0 and 3, waiting cluster 4."""
        updates = build_updates(self.FIRST, absent={6})
        once = split_present(one_cluster(7), 0, [[0, 1, 2, 3], [4, 5]], updates)
        moved = State((frozen([8, 7]), *once.models[1:]), once.labels_K, once.arrays)
        updates = build_updates(self.SECOND, absent={6})
        members = updates.select(moved.members(0))
        return freeze(split_present(moved, 0, [[0, 1], [2, 3]], members))

    def test_splits_are_kept_in_the_state(self, twice):
        known = [(node.parent, node.parts_D.tolist(), node.waiting) for node in read_past_splits(twice)]
        assert known == [(0, [0, 1], 2), (0, [0, 3], 4)]
        assert twice.labels_K.tolist() == [0, 0, 3, 3, 1, 1, 2]

    def test_where_a_part_has_been_split_since_a_latecomer_waits_there_next(self, twice):
        """East at the first split, then South at the second."""
        state, rest, reasons = place_latecomers(twice, build_updates({6: EAST}))
        assert state.labels_K.tolist() == [0, 0, 3, 3, 1, 1, 4]
        assert rest.clients == ()
        assert reasons == {6: "mean cosine distances 0: 0.000, 1: 2.000"}
        assert arrive(state, {6: SOUTH})[0] == [0, 0, 3, 3, 1, 1, 3]


def by_sattler(*rounds, num_clients):
    """Return the states of Sattler that splits whatever has three members, told who is absent in a round."""
    algorithm = create_algorithm("sattler", {"epsilon_1": 1e6, "epsilon_2": 1e-6, "cooldown": 0})
    state, history = start(algorithm, num_clients), []
    for round_index, (vectors, absent) in enumerate(rounds):
        state, diagnostics = step(algorithm, state, round_index, vectors, absent=absent)
        history.append((state, diagnostics))
    return history


class TestSplitsWhileSomebodyArrives:
    """As `TestDownTheTree`; cluster {0, 1, 2, 3} is split in a round in which nobody is absent."""

    FIRST = (clients((2, 1), (2, 1), (2, -1), (2, -1), WEST, WEST), {6})
    SECOND = clients(NORTH, NORTH, SOUTH, SOUTH, WEST, WEST)
    AT_HOME = sets([0, 1], [2, 3, 6], [4, 5])

    def test_client_that_arrives_in_the_round_of_a_split_waits_for_that_split_too(self):
        """Its update is of the model before the first split: it says nothing about the second."""
        history = by_sattler(
            self.FIRST,
            ({**self.SECOND, 6: EAST}, set()),
            ({**self.SECOND, 6: SOUTH}, set()),
            num_clients=7,
        )
        assert partition(history[1][0]) == sets([0, 1], [2, 3], [4, 5], [6])
        assert partition(history[2][0]) == self.AT_HOME

    @pytest.mark.parametrize("unusable", [{}, {6: NOWHERE}], ids=["NaN", "zero"])
    def test_client_still_waiting_in_the_round_of_a_split_is_placed_later(self, unusable):
        history = by_sattler(
            self.FIRST,
            ({**self.SECOND, **unusable}, set()),
            ({**self.SECOND, 6: EAST}, set()),
            ({**self.SECOND, 6: SOUTH}, set()),
            num_clients=7,
        )
        assert [partition(state) for state, _ in history[1:3]] == [sets([0, 1], [2, 3], [4, 5], [6])] * 2
        assert partition(history[3][0]) == self.AT_HOME


def test_briggs_from_the_split_to_the_latecomers_second_update():
    """Round 1 splits. Client 4 trains (1, 1), the model before, and joins {2, 3}, whose model moves by
    (0, 1) a round without it: (1, 2), (1, 3). In round 3 it counts: (0, 1), (0, 1), (3, 1) have mean (1, 1).
    """
    algorithm = create_algorithm("briggs", {"round": 2})
    both = clients(EAST, EAST, NORTH, NORTH)
    state, _ = step(algorithm, start(algorithm, 5), 0, clients(*[(1, 1)] * 5))
    state, _ = step(algorithm, state, 1, both, absent={4})
    assert [read_model(state, client) for client in (0, 2, 4)] == [[2, 1], [1, 2], [1, 1]]
    assert build_orders(algorithm, state, [4])[4].candidates == (2,)
    state, diagnostics = step(algorithm, state, 2, {**both, 4: (0, 9)})
    assert [read_model(state, client) for client in (0, 2, 4)] == [[3, 1], [1, 3], [1, 3]]
    assert diagnostics.placed == {4: "mean cosine distances 0: 1.000, 1: 0.000"}
    state, diagnostics = step(algorithm, state, 3, {**both, 4: (3, 1)})
    assert read_model(state, 4) == [2, 4]
    assert diagnostics.placed == {}


def test_absent_clients_of_other_clusters_stay_where_they_are():
    """Cluster 1 = {2, 3, 4} is split without 4; client 1 of cluster 0 is absent too."""
    before = split(one_cluster(5), 0, [[0, 1], [2, 3, 4]])
    updates = build_updates({0: EAST, 2: EAST, 3: WEST}, absent={1, 4})
    assert split_present(before, 1, [[2], [3]], updates).labels_K.tolist() == [0, 0, 1, 2, 3]


def test_a_latecomer_joins_the_cluster_whose_members_updates_are_nearest_to_its_own():
    """Client 4 = (4, 3) has cosines 0.8 with the East and 0.6 with the North."""
    labels, _, reasons = arrive(parted(EAST, EAST, NORTH, NORTH), {4: (4, 3)})
    assert labels == [0, 0, 1, 1, 0]
    assert reasons == {4: "mean cosine distances 0: 0.200, 1: 0.400"}
