"""Few-shot clustering: a further rise of the temperature puts all clients into new clusters."""

import numpy as np
import pytest

from fedgrid.algorithms.clustering.latecomers import (
    place_latecomers,
    read_past_splits,
    regroup_clients,
    split_present,
)
from fedgrid.algorithms.contract.base import State
from fedgrid.algorithms.registry import create_algorithm
from tests.helpers.small_cases import (
    build_updates,
    check_valid,
    clients,
    freeze,
    frozen,
    partition,
    play,
    read_model,
    rounds_clustered,
    sets,
    start,
    step,
)

COLD = clients((1, 0), (1, 0))
WARM = clients((1, 0), (0, 1))
HOT = clients((1, 0), (-1, 0))
EAST, NORTH = (1, 0), (0, 1)


def state_of(labels, models, arrays=None):
    return freeze(State(tuple(frozen(model) for model in models), np.array(labels, np.int64), arrays or {}))


class TestRegroup:
    def test_a_group_starts_from_the_mean_of_its_members_models(self):
        """Models (0, 0), (6, 0), (0, 6): of clients 0, 1 | 2 | 3. Of {0, 2, 3} the mean is (2, 2)."""
        state = regroup_clients(state_of([0, 0, 1, 2], [(0, 0), (6, 0), (0, 6)]), [[0, 2, 3], [1]])
        assert state.labels_K.tolist() == [0, 1, 0, 0]
        assert [model.tolist() for model in state.models] == [[2, 2], [0, 0]]
        assert {model.dtype for model in state.models} == {np.dtype(np.float32)}

    def test_each_member_counts_once_in_the_mean_model(self):
        """Three of model (0, 0) and one of (8, 4): (2, 1)."""
        state = regroup_clients(state_of([0, 0, 1], [(0, 0), (8, 4)]), [[0, 2], [1]], {0: 1, 1: 9, 2: 3})
        assert [model.tolist() for model in state.models] == [[6, 3], [0, 0]]
        state = regroup_clients(state_of([0, 0, 0, 1], [(0, 0), (8, 4)]), [[0, 1, 2, 3]])
        assert [model.tolist() for model in state.models] == [[2, 1]]

    def test_moments_are_averaged_as_models_are_and_the_rest_is_kept(self):
        arrays = {"cluster_first": frozen([[1, 1], [3, 5]]), "temperatures": frozen([0.5], np.float64)}
        state = regroup_clients(state_of([0, 1], [(0, 0), (2, 2)], arrays), [[0, 1]])
        assert state.arrays["cluster_first"].tolist() == [[2, 3]]
        assert state.arrays["cluster_first"].dtype == np.float32
        assert state.arrays["temperatures"].tolist() == [0.5]

    @pytest.mark.parametrize(
        ("before", "groups", "after"),
        [
            ([0, 0, 0, 1, 1, 1, 0], [[0, 3, 4], [1, 2, 5]], [0, 1, 1, 0, 0, 1, 1]),
            ([0, 0, 0, 1, 1], [[0, 3], [1, 4]], [0, 1, 0, 0, 1]),
            ([0, 0, 0, 1], [[0], [1, 2]], [0, 1, 1, 1]),
            ([0, 0, 0, 0], [[], [3, 1], [2, 0]], [0, 1, 0, 1]),
        ],
        ids=["most of its cluster", "a tie: the first", "none of its cluster: the largest", "none left over"],
    )
    def test_client_in_no_group_goes_where_most_of_its_cluster_goes(self, before, groups, after):
        """Groups are numbered by their first member."""
        state = regroup_clients(state_of(before, [(0, 0), (4, 4)]), groups)
        assert state.labels_K.tolist() == after

    def test_waiting_client_keeps_waiting_and_joins_the_successor_of_the_nearest_part(self):
        """{0, 1} East and {2, 3} North without 4; then the four change to {0, 2, 3} and {1}.

        Most of {2, 3} is in group 0 now. Of {0, 1} there is one in each group: the first is meant, so East is
        group 0 too.
        """
        first = build_updates(clients(EAST, EAST, NORTH, NORTH), absent={4})
        arrays = {"cluster_first": frozen([[5, 5]])}
        before = split_present(state_of([0] * 5, [(7, 7)], arrays), 0, [[0, 1], [2, 3]], first)
        state = freeze(regroup_clients(before, [[0, 2, 3], [1]]))
        assert state.labels_K.tolist() == [0, 1, 0, 0, 2]
        assert len(state.models) == len(state.arrays["cluster_first"]) == 3
        assert read_model(state, 4) == [7, 7]
        (node,) = read_past_splits(state)
        assert (node.waiting, node.parts_D.tolist()) == (2, [0, 0])
        for vector in (EAST, NORTH):
            after, _, reasons = place_latecomers(state, build_updates({4: vector}))
            assert after.labels_K.tolist() == [0, 1, 0, 0, 0]
            assert set(reasons) == {4}

    def test_absent_clients_do_not_count_in_the_start_models(self):
        """Client 3 of model (9, 9) follows its cluster; the mean is of (0, 0) and (0, 0)."""
        state = regroup_clients(state_of([0, 0, 1, 1], [(0, 0), (9, 9)]), [[0, 1], [2]])
        assert [model.tolist() for model in state.models] == [[0, 0], [9, 9]]


def test_two_shots_cluster_at_two_rises_and_at_no_third(answers):
    """Rises in rounds 1, 3 and 5 (from 0). After the second one {0, 1} is one cluster again: its members'
    models (3, 0) and (2, 1) have mean (2.5, 0.5), which (1, 0) and (-1, 0) do not move.
    """
    asked = answers([0, 1], [0, 0], [1, 0])
    history = play(create_algorithm("ocfl-kmeans", {"few_shot": 2}), [COLD, WARM, COLD, HOT, COLD, HOT], 2)
    assert rounds_clustered(history) == [1, 3]
    assert len(asked) == 2
    assert [partition(state) for state, _ in history] == [
        sets([0, 1]),
        *[sets([0], [1])] * 2,
        *[sets([0, 1])] * 3,
    ]
    assert [model.tolist() for model in history[2][0].models] == [[3, 0], [2, 1]]
    assert [model.tolist() for model in history[3][0].models] == [[2.5, 0.5]]


def test_a_rise_without_clusters_uses_none_of_the_shots(answers):
    answers([0, 1], [-1, -1], [0, 0])
    history = play(create_algorithm("ocfl-kmeans", {"few_shot": 2}), [COLD, WARM, COLD, HOT, COLD, WARM], 2)
    assert rounds_clustered(history) == [1, 5]
    assert partition(history[3][0]) == sets([0], [1])
    assert partition(history[5][0]) == sets([0, 1])


def test_the_moments_of_a_new_cluster_are_the_mean_of_its_members(answers):
    """Momentum 0.5. m: round 0 (1, 0); round 1 (1.5, 0) | (0.5, 1), models (2.5, 0) | (1.5, 1).

    Round 2: m (1.75, 0) | (1.25, 0.5), models (4.25, 0) | (2.75, 1.5). Round 3 joins them: m starts at
    (1.5, 0.25) and is (0.75, 0.125) after a mean of 0; the model is (3.5, 0.75) + m = (4.25, 0.875).
    """
    answers([0, 1], [0, 0])
    settings = {"few_shot": 2, "server_optimizer": "momentum", "server_momentum": 0.5}
    history = play(create_algorithm("ocfl-kmeans", settings), [COLD, WARM, COLD, HOT], 2)
    assert [model.tolist() for model in history[2][0].models] == [[4.25, 0], [2.75, 1.5]]
    assert [model.tolist() for model in history[3][0].models] == [[4.25, 0.875]]
    assert history[3][0].arrays["cluster_first"].tolist() == [[0.75, 0.125]]


def test_two_shots_with_clients_absent_at_both_rises(answers):
    """Five clients. 4 misses the first clustering and waits; 1 misses the second and follows client 0.

    In round 4 client 4 comes, with an update towards the North of round 1: clients 2 and 3, of whom most (and
    the first) are with 0 now.
    """
    answers([0, 0, 1, 1], [0, 0, 1])
    algorithm = create_algorithm("ocfl-kmeans", {"few_shot": 2})
    cold = clients(*[EAST] * 5)
    both = clients(EAST, EAST, NORTH, NORTH)
    rounds = [
        (cold, set()),
        (both, {4}),
        ({c: EAST for c in range(4)}, {4}),
        ({0: EAST, 2: EAST, 3: NORTH}, {1, 4}),
        ({**both, 4: NORTH}, set()),
    ]
    state, history = start(algorithm, 5), []
    for round_index, (vectors, absent) in enumerate(rounds):
        state, diagnostics = step(algorithm, state, round_index, vectors, absent=absent)
        check_valid(state, 5)
        history.append((state, diagnostics))
    assert rounds_clustered(history) == [1, 3]
    assert partition(history[2][0]) == sets([0, 1], [2, 3], [4])
    assert partition(history[3][0]) == sets([0, 1, 2], [3], [4])
    assert partition(history[4][0]) == sets([0, 1, 2, 4], [3])
    assert list(history[4][1].placed) == [4]


def test_with_recluster_every_clients_are_clustered_anew_whatever_the_temperature():
    """One shot in round 2; then every second round, cold or not, as an update that is turned round shows."""
    settings = {"clusterer": {"num_clusters": 2}, "recluster_every": 2}
    history = play(create_algorithm("ocfl-kmeans", settings), [COLD, WARM, COLD, HOT, COLD, COLD], 2)
    assert [diagnostics.clustered for _, diagnostics in history] == [False, True, False, True, False, True]
    assert [int(state.arrays["last_shot"][0]) for state, _ in history[1:]] == [1, 1, 3, 3, 5]
