"""Groups against those of rotated clients."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from fedgrid.algorithms.clustering import evidence, ward
from tests.helpers.small_cases import rng


def squares_of(vectors):
    return cdist(vectors, vectors, "sqeuclidean")


def grouped(sizes, spread=0.3, dimensions=40, seed=0):
    """Return squared distances of groups with a direction each, one that all share, and noise."""
    vectors = np.eye(dimensions)[np.repeat(np.arange(len(sizes)), sizes)] + 2 * np.eye(dimensions)[-1]
    noise = np.random.default_rng(seed).standard_normal(vectors.shape) / np.sqrt(dimensions)
    return squares_of(vectors + spread * noise)


def found_score(squares):
    return evidence.score(squares, ward.groups_of(squares, 5, rng()), rng())


@pytest.mark.parametrize("sizes", [(8, 7), (12, 4, 2, 2), (18, 2), (5,) * 4, (2,) * 10])
def test_groups_are_evident(sizes):
    assert found_score(grouped(sizes)) > 5


@pytest.mark.parametrize("clients", [6, 20, 60])
@pytest.mark.parametrize("dimensions", [3, 20, 500])
def test_noise_is_not(clients, dimensions):
    """A common direction and noise of any number of dimensions, in some of them ten times as much."""
    noise = np.random.default_rng(clients + dimensions).standard_normal((clients, dimensions))
    common = 20 * np.sqrt(dimensions) * np.eye(dimensions)[0]
    assert found_score(squares_of(common + noise)) < 4
    assert found_score(squares_of(common + noise * np.geomspace(1, 10, dimensions))) < 4


@pytest.mark.parametrize("groups", [[[0, 1, 2, 3]], [[0], [1], [2], [3]]])
def test_one_group_and_clients_alone_have_no_score(groups):
    assert evidence.score(1 - np.eye(4), groups, rng()) is None


def test_tightness_is_what_is_left_within_groups():
    """Squares about the mean: 2 * 1.5^2 + 2 * 0.5^2 = 5; within 0, 1 and 2, 3: 4 * 0.25 = 1."""
    vectors = np.array([[-1.5], [-0.5], [0.5], [1.5]])
    assert evidence.tightness(vectors, np.array([0, 0, 1, 1])) == pytest.approx(np.log(5.0))


def test_scale_changes_nothing():
    squares, groups = grouped((8, 4)), [list(range(8)), list(range(8, 12))]
    assert evidence.score(5 * squares, groups, rng()) == pytest.approx(evidence.score(squares, groups, rng()))


def test_large_federations_are_looked_at_in_part(monkeypatch):
    """A sample of 12 of 40 clients still shows two groups; the result depends on the generator alone."""
    monkeypatch.setattr(evidence, "MOST_CLIENTS", 12)
    squares, groups = grouped((20, 20)), [list(range(20)), list(range(20, 40))]
    assert evidence.score(squares, groups, rng()) > 4
    assert evidence.score(squares, groups, rng()) == evidence.score(squares, groups, rng())
