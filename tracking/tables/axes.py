"""Scores over the values of an axis of the grid, such as `training.local_epochs`."""

from collections.abc import Sequence

from fedgrid.tracking.scoring import measures
from fedgrid.tracking.scoring.axes import along, at, values_of
from fedgrid.tracking.scoring.study import Study, plain
from fedgrid.tracking.tables.cells import explained, over_scenarios
from fedgrid.tracking.tables.table import Cell, Column, Row, Table, bold_columns

MEASURES = (measures.PA_LAST, measures.FINAL_ARI)


def over_axis(study: Study, axis: str) -> Table:
    """Return a row for each algorithm and, for each score, a column for each value of the axis."""
    part = along(study, axis)
    values = values_of(part, axis)
    columns = [(measure, value) for measure in MEASURES for value in values]
    rows = [
        Row(
            name,
            _cells(part.where(algorithm=name), axis, values),
            is_reference=name in part.references,
        )
        for name in part.algorithms
    ]
    table = Table(
        f"axis-{plain(axis)}",
        f"Scores by {axis}",
        "Personalised accuracy of the last round (PA) and adjusted Rand index (ARI) of the last partition "
        f"for each value of {axis}. Means over scenarios, each of which counts alike; the grid's other axes "
        "are part of the scenario. Best of a column in bold.",
        tuple(Column(value, measure.name) for measure, value in columns),
        bold_columns(rows, [measure.highest for measure, _ in columns]),
        corner="algorithm",
    )
    return explained(table, part)


def _cells(study: Study, axis: str, values: Sequence[str]) -> tuple[Cell, ...]:
    """Return the cells of one algorithm; a value that was run in fewer scenarios than another says so."""
    parts = [at(study, axis, value) for value in values]
    expected = max(len(part.runs) for part in parts)
    return tuple(over_scenarios(part, measure, expected=expected) for measure in MEASURES for part in parts)
