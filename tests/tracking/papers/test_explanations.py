"""Tables of scores of explanations beside the published, and what a report has of them."""

from dataclasses import replace
from math import nan

import pytest

from fedgrid.grids.explain.shown.sections import build_published_sections
from fedgrid.tracking.papers.ocfl import numbers
from fedgrid.tracking.papers.ocfl.explanations import build_ranks_table, build_scores_table
from fedgrid.tracking.report.contents import build_report_page
from fedgrid.tracking.report.page import Choice
from fedgrid.tracking.tables.table import FAR_NOTE
from tests.helpers.explanations import load_published, make_explained
from tests.helpers.studies import WHOLE, make_result, make_run, make_study, read_texts

MEANS = {
    ("BNC", "members"): (0.377, 0.253, 0.124),
    ("OCFL-KM", "members"): (0.567, 0.428, 0.139),
    ("OCFL-HDB", "members"): (0.563, 0.416, 0.147),
    ("OCFL-AFF", "server"): (0.398, 0.332, 0.066),
    ("SCL", "server"): (0.401, 0.319, 0.081),
}
"""Section 7 of the facts: means over 20 scenarios."""
COLUMNS = ("members", "others", "server")


def row_of(table, algorithm, section="data sets: all"):
    [row] = [row for row in table.rows if (row.name, row.section) == (algorithm, section)]
    return row.cells


def test_means_over_all_scenarios_are_those_of_the_authors():
    table = build_scores_table(load_published())
    for (algorithm, on), expected in MEANS.items():
        at = 3 * COLUMNS.index(on)
        cells = row_of(table, algorithm)[at : at + 3]
        assert [cell.value for cell in cells] == pytest.approx(expected, abs=5e-4)
        assert [cell.text for cell in cells] == [f"{value:.3f} / {value:.3f}" for value in expected]
        assert {(cell.tone, cell.notes) for cell in cells} == {("", ())}


def test_missing_scores_are_counted_in_their_cell():
    others = row_of(build_scores_table(load_published()), "SCL")[3]
    assert (others.text, others.tone) == ("0.627 (8/20) / 0.627", "partial")
    assert row_of(build_scores_table(load_published()), "BNC")[3].text == "– (0/20)"


def test_own_score_that_is_far_from_the_published_has_a_note_and_its_direction():
    """Published: insertion 0.565 and deletion 0.354."""
    scenario = ("mnist", 15, "nonoverlapping-balanced")
    assert numbers.read_explanations()[scenario, "BNC", "members"] == pytest.approx((0.565, 0.354), abs=5e-4)
    own = replace(make_explained("BNC", 0.9, 0.3), scenario=scenario)
    insertion, deletion, *_ = row_of(build_scores_table([own]), "BNC", "data sets: mnist")
    assert (insertion.text, insertion.tone, insertion.notes) == ("0.900 / 0.565", "better", (FAR_NOTE,))
    assert (deletion.text, deletion.tone, deletion.notes) == ("0.300 / 0.354", "better", ())


def test_scenario_that_was_not_published_stands_alone():
    cells = row_of(
        build_scores_table([make_explained("BNC", 0.9, 0.3, dataset="digits")]), "BNC", "data sets: digits"
    )
    assert [cell.text for cell in cells] == ["0.900", "0.300", "0.600", *["·"] * 6]


def test_ranks_are_printed_in_both_directions():
    cells = read_texts(build_ranks_table(load_published(), "members"))
    assert cells["fedavg"] == ["5.95", "1.80", "4.35", "5.95", "6.20"]
    assert cells["ocfl-kmeans"] == ["2.55", "5.35", "3.75", "2.55", "2.65"]


def test_ranks_without_a_score_are_dashes_and_the_caption_says_why():
    table = build_ranks_table(load_published(), "others")
    # fedavg's published ranks are NaN, sattler's are of eight scenarios.
    cells = read_texts(table)
    assert cells["fedavg"] == ["–"] * 5
    assert cells["sattler"] == ["–", "–", "–", "3.63", "3.13"]
    assert "sattler is left out: it has a score in 8 of 20 scenarios." in table.caption


def test_report_has_a_section_for_each_number_of_clients():
    more = replace(make_explained("BNC", 0.5, 0.2), scenario=("cifar10", 30, "overlapping-balanced"))
    sections = list(build_published_sections([*load_published(), more]))
    assert [section.name for section in sections] == ["explanations-15", "explanations-30"]
    assert "no algorithm is found to differ from fedavg" in sections[0].text
    page = build_report_page(
        make_study([make_result(make_run(), WHOLE)]),
        analyses=tuple(build_published_sections([*load_published(), more])),
    )
    tables, plates = {each.name for each in page.list_tables()}, {each.name for each in page.list_figures()}
    assert {"explanations-15", "explanations-30", "explanation-ranks-others-15"} <= tables
    assert {"significance-gap-on-server-15", "significance-deletion-on-members-15"} <= tables
    assert {"ranks-deletion-on-members-as-published-15", "explanations-insertion-server-15"} <= plates


def test_diagram_as_published_says_that_its_first_rank_is_the_worst():
    [section] = build_published_sections(load_published())
    diagrams = dict(section.items[2].options)
    assert isinstance(section.items[2], Choice)
    assert len(diagrams) == 12
    assert "the highest deletion, which is the worst" in diagrams["deletion on members as published"].caption
    assert "1 is best" in diagrams["deletion on members"].caption
    assert "sattler is left out" in diagrams["gap on others"].caption
    drawn = diagrams["deletion on members as published"].draw()
    assert "average rank over 20 scenarios, 1 is highest" in [text.get_text() for text in drawn.axes[0].texts]


def test_score_that_is_nan_is_counted_as_missing():
    rows = [
        make_explained("BNC", nan, 0.3),
        make_explained("BNC", 0.5, 0.2, split="nonoverlapping-imbalanced"),
    ]
    insertion, deletion, gap, *_ = row_of(build_scores_table(rows), "BNC", "data sets: mnist")
    assert (insertion.value, gap.value) == (0.5, 0.3)
    assert "(1/2)" in insertion.text
    assert "(" not in deletion.text


def test_gaps_of_a_data_set_are_those_of_the_authors():
    table = build_scores_table(load_published())
    for algorithm, gap in (("BNC", 0.169), ("OCFL-AFF", -0.046), ("OCFL-HDB", 0.164)):
        cells = row_of(table, algorithm, "data sets: fmnist")
        assert cells[2].value == pytest.approx(gap, abs=5e-4)
