"""The view in which MLflow's UI opens a grid: columns, groups and charts, as its *Share* button stores one.

MLflow 3.17 keeps a shared view in a tag of the experiment, `mlflow.sharedViewState.KEY`: the state of its
page as compressed JSON. An address with `viewStateShareKey=KEY` opens it. A version of MLflow that does not
support the tag shows its own view.
"""

import json
import zlib
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

VIEW_KEY = "fedgrid"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW_KEY}"
TAGS = ("algorithm", "dataset", "split", "clients", "seed")
"""Tags that are columns of the list of runs."""
METRICS = (
    "clustering/ari",
    "clustering/clusters",
    "clients/personalised_accuracy",
    "clients/generalised_accuracy",
)
"""Metrics that are columns of the list of runs."""
CHARTS = (
    "clients/personalised_accuracy",
    "clients/generalised_accuracy",
    "clustering/ari",
    "clustering/temperature",
)
"""Metrics whose curves are on top."""
TOTALS = (
    *("cost/seconds", "cost/uncached_seconds", "cost/rounds_computed", "cost/peak_memory_mb"),
    *("grid/runs_done", "grid/runs_failed"),
)
"""Metrics of a whole run or grid rather than of a round, drawn as bars."""
NARROW, PER_LETTER = 110, 6
"""Least width of a column, and width of a letter of its name, in pixels."""
TOP, REST, SETTINGS = "At a glance", "Model metrics", "Searched settings"
"""Sections of charts. MLflow needs the section of metrics without a section, under its own name."""


def build_view(keys: Sequence[str], axes: Sequence[str] = (), searched: Sequence[str] = ()) -> str:
    """Build the value of `VIEW_TAG`.

    Args:
        keys: Metrics of a round.
        axes: Tags by which the grid's runs differ, in addition to `TAGS`.
        searched: Parameters that a search varies. Its runs are not grouped, as each has other settings.

    Returns:
        The state of MLflow's page as JSON, deflated and in base 64.
    """
    sections = _number_sections([*keys, *TOTALS], with_settings=bool(searched))
    columns = [
        *_format_columns("tags", TAGS[:1]),
        *_format_columns("metrics", METRICS),
        *_format_columns("tags", (*axes, *TAGS[1:])),
    ]
    state = {
        "searchFilter": "tags.algorithm LIKE '%'",
        "orderByKey": "metrics.`clustering/ari`" if searched else "tags.`mlflow.runName`",
        "orderByAsc": not searched,
        "selectedColumns": columns,
        "columnOrder": columns,
        "columnWidths": {name: max(NARROW, PER_LETTER * len(name)) for name in columns},
        "groupBy": None if searched else _group_runs(["algorithm", *axes]),
        "useGroupedValuesInCharts": True,
        # A grid has few of the metrics that algorithms can log.
        "hideEmptyCharts": True,
        # With the list of runs open, four charts share the width of one.
        "runListHidden": True,
        "runsHiddenMode": "SHOW_ALL" if searched else "FIRST_20_RUNS",
        "isAccordionReordered": True,
        "compareRunSections": [
            {
                "uuid": uuid,
                "name": name,
                "display": name in (TOP, SETTINGS),
                "isReordered": True,
                "columns": 2,
                "cardHeight": 300,
            }
            for name, uuid in sections.items()
        ],
        "compareRunCharts": [
            *([_parallel_chart(searched, sections[SETTINGS])] if searched else []),
            *(_line_chart(key, sections[TOP]) for key in CHARTS),
            *(_line_chart(key, sections[_parse_section(key)]) for key in keys if key not in CHARTS),
            *(_bar_chart(key, sections[_parse_section(key)]) for key in TOTALS),
            # A curve of the number of the round against the number of the round says nothing.
            _line_chart("round", sections[REST]) | {"deleted": True},
        ],
    }
    packed = zlib.compress(json.dumps(state, separators=(",", ":")).encode(), 9)
    return f"deflate;{b64encode(packed).decode()}"


def _number_sections(keys: Sequence[str], *, with_settings: bool) -> dict[str, str]:
    """Number the sections of charts in their order; return name -> id."""
    names = [
        *([SETTINGS] if with_settings else []),
        TOP,
        *sorted({_parse_section(key) for key in keys}),
        REST,
    ]
    return {name: f"fedgrid-{place}" for place, name in enumerate(names)}


def _parse_section(key: str) -> str:
    """Parse the section of a metric's key: `clustering` of `clustering/ari`."""
    return key.rpartition("/")[0] or REST


def _format_columns(kind: str, names: Sequence[str]) -> list[str]:
    """Format the ids of columns as MLflow's page does."""
    return [f"{kind}.`{name}`" for name in names]


def _group_runs(tags: Sequence[str]) -> dict[str, Any]:
    """Group runs with equal values of these tags; a run without a tag is in a group of its own."""
    keys = [{"mode": "tag", "groupByData": tag} for tag in tags]
    return {"aggregateFunction": "average", "groupByKeys": keys}


def _base_chart(kind: str, name: str, section: str) -> dict[str, Any]:
    """Build what all kinds of charts have in common."""
    return {
        "type": kind,
        "uuid": f"{section}-{name}",
        "metricSectionId": section,
        "deleted": False,
        "isGenerated": False,
        "displayName": name,
        "runsCountToCompare": 20,
    }


def _line_chart(key: str, section: str) -> dict[str, Any]:
    """Build the chart of a metric by round."""
    return _base_chart("LINE", key.rpartition("/")[2], section) | {
        "metricKey": key,
        "lineSmoothness": 0,
        "xAxisKey": "step",
        "xAxisScaleType": "linear",
        "scaleType": "linear",
        "selectedXAxisMetricKey": "",
        "range": {},
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "ignoreOutliers": False,
        "useGlobalXaxisKey": True,
        "useGlobalLineSmoothing": True,
    }


def _bar_chart(key: str, section: str) -> dict[str, Any]:
    """Build the chart of a metric with one value a run."""
    return _base_chart("BAR", key.rpartition("/")[2], section) | {"metricKey": key}


def _parallel_chart(searched: Sequence[str], section: str) -> dict[str, Any]:
    """Build the chart of parallel coordinates over the searched settings and the scores of each run."""
    scores = ["clustering/ari", "clients/personalised_accuracy"]
    return _base_chart("PARALLEL", "settings and scores", section) | {
        "selectedParams": list(searched),
        "selectedMetrics": scores,
        "showAllRuns": True,
    }
