"""Groups within groups: a cut of a community against the noise within all of them."""

import numpy as np
import pytest

from fedgrid.algorithms.clustering import within


def gram(*points):
    vectors = np.array(points, float)
    return vectors @ vectors.T


def near_and_far(seed, sizes=(3, 5, 7), spread=0.06):
    """Return updates of three groups: the first two directions are at 37 degrees, the third is at 90."""
    directions = np.array([[1, 0, 0, 0, 0], [0.8, 0.6, 0, 0, 0], [0, 0, 1, 0, 0]])
    noise = np.random.default_rng(seed).standard_normal((sum(sizes), 5))
    return np.repeat(directions, sizes, axis=0) + spread * noise


def cosines(vectors):
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return units @ units.T


def test_the_best_cut_is_judged_by_the_noise_within_all_groups():
    """On a line: 0, 1, 10, 11 and 100, 102. Squares: 101 and 2, after the cut 0.5 + 0.5 and 2, with
    6 clients - 3 groups = 3 degrees; F = (101 - 1) / (3 / 3)."""
    positions = gram([0], [1], [10], [11], [100], [102])
    ratio, place, first, second = within.best_cut(positions, [[0, 1, 2, 3], [4, 5]])
    assert (ratio, place) == (pytest.approx(100), 0)
    assert sorted([first, second]) == [[0, 1], [2, 3]]


@pytest.mark.parametrize("groups", [[[0, 1, 2], [3, 4]], [[0, 1, 2, 3, 4]]])
def test_a_client_that_is_far_from_all_others_is_no_part(groups):
    """Three are too few for two parts of two; of five, Ward's last join is that of the one far away."""
    assert within.best_cut(gram([0], [0.1], [0.2], [0.3], [50]), groups) is None


def test_equal_clients_are_not_cut():
    groups = [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert within.split_further(np.kron(np.eye(2), np.ones((4, 4))), groups, 0.01) == groups


@pytest.mark.parametrize("seed", range(5))
def test_two_near_groups_in_one_community_are_told_apart(seed):
    found = within.split_further(cosines(near_and_far(seed)), [list(range(8)), list(range(8, 15))], 0.01)
    assert found == [[0, 1, 2], list(range(3, 8)), list(range(8, 15))]


def test_noise_of_its_own_dimensions_passes_as_often_as_the_level_says():
    """Two of 200 in expectation; more than six have a probability below 1 %."""
    draw = np.random.default_rng(1)
    groups = [list(range(7)), list(range(7, 15))]
    vectors = (draw.standard_normal((15, within.DIMENSIONS)) for _ in range(200))
    cut = sum(within.split_further(each @ each.T, groups, 0.01) != groups for each in vectors)
    assert cut <= 6


def test_the_draws_of_a_large_federation_are_spared(monkeypatch):
    monkeypatch.setattr(within, "MOST_CLIENTS", 14)
    groups = [list(range(8)), list(range(8, 15))]
    assert within.split_further(cosines(near_and_far(0)), groups, 0.01) == groups
