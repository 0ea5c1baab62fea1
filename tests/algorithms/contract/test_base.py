"""State, settings and the split of a cluster."""

import numpy as np
import pytest
from pydantic import ValidationError

from fedgrid.algorithms.contract.base import Settings, State
from fedgrid.algorithms.contract.split import split
from tests.helpers.small_cases import freeze, frozen, partition, sets


def state_of(labels, arrays=None):
    models = tuple(frozen([float(cluster), 10.0 * cluster]) for cluster in range(max(labels) + 1))
    return freeze(State(models, np.array(labels, np.int64), arrays or {}))


def test_members_are_the_ascending_ids_of_a_cluster():
    state = state_of([1, 0, 1, 1, 0])
    assert state.members(0) == (1, 4)
    assert state.members(1) == (0, 2, 3)


def test_each_new_cluster_starts_from_the_parents_model():
    """Cluster 1 = {1, 2, 4, 5} splits: {1, 4} keeps number 1, {2, 5} gets the next free number, 2."""
    state = split(state_of([0, 1, 1, 0, 1, 1]), 1, [[1, 4], [2, 5]])
    assert state.labels_K.tolist() == [0, 1, 2, 0, 1, 2]
    assert [model.tolist() for model in state.models] == [[0, 0], [1, 10], [1, 10]]


def test_cluster_numbers_do_not_depend_on_the_order_of_the_groups():
    """Groups are ordered by their first member: {0, 5}, {1, 3}, {2, 4} become 0, 1, 2."""
    one = split(state_of([0] * 6), 0, [[0, 5], [1, 3], [2, 4]])
    other = split(state_of([0] * 6), 0, [[4, 2], [3, 1], [5, 0]])
    assert one.labels_K.tolist() == other.labels_K.tolist() == [0, 1, 2, 2 - 1, 2, 0]


def test_members_in_no_group_join_the_largest_group():
    """Of {0, ..., 5} only 0, 2, 3 and 5 have an update; {2, 3, 5} is the largest group."""
    state = split(state_of([0] * 6), 0, [[0], [2, 3, 5]])
    assert partition(state) == sets([0], [1, 2, 3, 4, 5])


def test_split_ignores_empty_groups():
    state = split(state_of([0, 0, 0]), 0, [[], [0, 1], [], [2]])
    assert state.labels_K.tolist() == [0, 0, 1]
    assert len(state.models) == 2


def test_rows_of_cluster_arrays_follow_their_cluster_and_other_arrays_stay():
    """Cluster 1 has row [3, 4]; its child, cluster 2, inherits it."""
    arrays = {"cluster_momentum": np.array([[1.0, 2.0], [3.0, 4.0]]), "temperatures": np.array([0.5, 0.25])}
    state = split(state_of([0, 1, 1], arrays), 1, [[1], [2]])
    assert state.arrays["cluster_momentum"].tolist() == [[1, 2], [3, 4], [3, 4]]
    assert state.arrays["temperatures"].tolist() == [0.5, 0.25]


def test_settings_are_frozen():
    settings = Settings()
    assert settings.similarity_over == "parameters"
    with pytest.raises(ValidationError):
        settings.similarity_over = "state"
