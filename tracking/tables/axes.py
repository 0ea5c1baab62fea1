"""Scores over the values of an axis of the grid, such as `training.local_epochs`."""

from fedgrid.tracking.scoring import measures
from fedgrid.tracking.scoring.axes import along, at, values_of
from fedgrid.tracking.scoring.study import Study, plain
from fedgrid.tracking.tables.cells import explained, over_scenarios
from fedgrid.tracking.tables.table import Column, Row, Table, bold_columns

MEASURES = (measures.PA_LAST, measures.FINAL_ARI)


def over_axis(study: Study, axis: str) -> Table:
    """Return a row for each algorithm and, for each score, a column for each value of the axis."""
    part = along(study, axis)
    values = values_of(part, axis)
    columns = [(measure, value) for measure in MEASURES for value in values]
    rows = [
        Row(
            algorithm,
            tuple(over_scenarios(at(of_algorithm, axis, value), measure) for measure, value in columns),
        )
        for algorithm, of_algorithm in ((name, part.where(algorithm=name)) for name in part.algorithms)
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
