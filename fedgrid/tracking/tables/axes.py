"""Scores over the values of an axis of the grid, such as `training.local_epochs`, or of two."""

from collections import Counter
from functools import partial

from fedgrid.tracking.scoring import measures
from fedgrid.tracking.scoring.axes import list_axis_values, select_along_axis, select_axis_value
from fedgrid.tracking.scoring.measures import Measure
from fedgrid.tracking.scoring.study import Study, replace_special_characters
from fedgrid.tracking.tables.cells import StudyColumn, build_algorithms_table, explain_table, over_scenarios
from fedgrid.tracking.tables.table import Cell, Row, Table, embolden_columns

SCORES = (
    "PA, GA: personalised and generalised accuracy of the last round; last local accuracy: of each client's "
    "last own model; ARI: adjusted Rand index of the last partition. A score that no run has is left out. "
    "Means over scenarios, each of which counts alike; the grid's other axes are part of the scenario. Best "
    "of a column in bold."
)


def build_axis_table(study: Study, axis: str) -> Table:
    """Build a table with a row for each algorithm, and a column for each score and value of the axis."""
    part = select_along_axis(study, axis)
    return build_algorithms_table(
        part,
        f"axis-{replace_special_characters(axis)}",
        f"Scores by {axis}",
        f"Scores for each value of {axis}. {SCORES}",
        _build_columns(part, axis),
    )


def build_sweep_table(study: Study, axis: str, by: str) -> Table:
    """Build a table with a row for each value of the axis `by`, by algorithm, and columns as
    `build_axis_table`.
    """
    part = select_along_axis(select_along_axis(study, axis), by)
    columns = _build_columns(part, axis)
    rows = [
        Row(other, tuple(column.cell(own) for column in columns), name)
        for name in part.algorithms
        for other in list_axis_values(part, by)
        for own in [select_axis_value(part.with_values(algorithm=name), by, other)]
    ]
    table = Table(
        # A report has one such table for each data set.
        f"sweep-{replace_special_characters(axis)}-by-{replace_special_characters(by)}-{'-'.join(part.datasets)}",
        f"Scores by {axis} and {by}: {', '.join(part.datasets)}",
        f"Scores for each value of {axis}, a row for each of {by}. {SCORES}",
        columns,
        embolden_columns(rows, columns),
        corner=by,
        part="algorithm",
    )
    return explain_table(table, part)


def _build_columns(study: Study, axis: str) -> tuple[StudyColumn, ...]:
    """Build a column for each measure and value of the axis."""

    def build_cell(own: Study, value: str, measure: Measure) -> Cell:
        """Build the cell of one algorithm; a value that was run in fewer scenarios than another shows it."""
        expected = max(Counter(dict(run.axes)[axis] for run in own.runs).values(), default=0)
        return over_scenarios(select_axis_value(own, axis, value), measure, expected=expected)

    return tuple(
        StudyColumn(
            value,
            measure.name,
            highest=measure.highest,
            cell=partial(build_cell, value=value, measure=measure),
        )
        for measure in measures.list_axis_measures(study)
        for value in list_axis_values(study, axis)
    )
