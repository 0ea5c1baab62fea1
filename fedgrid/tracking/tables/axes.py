"""Scores over the values of an axis of the grid, such as `training.local_epochs`, or of two."""

from collections import Counter
from functools import partial

from fedgrid.tracking.scoring import measures
from fedgrid.tracking.scoring.axes import runs_along, runs_at, values_of
from fedgrid.tracking.scoring.measures import Measure
from fedgrid.tracking.scoring.study import Study, plain
from fedgrid.tracking.tables.cells import StudyColumn, algorithms_table, explain_cells, over_scenarios
from fedgrid.tracking.tables.table import Cell, Row, Table, bold_best

SCORES = (
    "PA, GA: personalised and generalised accuracy of the last round; last local accuracy: of each client's "
    "last own model; ARI: adjusted Rand index of the last partition. A score that no run has is left out. "
    "Means over scenarios, each of which counts alike; the grid's other axes are part of the scenario. Best "
    "of a column in bold."
)


def over_axis(study: Study, axis: str) -> Table:
    """Build a table with a row for each algorithm, and a column for each score and value of the axis."""
    part = runs_along(study, axis)
    return algorithms_table(
        part,
        f"axis-{plain(axis)}",
        f"Scores by {axis}",
        f"Scores for each value of {axis}. {SCORES}",
        _columns(part, axis),
    )


def sweep(study: Study, axis: str, by: str) -> Table:
    """Build a table with a row for each value of the axis `by`, by algorithm, and columns as `over_axis`."""
    part = runs_along(runs_along(study, axis), by)
    columns = _columns(part, axis)
    rows = [
        Row(other, tuple(column.cell(own) for column in columns), name)
        for name in part.algorithms
        for other in values_of(part, by)
        for own in [runs_at(part.of(algorithm=name), by, other)]
    ]
    table = Table(
        # A report has one such table for each data set.
        f"sweep-{plain(axis)}-by-{plain(by)}-{'-'.join(part.datasets)}",
        f"Scores by {axis} and {by}: {', '.join(part.datasets)}",
        f"Scores for each value of {axis}, a row for each of {by}. {SCORES}",
        columns,
        bold_best(rows, columns),
        corner=by,
        part="algorithm",
    )
    return explain_cells(table, part)


def _columns(study: Study, axis: str) -> tuple[StudyColumn, ...]:
    """Build a column for each measure and value of the axis."""

    def cell(own: Study, value: str, measure: Measure) -> Cell:
        """Build the cell of one algorithm; a value that was run in fewer scenarios than another shows it."""
        expected = max(Counter(dict(run.axes)[axis] for run in own.runs).values(), default=0)
        return over_scenarios(runs_at(own, axis, value), measure, expected=expected)

    return tuple(
        StudyColumn(
            value,
            measure.name,
            highest=measure.highest,
            cell=partial(cell, value=value, measure=measure),
        )
        for measure in measures.swept(study)
        for value in values_of(study, axis)
    )
