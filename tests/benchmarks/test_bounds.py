"""Bounds on the influence of entries: three clients with four entries, by hand."""

import numpy as np

from benchmarks.groups.bounds import (
    CELLS,
    DISTANCES,
    compute_distances,
    drop_last_layer,
    find_groups,
    scale_tensors,
    take_signs,
)
from fedgrid.algorithms.updates.source import Layout
from fedgrid.algorithms.updates.updates import Updates

UPDATES = np.array([[1.0, 0.0, 2.0, 5.0], [2.0, 0.0, 2.0, -5.0], [3.0, 0.0, 8.0, 0.0]])
"""Means 2, 0, 4 and 0."""
LAYOUT = Layout(("body.weight", "last.weight", "last.bias"), ((2,), (1,), (1,)), 4)


def test_signs_of_centred_updates():
    assert take_signs(UPDATES).tolist() == [[-1, 0, -1, 1], [0, 0, -1, -1], [1, 0, 1, 0]]


def test_one_scale_a_tensor():
    """Mean squares, centred: (1 + 0 + 1) / 6 of the first tensor, (4 + 4 + 16 + 25 + 25 + 0) / 6 of the other."""
    first, second = np.sqrt(2 / 6), np.sqrt(74 / 6)
    expected = [
        [-1 / first, 0, -2 / second, 5 / second],
        [0, 0, -2 / second, -5 / second],
        [1 / first, 0, 4 / second, 0],
    ]
    np.testing.assert_allclose(scale_tensors(UPDATES, [2, 2]), expected)


def test_tensor_without_differences_becomes_zeros():
    assert scale_tensors(UPDATES, [1, 1, 2])[:, 1].tolist() == [0, 0, 0]


def test_last_layer_is_dropped_with_its_bias():
    assert drop_last_layer(UPDATES, LAYOUT).tolist() == [[1, 0], [2, 0], [3, 0]]


def test_distances_see_directions():
    """Twice an update has its direction, so that centred clients lie on both sides of their mean."""
    vectors = {0: UPDATES[0], 1: 2 * UPDATES[0], 2: UPDATES[1]}
    updates = Updates({client: row.astype(np.float32) for client, row in vectors.items()}, LAYOUT)
    distances = compute_distances(updates, LAYOUT)
    np.testing.assert_allclose(distances["one-scale"], [[0, 0, 2], [0, 0, 2], [2, 2, 0]], atol=1e-6)
    assert list(distances) == ["sign", "one-scale", "without-last-layer"]


def test_cells_see_their_round():
    """Round 1 shows other groups than the later ones; pooled, four later rounds outweigh it."""
    first_KK, later_KK = (
        (labels_K[:, None] != labels_K).astype(float) for labels_K in (np.arange(8) % 2, np.arange(8) // 4)
    )
    rounds = [dict.fromkeys(DISTANCES, each) for each in (first_KK, *[later_KK] * 4)]
    found = dict(find_groups(rounds, 2, 8000))
    assert set(CELLS) <= set(found)
    assert found["sign", "first", "told"] == [[0, 2, 4, 6], [1, 3, 5, 7]]
    for extent in ("second", "one", "pooled"):
        assert found["sign", extent, "told"] == [[0, 1, 2, 3], [4, 5, 6, 7]]
