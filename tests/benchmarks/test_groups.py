"""Deciding about groups on kept Gram matrices."""

import numpy as np
import pytest

from benchmarks.group_shared_prefixes import SharedPrefix, all_met, decisions, stand_ins
from benchmarks.groups import same


def test_stand_ins_have_the_inner_products_of_the_updates():
    updates = np.random.default_rng(0).standard_normal((4, 50))
    vectors = stand_ins(updates @ updates.T, 6)
    assert vectors.shape == (4, 6)
    assert vectors @ vectors.T == pytest.approx(updates @ updates.T, rel=1e-5)


def test_partitions_are_the_same_whatever_the_numbers_of_their_clusters():
    assert same(np.array([0, 0, 1, 2]), np.array([5, 5, 0, 1]))
    assert not same(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 2]))
    assert not same(np.array([0, 0, 1, 2]), np.array([0, 0, 1, 1]))


def test_all_have_met_in_the_round_of_the_last_pair():
    nothing = np.zeros((0, 0))
    rounds = [((0, 1), nothing), ((1, 2), nothing), ((0, 2), nothing), ((0, 1, 2), nothing)]
    assert all_met(3, rounds) == 3
    assert all_met(3, rounds[:2]) == 3, "the next round, at the earliest"


def test_an_algorithm_decides_on_stand_ins_and_stops_there():
    """BCL in round 2 joins clients at a distance below the threshold: two pairs."""
    gram = np.kron(np.eye(2), np.full((2, 2), 0.99)) + 0.01 * np.eye(4)
    shared_prefix = SharedPrefix(np.array([0, 0, 1, 1]), 0, [((0, 1, 2, 3), gram)] * 4)
    history = list(decisions(shared_prefix, "briggs", {"round": 2, "threshold": 0.5}))
    assert [number for number, _ in history] == [1, 2]
    assert same(history[-1][1], shared_prefix.truth_K)
