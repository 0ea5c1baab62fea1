"""Scores over the further axes of a grid: no two values of an axis are averaged as seeds, or collide."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from fedgrid.tracking import figures
from fedgrid.tracking.records import Columns
from fedgrid.tracking.report.contents import build_report_page
from fedgrid.tracking.scoring.axes import find_axes, list_axis_values, select_along_axis, select_setting
from fedgrid.tracking.scoring.measures import FINAL_ARI, PA_LAST
from fedgrid.tracking.scoring.statistics import compare_algorithms
from fedgrid.tracking.tables.axes import build_axis_table, build_sweep_table
from fedgrid.tracking.tables.clustering import build_clustering_table
from fedgrid.tracking.tables.scenarios import build_scenarios_table
from fedgrid.tracking.tables.table import ABSENT
from tests.helpers.studies import ONE, WHOLE, make_result, make_run, make_study

EPOCHS, MAJORITY, THRESHOLD = "training.local_epochs", "split.majority", "algorithm.threshold"


def finished(accuracy, *, algorithm="fedavg", method=None, labels_RK=ONE, seed=0, **axes):
    pairs = tuple((key, axes[name]) for name, key in NAMES.items() if name in axes)
    run = make_run(algorithm, seed=seed)
    name = " ".join([run.name, *(value for _, value in pairs)])
    run = replace(run, run_id=name, name=name, method=method or algorithm, axes=pairs)
    return make_result(run, labels_RK, curves={"personalised_accuracy": [0.0, accuracy]})


NAMES = {"epochs": EPOCHS, "majority": MAJORITY, "threshold": THRESHOLD}


def two_axes():
    """fedavg: 0.1 and 0.3 with 1 epoch, 0.5 and 0.7 with 10; sattler right with 10 epochs only."""
    fedavg = [
        finished(0.1, epochs="1", majority="0.5"),
        finished(0.3, epochs="1", majority="1"),
        finished(0.5, epochs="10", majority="0.5"),
        finished(0.7, epochs="10", majority="1"),
    ]
    scl = [
        finished(
            0.2,
            algorithm="sattler",
            labels_RK=WHOLE if epochs == "10" else ONE,
            epochs=epochs,
            majority=share,
        )
        for epochs in ("1", "10")
        for share in ("0.5", "1")
    ]
    return make_study([*fedavg, *scl])


def thresholds():
    return make_study(
        [
            finished(0.4, algorithm="briggs (threshold 0.5)", method="briggs", threshold="0.5"),
            finished(0.6, algorithm="briggs (threshold 0.1)", method="briggs", threshold="0.1"),
            finished(0.9),
        ]
    )


def rows_of(table):
    return {row.name: [cell.value for cell in row.cells] for row in table.rows}


def test_the_axes_of_a_study_have_two_values_or_more():
    study = two_axes()
    assert find_axes(study) == (EPOCHS, MAJORITY)
    assert find_axes(select_setting(study, study.settings[0])) == ()
    assert list_axis_values(thresholds(), THRESHOLD) == ("0.1", "0.5")
    assert len(thresholds().scenarios) == 1, "settings of an algorithm do not split scenarios"


def test_the_table_of_an_axis_has_a_mean_over_the_other_axes_for_each_value():
    table = build_axis_table(two_axes(), EPOCHS)
    assert [(column.group, column.name) for column in table.columns] == [
        *((PA_LAST.name, value) for value in ("1", "10")),
        *((FINAL_ARI.name, value) for value in ("1", "10")),
    ]
    assert rows_of(table)["fedavg"] == pytest.approx([0.2, 0.6, 0.0, 0.0])
    assert rows_of(table)["sattler"] == pytest.approx([0.2, 0.2, 0.0, 1.0])
    assert table.name == "axis-training.local_epochs"


def test_two_values_of_an_axis_are_not_two_seeds():
    """A mean over seeds has a spread; a mean over the values of another axis has none."""
    [row, *_] = build_axis_table(two_axes(), EPOCHS).rows
    assert {cell.spread for cell in row.cells} == {None}
    seeds = make_study(
        [finished(0.1 * seed, seed=seed, epochs=epochs) for seed in (1, 3) for epochs in ("1", "5")]
    )
    [row] = build_axis_table(seeds, EPOCHS).rows
    assert row.cells[0].spread == pytest.approx(np.std([0.1, 0.3], ddof=1))


def test_a_setting_of_an_algorithm_has_one_row_for_all_of_its_values():
    table = build_axis_table(thresholds(), THRESHOLD)
    assert [row.name for row in table.rows] == ["briggs"]
    assert rows_of(table)["briggs"][:2] == pytest.approx([0.6, 0.4])
    assert [run.algorithm for run in select_along_axis(thresholds(), THRESHOLD).runs] == ["briggs", "briggs"]


def test_a_value_that_an_algorithm_was_not_run_with_is_absent():
    study = make_study(
        [finished(0.1, epochs="1"), finished(0.2, epochs="5"), finished(0.3, algorithm="sattler", epochs="1")]
    )
    cells = {row.name: row.cells for row in build_axis_table(study, EPOCHS).rows}
    assert [cell.text == ABSENT for cell in cells["sattler"]] == [False, True, False, True]


def test_a_value_that_was_run_in_fewer_scenarios_says_so():
    study = two_axes()
    fewer = make_study([r for r in study.finished if r.axes != ((EPOCHS, "10"), (MAJORITY, "1"))])
    cells = {row.name: row.cells for row in build_axis_table(fewer, EPOCHS).rows}["fedavg"]
    assert [cell.text for cell in cells[:2]] == ["0.200", "0.500 (1/2)"]
    assert [cell.bold for cell in cells[:2]] == [True, False]


def test_every_combination_of_values_is_a_scenario_of_its_own():
    study = two_axes()
    assert len(study.scenarios) == 4
    assert {len(cell.runs) for cell in study.cells().values()} == {1}
    assert compare_algorithms(study, PA_LAST).num_scenarios == 4
    table = build_scenarios_table(study)
    assert [column.name for column in table.columns[3:5]] == [EPOCHS, MAJORITY]
    assert [[cell.text for cell in row.cells[3:5]] for row in table.rows[:1]] == [["1", "0.5"]]
    assert len(table.rows) == 8


@pytest.mark.parametrize(
    "shown", [lambda study: build_clustering_table(study, final=True), partial(figures.per_round, kind="ari")]
)
def test_what_is_of_one_scenario_refuses_to_mix_settings(shown):
    with pytest.raises(ValueError, match="setting="):
        shown(two_axes())
    assert shown(two_axes().where(setting=two_axes().settings[0]))


def test_a_report_has_a_table_and_a_figure_for_each_axis_and_a_section_for_each_setting():
    page = build_report_page(two_axes())
    tables, plates = (
        [table.name for table in page.list_tables()],
        [plate.name for plate in page.list_figures()],
    )
    for axis in (EPOCHS, MAJORITY):
        assert f"axis-{axis}" in tables
        assert f"axis-{axis}" in plates
        assert axis in dict(page.facts)
    assert len(set(tables)) == len(tables)
    assert len(set(plates)) == len(plates)
    assert "table1-mnist-15-training.local_epochs-10-split.majority-0.5" in tables
    assert {f"sweep-{EPOCHS}-by-{MAJORITY}-mnist", f"sweep-{MAJORITY}-by-{EPOCHS}-mnist"} <= {*tables} & {
        *plates
    }
    assert [section.title for section in page.sections if section.title.startswith("mnist")] == [
        f"mnist, 15 clients, training.local_epochs {epochs}, split.majority {share}"
        for epochs in ("1", "10")
        for share in ("0.5", "1")
    ]


def lines_of(axes):
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}


def test_the_figure_of_an_axis_has_a_line_for_each_algorithm_over_its_values():
    accuracy, ari = figures.over_axis(two_axes(), EPOCHS).axes
    assert lines_of(accuracy)["fedavg"] == ([1, 10], pytest.approx([0.2, 0.6]))
    assert lines_of(ari)["sattler"] == ([1, 10], [0, 1])
    assert accuracy.get_xlabel() == EPOCHS
    assert accuracy.get_xscale() == "log"
    assert [text.get_text() for text in accuracy.get_xticklabels()] == ["1", "10"]


def test_values_that_are_no_numbers_stand_side_by_side():
    study = make_study([finished(0.1, majority="drawn"), finished(0.2, majority="published")])
    axes, _ = figures.over_axis(study, MAJORITY).axes
    assert lines_of(axes)["fedavg"][0] == [0, 1]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["drawn", "published"]


def test_a_band_reaches_over_the_seeds():
    study = make_study(
        [finished(0.1 * seed, seed=seed, epochs=epochs) for seed in (1, 3) for epochs in ("1", "5")]
    )
    axes, _ = figures.over_axis(study, EPOCHS).axes
    assert lines_of(axes)["fedavg"][1] == pytest.approx([0.2, 0.2])
    [patch] = axes.patches
    assert {round(y, 6) for _, y in patch.get_xy()} == {0.1, 0.3}


def test_a_figure_of_an_axis_without_a_result_says_so():
    run = finished(0.1, epochs="1")
    other = finished(0.1, epochs="5")
    axes, _ = figures.over_axis(make_study([], [run, other]), EPOCHS).axes
    assert "no run is" in axes.texts[0].get_text()


def beta_by_epochs():
    """FLIS-DC over two thresholds with 1 and 10 epochs: accuracy is threshold / 10 + epochs / 20."""
    return make_study(
        [
            finished(
                float(value) / 10 + epochs / 20,
                algorithm=f"FLIS-DC (threshold {value})",
                method="FLIS-DC",
                epochs=str(epochs),
                threshold=value,
            )
            for value in ("0.1", "0.3")
            for epochs in (1, 10)
        ]
    )


def test_the_figure_of_two_axes_has_a_row_for_each_algorithm():
    axes = figures.sweep(two_axes(), MAJORITY, EPOCHS).axes
    assert len(axes) == 4
    assert lines_of(axes[0])[f"{EPOCHS} 10"][1] == pytest.approx([0.5, 0.7])
    assert lines_of(axes[3])[f"{EPOCHS} 10"][1] == [1, 1]


def test_the_figure_of_two_axes_refuses_to_mix_data_sets():
    other = replace(two_axes().finished[0], dataset="digits", run_id="other")
    with pytest.raises(ValueError, match="several data sets"):
        figures.sweep(make_study([*two_axes().finished], [other]), MAJORITY, EPOCHS)


def test_the_table_of_two_axes_has_a_row_for_each_value_of_the_second():
    table = build_sweep_table(beta_by_epochs(), THRESHOLD, EPOCHS)
    assert [(row.section, row.name) for row in table.rows] == [("FLIS-DC", "1"), ("FLIS-DC", "10")]
    assert rows_of(table)["10"][:2] == pytest.approx([0.51, 0.53])
    assert table.name == f"sweep-{THRESHOLD}-by-{EPOCHS}-mnist"


def test_scores_that_runs_have_are_shown_over_an_axis_too():
    """Bettinelli's Figure 3 has the silhouette, FLIS's Figure 2 the accuracy of the last local models."""
    results = [
        replace(result, curves=Columns((2,), {**result.curves, "silhouette": np.array([0.1, 0.4])}))
        for result in two_axes().finished
    ]
    study = make_study(results)
    assert [axes.get_title() for axes in figures.over_axis(study, EPOCHS).axes][2:] == [
        "silhouette of the last partition"
    ]
    assert [column.group for column in build_axis_table(study, EPOCHS).columns][-1] == "last silhouette"
