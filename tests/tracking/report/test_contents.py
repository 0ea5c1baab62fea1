"""Which figures and tables a report has, without drawing them."""

import re

import pytest

from docs.reference.report import pages
from fedgrid.tracking.report.contents import build_report_page
from fedgrid.tracking.report.page import CaptionedFigure, Choice
from fedgrid.tracking.tables.table import NONE
from tests.helpers.studies import WHOLE, make_result, make_run, make_study

RIGHT = {"learning_gap": (0.1, 0.2), "learning_gap_loss": (1, 2), "published_learning_gap": (0.3, 0.4)}


def study(*datasets, curves=None):
    known = {name: (0.5, 0.6) for name in ("bytes", "temperature", "ari")}
    runs = [make_run(name, dataset=dataset) for dataset in datasets for name in ("fedavg", "ocfl-kmeans")]
    return make_study([make_result(run, WHOLE, curves={**known, **(curves or RIGHT)}) for run in runs])


def figures(of):
    """The names of a report's figures with what varies replaced by what the documentation writes."""
    names = [plate.name for plate in build_report_page(of).list_figures()]
    pairs = (
        ("-nonoverlapping-balanced", "-SPLIT"),
        ("(mnist|digits)", "DATASET"),
        ("-15", "-CLIENTS"),
        ("^ranks-.*", "ranks-SCORE"),
    )
    for pattern, word in pairs:
        names = [re.sub(pattern, word, name) for name in names]
    return set(names)


def test_reference_lists_the_figures_of_a_report():
    """A grid with a further axis has `axis-KEY`, one with two `sweep-KEY-by-KEY-DATASET`, too.

    One with six scenarios has `ranks-SCORE`.
    """
    page = pages()["reference/report.md"].partition("## Tables")[0]
    documented = set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE))
    others = {"axis-KEY", "sweep-KEY-by-KEY-DATASET", "ranks-SCORE"}
    curves = {**RIGHT, "silhouette": (0.1, 0.2), "global_accuracy": (0.1, 0.2)}
    curves |= {"epsilon": (1.0, 2.0)}
    assert figures(study("mnist", "digits", curves=curves)) == documented - others
    assert others <= documented


def test_means_over_scenarios_take_several_scenarios():
    means = {"temperature-raw", "temperature-normalised", "temperature-all"}
    assert figures(study("mnist", "digits")) - figures(study("mnist")) == means


def test_ranks_take_as_many_scenarios_as_a_test_and_the_overview_says_so():
    curves = {**RIGHT, "personalised_f1": (0.1, 0.2)}
    few, many = (
        build_report_page(study(*(f"set{place}" for place in range(count)), curves=curves))
        for count in (5, 6)
    )
    assert "at least 6 scenarios" in few.sections[0].text
    assert not many.sections[0].text
    ranks = [
        [plate for plate in page.list_figures() if plate.name.startswith("ranks-")] for page in (few, many)
    ]
    assert [bool(names) for names in ranks] == [False, True]


def test_a_gap_that_no_run_recorded_is_left_out():
    archived = study("mnist", curves={"published_learning_gap": (0.3, 0.4)})
    assert {name for name in figures(archived) if name.startswith("gap")} == {"gap-published-DATASET-CLIENTS"}
    nothing = study("mnist", curves={"ari": (0, 1)})
    assert not any(name.startswith("gap") for name in figures(nothing))


def test_runs_without_hidden_groups_have_no_ari():
    """Neither a number in a table, a figure nor a rank."""
    without = make_study([make_result(make_run(name), WHOLE, (0,) * 6) for name in ("fedavg", "ocfl-kmeans")])
    page = build_report_page(without)
    assert not {plate.name for plate in page.list_figures()} & {
        "ari-mnist-15",
        "ranks-final-ari",
        "ranks-mean-ari",
    }
    tables = {table.name: table for table in page.list_tables()}
    assert {row.cells[2].text for row in tables["overview"].rows} == {NONE}


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_figure_by_round_names_a_band_of_several_seeds(seeds):
    runs = [make_run("fedavg", seed=seed) for seed in range(seeds)]
    page = build_report_page(make_study([make_result(run, WHOLE, curves=RIGHT) for run in runs]))
    for kind in ("accuracy", "f1", "fairness", "ari", "sizes", "gap", "gap-loss"):
        [plate] = [plate for plate in page.list_figures() if plate.name == f"{kind}-mnist-15"]
        assert ("standard deviation" in plate.caption) == (seeds > 1), kind


def test_figures_that_are_alternatives_are_a_choice_and_a_single_one_is_none():
    (section,) = [part for part in build_report_page(study("mnist")).sections if part.name == "mnist"]
    labels = [[label for label, _ in item.options] for item in section.items if isinstance(item, Choice)]
    assert labels[:3] == [
        ["accuracy", "F1", "fairness", "learning gap", "gap in loss", "gap as published"],
        ["ARI", "sizes of clusters", "temperature"],
        ["clusters", "each client"],
    ]


def test_of_alternatives_the_first_is_drawn_unless_all_are_asked_for_and_the_clusters_of_each_split():
    splits = ("nonoverlapping-balanced", "overlapping-balanced")
    runs = [make_result(make_run(split=split), WHOLE, curves=RIGHT) for split in splits]
    names = [plate.name for plate in build_report_page(make_study(runs)).list_figures(all_figures=False)]
    maps = [f"clusters-mnist-15-{split}" for split in splits]
    assert names == ["accuracy-mnist-15", "ari-mnist-15", *maps, "cost-mnist-15", "temperature-raw"]


def test_a_data_set_with_one_number_of_clients_is_one_section():
    runs = [make_run(name, clients=clients) for name in ("fedavg", "sattler") for clients in (15, 30)]
    results = [make_result(run, WHOLE, curves=RIGHT) for run in runs]
    for some, parts in ((results[::2], []), (results, ["mnist-15", "mnist-30", "mnist-all"])):
        (section,) = [part for part in build_report_page(make_study(some)).sections if part.name == "mnist"]
        assert [part.name for part in section.sections] == parts


def test_tables_of_auc_and_calibration_need_a_run_that_recorded_them():
    recorded = {**RIGHT, "personalised_auc": (0.7, 0.8), "personalised_ece": (0.2, 0.1)}
    less, more = (build_report_page(study("mnist", curves=curves)) for curves in (RIGHT, recorded))
    (table,) = [table for table in more.list_tables() if table.name == "probabilities-mnist"]
    assert table.name not in {one.name for one in less.list_tables()}
    assert [column.name for column in table.columns[4:]] == ["pers. AUC", "gen. AUC", "pers. ECE", "gen. ECE"]
    assert [cell.text for cell in table.rows[0].cells[4:]] == ["0.800", "–", "0.100", "–"]


def test_many_clients_have_no_curve_each_and_the_map_of_clusters_is_no_choice():
    run = make_result(make_run(clients=41), WHOLE)
    (section,) = [part for part in build_report_page(make_study([run])).sections if part.name == "mnist"]
    assert [item.name for item in section.items if isinstance(item, CaptionedFigure)] == [
        "clusters-mnist-41-nonoverlapping-balanced"
    ]


def test_numbers_of_algorithms_own_are_a_table_and_without_any_there_is_none():
    assert all(part.name != "own-numbers" for part in build_report_page(study("mnist")).sections)
    runs = [
        make_result(make_run(), WHOLE, curves={"gini": (0.2, 0.5)}),
        make_result(make_run("ocfl-kmeans"), WHOLE),
    ]
    (section,) = [part for part in build_report_page(make_study(runs)).sections if part.name == "own-numbers"]
    assert [row.cells[0].text for row in section.items[0].rows] == ["0.500", "–"]
