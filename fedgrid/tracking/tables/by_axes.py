"""A paper's table: scores by the axes that a user chooses for rows and columns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from fedgrid.tracking.arrays import group_by
from fedgrid.tracking.scoring.axes import find_axes, list_axis_values, read_axis_value, select_along_axis
from fedgrid.tracking.scoring.client_scores import UNDEFINED_REASONS
from fedgrid.tracking.scoring.measures import Measure, find_measure, format_heading, read_scores_by_seed
from fedgrid.tracking.scoring.paired_tests import (
    ALPHA,
    LEAST_SEEDS,
    apply_holm,
    compute_seeds_p,
    differences_by_seed,
)
from fedgrid.tracking.scoring.run import (
    AXES,
    SETTING_OF_ALGORITHM,
    Run,
    find_axis,
    format_early_stops,
    format_validation_scores,
)
from fedgrid.tracking.scoring.scores import DECLARED
from fedgrid.tracking.scoring.study import Study, format_slug, format_split_name, replace_special_characters
from fedgrid.tracking.tables.cells import describe_coverage, explain_table, over_scenarios
from fedgrid.tracking.tables.table import ABSENT, NONE, Cell, Column, Row, Table, embolden_best

ALGORITHM = "algorithm"
IDLE = ""
"""Stands for the value of a key that has no effect on a run, such as `split.alpha` on label-skew."""
DEFAULT_SCORE = "personalised_accuracy"
DEFAULT_NUMBER_SCORES = ("personalised_r2", "personalised_r2_median", "personalised_r2_pooled")
"""Scores of a table for which none is named, where all runs predict numbers."""
HEADINGS = {"dataset": "data set"}
PLURALS = {"dataset": "data sets", "clients": "numbers of clients", "split": "splits"}

Place = tuple[str, ...]
"""Values of the axes of rows or columns."""


@dataclass(frozen=True)
class TableAxes:
    """The axes of the rows and of the columns of a table; runs that differ in others are averaged."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]

    def find_places(self, run: Run) -> tuple[Place, Place]:
        """Find the row and the column of a run."""
        row, column = (
            tuple(IDLE if axis in run.idle else str(read_axis_value(run, axis)) for axis in axes)
            for axes in (self.rows, self.columns)
        )
        return row, column

    def find_comparison_group(self, row: Place, column: Place) -> Place:
        """Find the values of all axes but the algorithm: cells that have the same are compared."""
        # Cells that differ in anything else, such as the split, are not results of the same problem.
        values = zip((*self.rows, *self.columns), (*row, *column), strict=True)
        return tuple(value for axis, value in values if axis != ALGORITHM)


def by_axes(
    study: Study,
    scores: Sequence[str] = (),
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    against: str | None = None,
) -> Table:
    """Build a table of the last values of some scores, by the axes that are named for rows and columns.

    Args:
        study: the runs.
        scores: names of scores; none (default): personalised accuracy, or R2 where all runs predict numbers.
        rows: axes of the rows; none (default): algorithms.
        columns: axes of the columns; none (default): the scenarios, by the axes in which they differ.
        against: an algorithm, by its id or title: each other one is tested against it, within the runs that
            stand in the same column (or row), by a t-test of their differences paired by seed, with Holm's
            correction for the number of these tests. None (default): no test.

    Raises:
        ValueError: there is no such score, axis or algorithm; algorithms would be averaged; or there are too
            few seeds to pair.
    """
    scores = scores or _choose_default_scores(study)
    measures = [find_measure(name, study) for name in scores]
    for score, measure in zip(scores, measures, strict=True):
        if against is not None and measure.highest is None:
            raise ValueError(f"{score} cannot be tested: neither more nor less of it is better")
    layout = _choose_layout(study, rows, columns)
    part = study
    for axis in (*layout.rows, *layout.columns):
        if axis.startswith(SETTING_OF_ALGORITHM):
            # The values of a setting would otherwise be different algorithms, and each a row of its own.
            part = select_along_axis(part, axis)
            if not part.runs:
                axes = ", ".join(axis for axis in find_axes(study) if axis.startswith(SETTING_OF_ALGORITHM))
                raise ValueError(f"no runs differ in {axis} alone; settings that are axes: {axes or 'none'}")
    rival = None if against is None else part.where(algorithm=against).algorithms[0]
    cells = _build_cells(part, layout, measures, rival)
    all_rows, all_columns = (
        _order_places(part, axes, side, layout) for side, axes in enumerate((layout.rows, layout.columns))
    )
    titles = ", ".join(measure.name for measure in measures)
    table = Table(
        f"{'-'.join(map(format_slug, scores))}-{replace_special_characters(study.name)}",
        f"{_capitalise_first(titles)}: {study.name}",
        " ".join(_describe_table(study, part, layout, scores, rival)),
        tuple(
            _build_column(layout, column, measure, measures) for column in all_columns for measure in measures
        ),
        tuple(
            _build_row(
                layout,
                part,
                row,
                (
                    cells.get((row, column, measure.name), Cell(ABSENT))
                    for column in all_columns
                    for measure in measures
                ),
            )
            for row in all_rows
        ),
        corner=HEADINGS.get(layout.rows[-1], layout.rows[-1]),
        part=", ".join(HEADINGS.get(axis, axis) for axis in layout.rows[:-1]) or "part",
    )
    return explain_table(table, part)


def _choose_default_scores(study: Study) -> tuple[str, ...]:
    """Choose the scores of a table for which none is named."""
    r2_score, *_ = DEFAULT_NUMBER_SCORES
    return DEFAULT_NUMBER_SCORES if all(run.has(r2_score) for run in study.finished) else (DEFAULT_SCORE,)


def _choose_layout(study: Study, rows: Sequence[str], columns: Sequence[str]) -> TableAxes:
    """Choose the layout, with algorithms or scenarios on a side for which nothing is named."""
    left = tuple(dict.fromkeys(find_axis(study.runs, name) for name in rows))
    above = tuple(dict.fromkeys(find_axis(study.runs, name) for name in columns))
    if in_both := set(left) & set(above):
        raise ValueError(f"{min(in_both)} is both in rows and in columns: name it once")
    # Axes that no side names are averaged, unless a side is empty: it gets all of them.
    others = tuple(axis for axis in _find_scenario_axes(study) if axis not in (*left, *above))
    if not left:
        left = (ALGORITHM,) if ALGORITHM not in above else others or AXES[:1]
        above = above or others
    elif not above:
        above = (ALGORITHM,) if ALGORITHM not in left else others
    if ALGORITHM not in (*left, *above) and len(study.algorithms) > 1:
        raise ValueError(
            f"{len(study.algorithms)} algorithms would be averaged: name algorithm in rows or columns, or "
            f"filter by algorithm={study.algorithms[0]}"
        )
    return TableAxes(left, above)


def _find_scenario_axes(study: Study) -> tuple[str, ...]:
    """Find the axes in which the scenarios of a study differ."""
    axes = (*AXES[:3], *(axis for axis in find_axes(study) if not axis.startswith(SETTING_OF_ALGORITHM)))
    return tuple(axis for axis in dict.fromkeys(axes) if len(list_axis_values(study, axis)) > 1)


def _order_places(study: Study, axes: Sequence[str], side: int, layout: TableAxes) -> list[Place]:
    """List the rows or columns that have a run, in the order of the axes' values."""
    present = {layout.find_places(run)[side] for run in study.runs}
    every = product(*((IDLE, *list_axis_values(study, axis)) for axis in axes))
    return [place for place in every if place in present]


def _build_cells(
    study: Study, layout: TableAxes, measures: Sequence[Measure], rival: str | None
) -> Mapping[tuple[Place, Place, str], Cell]:
    """Build the cells by row, column and measure, the best among those compared in bold."""
    runs = group_by(study.runs, layout.find_places)
    compared = group_by(runs, lambda places: layout.find_comparison_group(*places))
    by_place: dict[tuple[Place, Place, str], Cell] = {}
    num_tests = 0
    for places in compared.values():
        parts = {at: study.only(runs[at]) for at in places}
        # A mean over fewer runs than the others of its row is marked as such, even if these were never
        # requested.
        expected = max(len(part.runs) for part in parts.values())
        for measure in measures:
            cells = {at: over_scenarios(part, measure, expected=expected) for at, part in parts.items()}
            competing = [at for at in cells if len(cells) > 1 and not parts[at].references]
            if measure.highest is not None:
                best = embolden_best([cells[at] for at in competing], highest=measure.highest)
                cells |= dict(zip(competing, best, strict=True))
            if rival is not None:
                tests = _test_cells({at: parts[at] for at in competing}, rival, measure)
                for at, (difference, p) in tests.items():
                    # The sign says better or worse, not larger or smaller: less of a loss is a plus.
                    mark = "+" if (difference > 0) == measure.highest else "-"
                    cells[at] = replace(cells[at], p=p, notes=(mark,) if p < ALPHA else ())
                num_tests += len(tests)
            by_place |= {(*at, measure.name): cell for at, cell in cells.items()}
    if rival is not None and not num_tests:
        raise ValueError(
            f"nothing to test: no algorithm has {LEAST_SEEDS} seeds in common with {rival}; `fedgrid run` "
            "adds some with --seeds 0..4"
        )
    return by_place


def _test_cells(
    parts: Mapping[tuple[Place, Place], Study], rival: str, measure: Measure
) -> Mapping[tuple[Place, Place], tuple[float, float]]:
    """Test each other algorithm against the rival: place -> mean difference, and p after correction."""
    scores = {at: read_scores_by_seed(part, measure) for at, part in parts.items()}
    mine = next((scores[at] for at, part in parts.items() if part.algorithms == (rival,)), {})
    differences = {
        at: differences_by_seed(own, mine) for at, own in scores.items() if parts[at].algorithms != (rival,)
    }
    p_values = {at: p for at, by_seeds in differences.items() if (p := compute_seeds_p(by_seeds)) is not None}
    corrected = zip(p_values, apply_holm(list(p_values.values())), strict=True)
    return {at: (float(differences[at].mean()), p) for at, p in corrected}


def _build_column(layout: TableAxes, place: Place, measure: Measure, measures: Sequence[Measure]) -> Column:
    """Build a column's heading: the values of its axes, and the score if there are several or no axis."""
    scores = [measure.name] if len(measures) > 1 or not place else []
    *group, name = [*_format_labels(layout.columns, place), *scores] or [NONE]
    return Column(name, ", ".join(group))


def _build_row(layout: TableAxes, study: Study, place: Place, cells: Iterable[Cell]) -> Row:
    """Build a row: its last axis names it, the others are its section."""
    *section, name = _format_labels(layout.rows, place) or [NONE]
    is_reference = ALGORITHM in layout.rows and place[layout.rows.index(ALGORITHM)] in study.references
    return Row(name, tuple(cells), ", ".join(section), is_reference=is_reference)


def _format_labels(axes: Sequence[str], place: Place) -> list[str]:
    """Format the values of a place, without those that have no effect there."""
    return [_format_label(axis, value) for axis, value in zip(axes, place, strict=True) if value != IDLE]


def _format_label(axis: str, value: str) -> str:
    """Format a value as a heading has it: `15 clients`, `overlapping balanced`, `local_epochs 5`."""
    if axis == "clients":
        return f"{value} clients"
    if axis == "split":
        return format_split_name(value)
    return value if axis in ("dataset", ALGORITHM) else f"{axis.rpartition('.')[2]} {value}"


def _describe_table(
    study: Study, part: Study, layout: TableAxes, scores: Sequence[str], rival: str | None
) -> Iterator[str]:
    """Describe in sentences what the scores are, what is left out and averaged, and how it is tested."""
    for score in scores:
        if score in DECLARED:
            name = f"{_capitalise_first(format_heading(score))}: " if len(scores) > 1 else ""
            yield f"{name}{DECLARED[score].meaning}"
        if score in UNDEFINED_REASONS and (line := describe_coverage(part, score)):
            yield line
    yield "At the end of each run."
    if validated := format_validation_scores(part.finished):
        yield validated
    if stopped := format_early_stops(part.finished):
        yield stopped
    methods = {run.method for run in part.runs}
    if missing := dict.fromkeys(run.method for run in study.runs if run.method not in methods):
        yield f"Without {', '.join(missing)}, which have no such setting."
    if axes := [axis for axis in _find_scenario_axes(part) if axis not in (*layout.rows, *layout.columns)]:
        counts = [
            f"{len(list_axis_values(part, axis))} {PLURALS.get(axis, f'values of {axis}')}" for axis in axes
        ]
        yield f"Mean over {' and '.join(counts)}, all scenarios alike."
    yield "Best in bold."
    if rival is not None:
        yield (
            f"+ better, - worse than {rival}: two-sided t-test of the differences paired by seed, p < "
            f"{ALPHA} after Holm's correction for the other algorithms; no mark: no difference is shown."
        )


def _capitalise_first(text: str) -> str:
    """Capitalise the first letter, and leave the others as they are: `ARI` stays."""
    return text[:1].upper() + text[1:]
