"""The experiment on standardised distances, pooled rounds and the number of groups, by hand."""

from itertools import product

import numpy as np
import pytest

from benchmarks.groups import factors, factors_report
from benchmarks.groups.factors import CELLS, DATASETS, FAMILIES, PARTS, Federation, Row
from benchmarks.groups.factors_report import (
    PLANNED,
    average_by_family,
    compare_cells,
    format_results,
    format_sentence,
)
from benchmarks.groups.stored import Round, SharedPrefix

PAIRS, OTHER_PAIRS = np.arange(8) // 4, np.arange(8) % 2


def cosines(labels_K: np.ndarray) -> np.ndarray:
    """Return the cosines of two groups of clients, 0.8 within a group and 0 between them."""
    same_KK = (labels_K[:, None] == labels_K[None, :]).astype(float)
    return 0.8 * same_KK + 0.2 * np.eye(len(labels_K))


def made_rows(*, helps: bool) -> list[Row]:
    """Return rows in which cells are right if their distances are standardised, or the other way round."""
    rows = []
    for federation, cell in product(factors.list_federations(), CELLS):
        grouped = FAMILIES[federation.family].num_groups > 0
        if grouped or cell[2] != "told":
            right = (cell[0] == "standardised") == helps
            rows.append(Row(*federation, *cell, int(right), float(right), 2 - right))
    return rows


def test_cells_see_their_distances_and_rounds():
    """Raw distances show other groups than standardised ones, whose last round shows nothing."""
    nobody = np.eye(8)
    rounds = [
        Round(tuple(range(8)), cosines(OTHER_PAIRS), 1.0 - cosines_KK)
        for cosines_KK in (cosines(PAIRS), cosines(PAIRS), nobody)
    ]
    rows = factors.build_rows(Federation("digits", "dimmed-equal", 8000), SharedPrefix(PAIRS, 8000, rounds))
    found = {row[3:6]: (row.right, row.clusters) for row in rows}
    assert list(found) == list(CELLS)
    assert found["raw", "one", "told"] == found["raw", "pooled", "told"] == (0, 2)
    assert found["standardised", "one", "told"] == (0, 1), "no two clients are nearer than others"
    assert found["standardised", "pooled", "told"] == (1, 2)
    assert found["standardised", "pooled", "silhouette"] == (1, 2)
    assert found["standardised", "one", "evidence"] == (0, 1)
    without = factors.build_rows(Federation("digits", "iid", 8000), SharedPrefix(PAIRS, 8000, rounds))
    assert [row[5] for row in without] == ["silhouette", "evidence"] * 4
    assert {row[3:6]: row.right for row in without}["standardised", "pooled", "silhouette"] == 0


def test_planned_differences_of_made_rows():
    """32 families that agree: p = 2 / 2^32, times at most eleven; pooling and the number do nothing."""
    found = compare_cells(average_by_family(made_rows(helps=True), "digits", "right"))
    expected = [1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0]
    assert [each.mean for each in found.values()] == pytest.approx(expected)
    assert found["given: both remedies - neither"].test.p == pytest.approx(2 / 2**32)
    assert found["given: both remedies - neither"].agreement == 1
    assert found["given, raw: pooled - one round"].p == 1
    assert all(sum(weights.values()) == pytest.approx(0) for weights in PLANNED.values())


@pytest.mark.parametrize(("helps", "verdict"), [(True, "sentence holds"), (False, "is refuted")])
def test_sentence_follows_the_rows(helps: bool, verdict: str):
    assert verdict in format_sentence(made_rows(helps=helps))


def test_results_are_compared_once_all_parts_are_run():
    rows = made_rows(helps=True)
    assert "ARI: mean difference" in format_results(rows)
    assert factors_report.draw_shares(rows).axes[0].get_title() == DATASETS[0]
    last = Federation(*rows[-1][:3])
    part = [row for row in rows if Federation(*row[:3]) != last]
    assert format_results(part).startswith("Not compared")
    assert f"part {max(PARTS)}: 1 federations" in format_results(part)


def test_rows_are_written_sorted_and_read_again(tmp_path):
    rows = made_rows(helps=True)[:30]
    factors.write_rows(rows[::-1], tmp_path / "rows.csv")
    assert factors.read_rows(tmp_path / "rows.csv") == sorted(rows)


def test_page_is_in_step_with_the_rows():
    page = factors_report.PAGE.read_text(encoding="utf-8")
    assert page == factors_report.insert_results(page, factors.read_rows())
