"""Cells with means over seeds and scenarios, tables with a row for each algorithm, and their captions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from fedgrid.tracking.scoring.client_scores import format_coverage
from fedgrid.tracking.scoring.measures import (
    Measure,
    average_by_scenario,
    average_by_seed,
    read_scores_by_seed,
)
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.table import (
    ABSENT,
    Cell,
    Column,
    Row,
    Table,
    build_dash_cell,
    build_mean_cell,
    build_seed_mean_cell,
    embolden_columns,
)


def average_seeds(study: Study, measure: Measure) -> Cell:
    """Build the cell of the mean over seeds of the runs of one scenario and algorithm."""
    if not study.runs:
        return Cell(ABSENT)
    values = [measure.formula(result) for result in study.finished]
    return build_seed_mean_cell(values, expected=len(study.runs), digits=measure.digits)


def over_scenarios(study: Study, measure: Measure, *, expected: int = 0) -> Cell:
    """Build the cell of the mean of one algorithm over scenarios, all with the same weight.

    The spread is over seeds, of their means over scenarios, and is left out if a run is missing.
    `expected` is the number of runs that the mean should have, if that is more than the study has.
    """
    if not study.runs:
        return Cell(ABSENT)
    if not study.finished:
        return Cell()
    return build_scenario_mean_cell(
        read_scores_by_seed(study, measure),
        expected=max(expected, len(study.runs)),
        finished=len(study.finished),
        digits=measure.digits,
    )


def build_scenario_mean_cell(
    scores: Mapping[tuple[Any, int], float], *, expected: int, finished: int, digits: int
) -> Cell:
    """Build the cell of a mean over scenarios, with its spread over seeds; a dash without any score.

    Args:
        scores: by (scenario, seed).
        expected: number of scores that there should be.
        finished: number of finished runs, with or without the score.
        digits: decimal digits of the text.
    """
    if not scores:
        return build_dash_cell(expected=expected, finished=finished)
    return build_mean_cell(
        # First over seeds, then over scenarios: a scenario with more seeds than others has the same weight.
        float(np.mean([*average_by_scenario(scores).values()])),
        compute_spread(scores, expected),
        count=len(scores),
        expected=expected,
        seeds=len({seed for _, seed in scores}),
        digits=digits,
    )


@dataclass(frozen=True)
class StudyColumn(Column):
    """A column whose cells are a function of runs: of those of an algorithm, where rows are algorithms."""

    cell: Callable[[Study], Cell] = field(kw_only=True)


def build_measure_column(measure: Measure, name: str = "", group: str = "") -> StudyColumn:
    """Build the column of a measure's means over scenarios, called like the measure without a `name`."""
    cell = partial(over_scenarios, measure=measure)
    return StudyColumn(name or measure.name, group, highest=measure.highest, cell=cell)


def restrict_cell(cell: Callable[[Study], Cell], **values: Any) -> Callable[[Study], Cell]:
    """Build a function that makes the same cell of the runs with these values of their fields."""
    return lambda study: cell(study.with_values(**values))


def build_algorithms_table(
    study: Study,
    name: str,
    title: str,
    caption: str,
    columns: Iterable[StudyColumn],
    parts: Mapping[str, Study] | None = None,
    part: str = "data set",
) -> Table:
    """Build a table with a row for each algorithm, the best of each column in bold.

    Args:
        study: the runs.
        name: of the table's files.
        title: of the table.
        caption: the content of the cells; seeds and missing runs are explained after it.
        columns: the columns with the functions of their cells.
        parts: a section for each, such as a data set, by its name; None (default): one section.
        part: the kind of the sections, `data set` by default.
    """
    columns = tuple(columns)
    rows = [
        Row(
            algorithm,
            tuple(column.cell(own) for column in columns),
            section,
            is_reference=algorithm in members.references,
        )
        for section, members in ({"": study} if parts is None else parts).items()
        for algorithm in members.algorithms
        for own in [members.with_values(algorithm=algorithm)]
    ]
    kind = "part" if parts is None else part
    table = Table(
        name, title, caption, columns, embolden_columns(rows, columns), corner="algorithm", part=kind
    )
    return explain_table(table, study)


def compute_spread(scores: Mapping[tuple[Any, int], float], expected: int) -> float | None:
    """Compute the standard deviation (n - 1) over seeds of the means over scenarios.

    None for one seed, and unless all `expected` scores are there, by (scenario, seed): means of different
    scenarios differ for another reason than their seeds.
    """
    means = average_by_seed(scores)
    num_scenarios = len({scenario for scenario, _ in scores})
    is_complete = len(scores) == num_scenarios * len(means) == expected
    return float(np.std(means, ddof=1)) if is_complete and len(means) > 1 else None


def explain_table(table: Table, study: Study) -> Table:
    """Explain seeds, means of some of the runs, and missing runs in a table's caption."""
    cells = [cell for row in table.rows for cell in row.cells]
    seeds = {name: {run.seed for run in study.runs if run.algorithm == name} for name in study.algorithms}
    count = format_seed_counts({name: len(own_seeds) for name, own_seeds in seeds.items()})
    is_mean = any(cell.spread is not None for cell in cells)
    words = [
        table.caption,
        f"{count[0].upper()}{count[1:]}{': mean ± standard deviation (n - 1)' if is_mean else ''}.",
    ]
    # A share such as 31/38 of 40 is partial too, and explains itself.
    if any(cell.tone == "partial" and "(" in cell.text for cell in cells):
        words.append("In brackets: number of runs, if a mean is not over all of them.")
    if any(cell.text == ABSENT for cell in cells):
        words.append(f"{ABSENT}: not in this grid.")
    if any(row.is_reference for row in table.rows):
        words.append(study.reference_note)
    words.append(describe_missing_runs(study))
    return replace(table, caption=" ".join(word for word in words if word))


def describe_coverage(study: Study, score: str) -> str:
    """Format a sentence on the clients that the last mean of a score is over; empty if all have one."""
    return format_coverage(
        score, ((run.last(f"{score}_clients"), len(run.client_K)) for run in study.finished)
    )


def format_seed_counts(counts: Mapping[str, int]) -> str:
    """Format how many seeds rows have, by their names: `one seed`, `3 seeds`, `3 seeds (briggs 2)`."""
    most = max(counts.values(), default=0)
    words = "one seed" if most == 1 else f"{most} seeds"
    fewer = ", ".join(f"{name} {count}" for name, count in counts.items() if count < most)
    return f"{words} ({fewer})" if fewer else words


def describe_missing_runs(study: Study) -> str:
    """Format a sentence with the number of runs without a result; empty if there is none."""
    count = len(study.unfinished)
    verb = "has" if count == 1 else "have"
    return f"{count} of {len(study.runs)} runs {verb} no result yet." if count else ""
