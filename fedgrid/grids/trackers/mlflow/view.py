"""The view in which MLflow's UI opens a grid: columns, groups and charts, as its *Share* button stores one.

MLflow 3.17 keeps a shared view in a tag of the experiment, `mlflow.sharedViewState.KEY`: the state of its
page as compressed JSON. An address with `viewStateShareKey=KEY` opens it. A version that does not know the
tag shows its own view.
"""

import json
import zlib
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

VIEW_KEY = "fedgrid"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW_KEY}"
TAGS = ("algorithm", "dataset", "split", "clients", "seed")
METRICS = (
    "clustering/ari",
    "clustering/clusters",
    "clients/personalised_accuracy",
    "clients/generalised_accuracy",
)
CHARTS = (
    "clients/personalised_accuracy",
    "clients/generalised_accuracy",
    "clustering/ari",
    "clustering/temperature",
)
"""The metrics whose curves are on top."""
TOTALS = (
    *("cost/seconds", "cost/uncached_seconds", "cost/rounds_computed", "cost/peak_memory_mb"),
    *("grid/runs_done", "grid/runs_failed"),
)
"""Metrics of a whole run or grid rather than of a round, drawn as bars."""
NARROW, PER_LETTER = 110, 6
"""Widths of columns, in pixels."""
TOP, REST, SETTINGS = "At a glance", "Model metrics", "Searched settings"
"""Sections of charts. MLflow needs the one of metrics without a section, under its own name."""


def view(keys: Sequence[str], axes: Sequence[str] = (), searched: Sequence[str] = ()) -> str:
    """Return the value of `VIEW_TAG`.

    Args:
        keys: the metrics of a round.
        axes: tags by which the grid's runs differ, beside `TAGS`.
        searched: parameters that a search varies. Its runs are not grouped: each has other settings.
    """
    sections = _sections([*keys, *TOTALS], with_settings=bool(searched))
    columns = [
        *_columns("tags", TAGS[:1]),
        *_columns("metrics", METRICS),
        *_columns("tags", (*axes, *TAGS[1:])),
    ]
    state = {
        "searchFilter": "tags.algorithm LIKE '%'",
        "orderByKey": "metrics.`clustering/ari`" if searched else "tags.`mlflow.runName`",
        "orderByAsc": not searched,
        "selectedColumns": columns,
        "columnOrder": columns,
        "columnWidths": {name: max(NARROW, PER_LETTER * len(name)) for name in columns},
        "groupBy": None if searched else _group(["algorithm", *axes]),
        "useGroupedValuesInCharts": True,
        "hideEmptyCharts": True,
        # Beside the list of runs four charts have the width of one.
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
            *([_parallel(searched, sections[SETTINGS])] if searched else []),
            *(_line(key, sections[TOP]) for key in CHARTS),
            *(_line(key, sections[_section(key)]) for key in keys if key not in CHARTS),
            *(_bar(key, sections[_section(key)]) for key in TOTALS),
            # The number of the round is drawn against the number of the round.
            _line("round", sections[REST]) | {"deleted": True},
        ],
    }
    packed = zlib.compress(json.dumps(state, separators=(",", ":")).encode(), 9)
    return f"deflate;{b64encode(packed).decode()}"


def _sections(keys: Sequence[str], *, with_settings: bool) -> dict[str, str]:
    """Return name -> id of the sections of charts, in their order."""
    names = [*([SETTINGS] if with_settings else []), TOP, *sorted({_section(key) for key in keys}), REST]
    return {name: f"fedgrid-{place}" for place, name in enumerate(names)}


def _section(key: str) -> str:
    return key.rpartition("/")[0] or REST


def _columns(kind: str, names: Sequence[str]) -> list[str]:
    return [f"{kind}.`{name}`" for name in names]


def _group(tags: Sequence[str]) -> dict[str, Any]:
    """Group runs that are alike in these tags; one without a tag is in a group of its own."""
    keys = [{"mode": "tag", "groupByData": tag} for tag in tags]
    return {"aggregateFunction": "average", "groupByKeys": keys}


def _chart(kind: str, name: str, section: str) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": f"{section}-{name}",
        "metricSectionId": section,
        "deleted": False,
        "isGenerated": False,
        "displayName": name,
        "runsCountToCompare": 20,
    }


def _line(key: str, section: str) -> dict[str, Any]:
    """Return the chart of a metric by round."""
    return _chart("LINE", key.rpartition("/")[2], section) | {
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


def _bar(key: str, section: str) -> dict[str, Any]:
    """Return the chart of a metric with one value a run."""
    return _chart("BAR", key.rpartition("/")[2], section) | {"metricKey": key}


def _parallel(searched: Sequence[str], section: str) -> dict[str, Any]:
    """Return parallel coordinates over the searched settings, with the scores of each run."""
    scores = ["clustering/ari", "clients/personalised_accuracy"]
    return _chart("PARALLEL", "settings and scores", section) | {
        "selectedParams": list(searched),
        "selectedMetrics": scores,
        "showAllRuns": True,
    }
