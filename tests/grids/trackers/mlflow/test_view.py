"""The prepared view: what it asks of MLflow's page, and that the installed MLflow knows these words."""

import re
from pathlib import Path

import mlflow
import pytest

from fedgrid.grids.trackers.mlflow.view import CHARTS, METRICS, TAGS, TOP, TOTALS, VIEW_TAG, build_view
from tests.helpers.logged_runs import unpack_tag

KEYS = (*CHARTS, "cost/bytes_up")
BUNDLE = Path(mlflow.__file__).parent / "server" / "js" / "build" / "static" / "js"


def test_view_has_the_columns_groups_by_algorithm_and_axes_and_draws_four_curves_on_top():
    state = unpack_tag(build_view(KEYS, ["training.rounds"]))
    assert state["selectedColumns"] == [
        "tags.`algorithm`",
        *(f"metrics.`{key}`" for key in METRICS),
        "tags.`training.rounds`",
        *(f"tags.`{tag}`" for tag in TAGS[1:]),
    ]
    assert state["groupBy"]["groupByKeys"] == [
        {"mode": "tag", "groupByData": "algorithm"},
        {"mode": "tag", "groupByData": "training.rounds"},
    ]
    [top] = [section["uuid"] for section in state["compareRunSections"] if section["name"] == TOP]
    on_top = [chart for chart in state["compareRunCharts"] if chart["metricSectionId"] == top]
    assert [(chart["type"], chart["metricKey"]) for chart in on_top] == [("LINE", key) for key in CHARTS]


def test_every_metric_has_one_chart_and_one_value_a_run_is_a_bar():
    """MLflow would add a chart of its own for a metric without one."""
    charts = unpack_tag(build_view(KEYS))["compareRunCharts"]
    kinds = {chart["metricKey"]: chart["type"] for chart in charts}
    assert kinds == {**dict.fromkeys((*KEYS, "round"), "LINE"), **dict.fromkeys(TOTALS, "BAR")}
    assert len(charts) == len(kinds)
    assert [chart["metricKey"] for chart in charts if chart["deleted"]] == ["round"]


def test_every_chart_is_in_a_section():
    state = unpack_tag(build_view(KEYS, searched=["algorithm.threshold"]))
    sections = {section["uuid"] for section in state["compareRunSections"]}
    assert {chart["metricSectionId"] for chart in state["compareRunCharts"]} <= sections


def test_search_has_parallel_coordinates_and_is_sorted_by_its_score():
    state = unpack_tag(build_view(KEYS, ["algorithm.threshold"], ["algorithm.threshold"]))
    [chart] = [chart for chart in state["compareRunCharts"] if chart["type"] == "PARALLEL"]
    assert chart["selectedParams"] == ["algorithm.threshold"]
    assert (state["groupBy"], state["orderByKey"], state["orderByAsc"]) == (
        None,
        "metrics.`clustering/ari`",
        False,
    )


def test_installed_mlflow_knows_the_words_of_the_view():
    """A later MLflow that has other words shows its own view: tests/e2e/test_mlflow_view.py shows that."""
    code = "".join(path.read_text(errors="replace") for path in sorted(BUNDLE.glob("main.*.js")))
    if not code:
        pytest.skip(f"the installed MLflow has no page in {BUNDLE}")
    state = unpack_tag(build_view(KEYS))
    facets = {"searchFilter", "orderByKey", "orderByAsc"}
    words = {*state, *state["groupBy"]} - facets
    words |= {word for chart in state["compareRunCharts"] for word in chart if word != "deleted"}
    # In the shortened code, a word is a key, an attribute or a text.
    unknown = [word for word in words if not re.search(rf"[.\"{{,]{word}[\":=,]", code)]
    assert unknown == []
    assert VIEW_TAG.rpartition(".")[0] + "." in code
    assert "viewStateShareKey" in code
