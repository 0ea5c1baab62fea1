"""Scores over the values of an axis of the grid, such as `training.local_epochs`, or of two."""

from collections.abc import Sequence

from fedgrid.tracking.scoring import measures
from fedgrid.tracking.scoring.axes import runs_along, runs_at, values_of
from fedgrid.tracking.scoring.measures import Measure
from fedgrid.tracking.scoring.study import Study, plain
from fedgrid.tracking.tables.cells import algorithm_rows, explain_cells, over_scenarios
from fedgrid.tracking.tables.table import Cell, Column, Row, Table, bold_columns

SCORES = (
    "PA, GA: personalised and generalised accuracy of the last round; last local accuracy: of each client's "
    "last own model; ARI: adjusted Rand index of the last partition. A score that no run has is left out. "
    "Means over scenarios, each of which counts alike; the grid's other axes are part of the scenario. Best "
    "of a column in bold."
)


def over_axis(study: Study, axis: str) -> Table:
    """Return a row for each algorithm and, for each score, a column for each value of the axis."""
    part = runs_along(study, axis)
    values, shown = values_of(part, axis), measures.swept(part)
    rows = algorithm_rows(part, lambda own: _cells(own, axis, values, shown))
    caption = f"Scores for each value of {axis}."
    return _table(part, f"axis-{plain(axis)}", f"Scores by {axis}", caption, values, shown, rows)


def sweep(study: Study, axis: str, by: str) -> Table:
    """Return a row for each value of the axis `by`, by algorithm, and columns as in `over_axis`."""
    part = runs_along(runs_along(study, axis), by)
    values, shown = values_of(part, axis), measures.swept(part)
    rows = [
        Row(other, _cells(runs_at(part.of(algorithm=name), by, other), axis, values, shown), name)
        for name in part.algorithms
        for other in values_of(part, by)
    ]
    name = f"sweep-{plain(axis)}-by-{plain(by)}-{'-'.join(part.datasets)}"
    title = f"Scores by {axis} and {by}: {', '.join(part.datasets)}"
    caption = f"Scores for each value of {axis}, a row for each of {by}."
    return _table(part, name, title, caption, values, shown, rows, corner=by)


def _table(
    study: Study,
    name: str,
    title: str,
    caption: str,
    values: Sequence[str],
    shown: Sequence[Measure],
    rows: Sequence[Row],
    corner: str = "algorithm",
) -> Table:
    columns = [(measure, value) for measure in shown for value in values]
    table = Table(
        name,
        title,
        f"{caption} {SCORES}",
        tuple(Column(value, measure.name) for measure, value in columns),
        bold_columns(rows, [measure.highest for measure, _ in columns]),
        corner=corner,
        part="algorithm",
    )
    return explain_cells(table, study)


def _cells(study: Study, axis: str, values: Sequence[str], shown: Sequence[Measure]) -> tuple[Cell, ...]:
    """Return the cells of one algorithm; a value that was run in fewer scenarios than another says so."""
    parts = [runs_at(study, axis, value) for value in values]
    expected = max(len(part.runs) for part in parts)
    return tuple(over_scenarios(part, measure, expected=expected) for measure in shown for part in parts)
