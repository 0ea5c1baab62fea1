"""Ward told k: one cut of Ward's tree, at the number of clusters that is given."""

import numpy as np
import pytest

from fedgrid.algorithms.registry import create_algorithm
from tests.helpers.small_cases import partition, play, sets, start, step

GROUPS = sets(range(3), range(3, 5), range(5, 9))


def updates(seed=0):
    """Return client -> update of groups of 3, 2 and 4: a common direction, one of each group, and noise."""
    noise = 0.1 * np.random.default_rng(seed).standard_normal((9, 6))
    vectors = 3 * np.eye(6)[-1] + np.repeat(np.eye(6)[:3], (3, 2, 4), axis=0) + noise
    return dict(enumerate(vectors.astype(np.float32)))


def run(asked, **settings):
    """Return the last state of nine clients, and the rounds, from 1, in which it clusters."""
    algorithm = create_algorithm("ward-told", settings)
    state, clustered = start(algorithm, 9, np.zeros(6)), []
    for index, clients in enumerate(asked):
        every = updates(index)
        state, diagnostics = step(algorithm, state, index, {client: every[client] for client in clients})
        clustered += [index + 1] if diagnostics.clustered else []
    return state, clustered


@pytest.mark.parametrize("when", [1, 3])
def test_groups_are_the_clusters_from_the_round_on_and_nothing_is_remembered(when):
    state, clustered = run([range(9)] * 4, round=when)
    assert clustered == [when]
    assert partition(state) == GROUPS
    assert set(state.arrays) == set()


@pytest.mark.parametrize(("number", "clusters"), [(1, 1), (2, 2), (5, 5), (9, 9)])
def test_clusters_are_as_many_as_it_is_told(number, clusters):
    assert len(partition(run([range(9)] * 2, round=2, num_clusters=number)[0])) == clusters


def test_distances_of_all_rounds_count():
    """In round 2 clients 2 and 3 have changed places; the mean of ten rounds shows where they belong."""
    ten = [updates(seed) for seed in range(10)]
    ten[-1] = {**ten[-1], 2: ten[-1][3], 3: ten[-1][2]}
    assert partition(play(create_algorithm("ward-told", {"round": 10}), ten, 9)[-1][0]) == GROUPS
    assert partition(play(create_algorithm("ward-told", {"round": 1}), ten[-1:], 9)[-1][0]) != GROUPS


def test_it_waits_until_every_two_have_met():
    """Client 8 meets 0 to 3 in round 2 and the others in round 4; the clustering was due in round 1."""
    asked = [range(8), [0, 1, 2, 3, 8], range(8), [4, 5, 6, 7, 8], range(9)]
    state, clustered = run(asked, round=1)
    assert clustered == [1], "nobody knows of client 8 before round 2"
    assert partition(state) == GROUPS, "it joins its cluster as a latecomer"
    _, clustered = run(asked, round=2)
    assert clustered == [4]
