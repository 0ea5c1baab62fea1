"""The temperature of a distance matrix."""

import numpy as np
import pytest

from fedgrid.algorithms.clustering.measures import compute_temperature
from tests.helpers.small_cases import build_updates, clients


@pytest.mark.parametrize(
    ("vectors", "expected"),
    [
        pytest.param([(1, 0), (3, 0)], 0.0, id="parallel"),
        pytest.param([(1, 0), (0, 1)], 0.5, id="orthogonal"),
        pytest.param([(1, 0), (-2, 0)], 1.0, id="opposite"),
        pytest.param([(5, 0), (3, 4)], 0.2, id="cosine 0.6"),
        pytest.param([(1, 0), (0, 1), (-1, 0)], np.sqrt(0.5), id="three"),
    ],
)
def test_temperature_of_a_few_vectors(vectors, expected):
    """Two clients: |D|_F = d sqrt(2), so T = d sqrt(2) / (2 sqrt(2)) = d / 2 with d = 1 - cos.

    Three: distances 1, 1, 2 give |D|_F^2 = 2 (1 + 1 + 4) = 12 and T = sqrt(12) / (2 sqrt(6)) = sqrt(1/2).
    """
    assert compute_temperature(build_updates(clients(*vectors)).cosine_distances_KK) == pytest.approx(
        expected, abs=1e-6
    )


@pytest.mark.parametrize("num_clients", [0, 1])
def test_fewer_than_two_clients_have_temperature_zero(num_clients):
    assert compute_temperature(np.zeros((num_clients, num_clients))) == 0.0
