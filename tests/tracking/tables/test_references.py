"""solo and oracle in tables and tests: rows to compare with, never the best and never ranked."""

from fedgrid.tracking.report.contents import build_report_page
from fedgrid.tracking.scoring.measures import FINAL_ARI
from fedgrid.tracking.scoring.statistics import compare_algorithms
from fedgrid.tracking.tables.clustering import build_clustering_table
from fedgrid.tracking.tables.scenarios import overview
from fedgrid.tracking.tables.table import NONE
from tests.helpers.studies import WHOLE, make_result, make_run, make_study

CURVES = {"oracle": 0.9, "solo": 0.8, "fedavg": 0.5, "sattler": 0.7}
"""Personalised F1; both references do better than either competitor."""
LABELS = {
    "oracle": WHOLE,
    "solo": [range(6)] * 2,
    "fedavg": [(0, 1) * 3] * 2,
    "sattler": [(0, 0, 1, 1, 1, 1)] * 2,
}
SCORED = ("personalised_f1", "personalised_accuracy", "worst_client_accuracy", "jain_index")
NOTE = "oracle and solo are for reference: not ranked, not tested, never in bold."


def study(algorithms=tuple(CURVES), scenarios=6):
    """Six scenarios, which differ in their number of clients."""
    return make_study(
        [
            make_result(
                make_run(name, clients=clients, is_reference=name in ("oracle", "solo")),
                [list(labels) for labels in LABELS[name]],
                curves={curve: (CURVES[name],) * 2 for curve in SCORED},
            )
            for clients in range(10, 10 + scenarios)
            for name in algorithms
        ]
    )


def bold(table, column):
    """Return the rows whose cell in a column is bold."""
    place = [each.name for each in table.columns].index(column)
    return [row.name for row in table.rows if row.cells[place].bold]


def test_best_of_an_overview_is_a_competitor_and_references_have_no_rank():
    table = overview(study())
    assert [(row.name, row.is_reference) for row in table.rows] == [
        *(("fedavg", False), ("sattler", False), ("oracle", True), ("solo", True)),
    ]
    assert bold(table, FINAL_ARI.name) == ["sattler"]
    ranks = {row.name: row.cells[-1].text for row in table.rows}
    assert ranks == {"fedavg": "2.00", "sattler": "1.00", "oracle": NONE, "solo": NONE}
    assert table.caption.count(NOTE) == 1


def test_unfinished_reference_does_not_hide_the_best():
    whole = study(("fedavg", "sattler"), scenarios=1)
    part = make_study(whole.finished, [make_run("oracle", clients=10, is_reference=True)])
    assert bold(build_clustering_table(part, final=True), "ARI") == ["sattler"]


def test_tests_of_significance_are_between_competitors():
    """sattler is better than fedavg in six scenarios of six: p = 2 / 2^6. The references would be better."""
    result = compare_algorithms(study(), FINAL_ARI)
    assert (result.algorithms, result.ranks) == (("sattler", "fedavg"), (1.0, 2.0))
    assert [(pair.one, pair.other, pair.p) for pair in result.pairs] == [("sattler", "fedavg", 2 / 64)]
    assert NOTE in result.remarks
    assert not any("left out" in remark for remark in result.remarks)


def test_no_table_of_a_report_has_a_reference_in_bold():
    """Whatever the tables are: one that compares rows has a competitor as its best, and says why."""
    compared = 0
    for table in build_report_page(study()).list_tables():
        rows = [row for row in table.rows if row.name in ("oracle", "solo")]
        assert not any(cell.bold for row in rows for cell in row.cells), table.name
        if rows and any(cell.bold for row in table.rows for cell in row.cells):
            compared += 1
            assert NOTE in table.caption, table.name
    assert compared > 3


def test_captions_of_a_grid_without_references_say_nothing_of_them():
    page = build_report_page(study(("fedavg", "sattler")))
    assert not any("for reference" in table.caption for table in page.list_tables())
    assert not any("for reference" in plate.caption for plate in page.list_figures())
