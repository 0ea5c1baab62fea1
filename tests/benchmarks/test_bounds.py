"""Bounds on the influence of entries: three clients with four entries, by hand."""

import numpy as np

from benchmarks.groups import factors
from benchmarks.groups.bounds import (
    BOUNDS_CSV,
    CELLS,
    DISTANCES,
    compute_distances,
    drop_last_layer,
    find_groups,
    scale_tensors,
    take_signs,
)
from benchmarks.groups.bounds_report import (
    BEGIN,
    END,
    PAGE,
    compare_kinds,
    format_agreement,
    format_results,
    select_whole_seeds,
)
from benchmarks.groups.factors import FAMILIES, Federation, Row
from benchmarks.groups.factors_report import BOTH, replace_text
from fedgrid.algorithms.updates.source import Layout
from fedgrid.algorithms.updates.updates import Updates

UPDATES = np.array([[1.0, 0.0, 2.0, 5.0], [2.0, 0.0, 2.0, -5.0], [3.0, 0.0, 8.0, 0.0]])
"""Means 2, 0, 4 and 0."""
LAYOUT = Layout(("body.weight", "last.weight", "last.bias"), ((2,), (1,), (1,)), 4)


def test_signs_of_centred_updates():
    assert take_signs(UPDATES).tolist() == [[-1, 0, -1, 1], [0, 0, -1, -1], [1, 0, 1, 0]]


def test_one_scale_a_tensor():
    """Mean squares, centred: (1 + 1) / 6 of the first tensor, (4 + 4 + 16 + 25 + 25) / 6 of the other."""
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


def test_seeds_that_lack_a_family_are_left_out():
    rows = [
        Row(*Federation("digits", family, seed), "sign", "pooled", "told", 1, 1.0, 2)
        for seed in (8000, 8001)
        for family in FAMILIES
    ]
    assert {row.seed for row in select_whole_seeds(rows[:-1])} == {8000}
    assert select_whole_seeds(rows) == rows


def test_kinds_are_the_blocks_of_a_difference():
    """On digits signs alone are right in all families of two kinds, on MNIST in half of one kind's: over both
    two of eight kinds are better, by 0.75 and 0.5."""
    rows = []
    for dataset, winners in (("digits", ("swapped-", "noisy-")), ("mnist", ("swapped-equal",))):
        for family in FAMILIES:
            for distances, right in (("sign", family.startswith(winners)), ("standardised", False)):
                row = Row(dataset, family, 8000, distances, "pooled", "told", int(right), 0.0, 2)
                rows += [row, row._replace(distances="one-scale", right=0), row._replace(rounds="first")]
    test = compare_kinds(rows, BOTH)["pooled: signs - standardised"]
    assert (test.better, test.equal, test.worse) == (2, 6, 0)
    assert sum(test.differences) == 0.75 + 0.5
    assert test.p == 0.5, "2 / 2^2: two signs that agree"


def test_agreement_counts_rows_of_old_cells():
    """Three rows computed again: one the same, one with another ARI, one no longer right; a new cell."""
    rows = [
        Row("mnist", "swapped-equal", seed, "raw", "one", "told", 1, 1.0, 4) for seed in (8000, 8001, 8002)
    ]
    again = [rows[0], rows[1]._replace(ari=0.9), rows[2]._replace(right=0), rows[0]._replace(rounds="first")]
    assert "mnist 1 of 3 (1)" in format_agreement(again, rows)


def test_page_is_in_step_with_the_rows():
    page = PAGE.read_text(encoding="utf-8")
    results = format_results(select_whole_seeds(factors.read_rows(BOUNDS_CSV)), factors.read_rows())
    assert page == replace_text(page, BEGIN, END, results)
