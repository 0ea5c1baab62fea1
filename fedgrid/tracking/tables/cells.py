"""Cells with means over seeds and scenarios, and the sentences on them in captions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedgrid.tracking.scoring.measures import Measure
from fedgrid.tracking.scoring.study import SPLITS, Study, require_one
from fedgrid.tracking.tables.table import ABSENT, Cell, Column, Row, Table, bold_columns, dash, mean, number


def block_of(study: Study) -> tuple[str, int]:
    """Return the data set and the number of clients of a study that has one of each.

    Raises:
        ValueError: if it has several.
    """
    require_one(study, "dataset", "clients")
    return study.blocks[0]


def dataset_of(study: Study) -> str:
    """Return the data set of a study that has one.

    Raises:
        ValueError: if it has several.
    """
    require_one(study, "dataset")
    return study.datasets[0]


def over_seeds(study: Study, measure: Measure) -> Cell:
    """Return the mean over seeds of the runs of one scenario and algorithm."""
    if not study.runs:
        return Cell(ABSENT)
    values = [measure.of(result) for result in study.finished]
    return number(values, expected=len(study.runs), digits=measure.digits)


def over_scenarios(study: Study, measure: Measure, *, expected: int = 0) -> Cell:
    """Return the mean of one algorithm over scenarios, all with the same weight.

    The spread is over seeds, of their means over scenarios, and is left out if a run is missing.
    `expected` is the number of runs that the mean should have, if that is more than the study has.
    """
    if not study.runs:
        return Cell(ABSENT)
    expected = max(expected, len(study.runs))
    scores = {
        (result.scenario, result.seed): value
        for result in study.finished
        if not np.isnan(value := measure.of(result))
    }
    if not scores:
        return dash(expected=expected, finished=len(study.finished)) if study.finished else Cell()
    by_scenario: dict[object, list[float]] = {}
    for (scenario, _), value in scores.items():
        by_scenario.setdefault(scenario, []).append(value)
    return mean(
        float(np.mean(_means(by_scenario))),
        spread_over_seeds(scores, expected),
        count=len(scores),
        expected=expected,
        seeds=len({seed for _, seed in scores}),
        digits=measure.digits,
    )


def algorithms_table(
    study: Study,
    name: str,
    title: str,
    caption: str,
    columns: Iterable[Column],
    cells_of: Callable[[Study], Iterable[Cell]],
    highest: Sequence[bool | None] | None = None,
) -> Table:
    """Return a table with a row an algorithm, whose cells are a function of its runs; the caption explained.

    `highest` says of each column whether the greatest number is the best, which is bold; None: no best.
    """
    columns = tuple(columns)
    rows = tuple(
        Row(
            algorithm,
            tuple(cells_of(study.of(algorithm=algorithm))),
            is_reference=algorithm in study.references,
        )
        for algorithm in (study.algorithms if columns else ())
    )
    bold = rows if highest is None or not rows else bold_columns(rows, highest)
    return explained(Table(name, title, caption, columns, bold, corner="algorithm"), study)


def measures_table(
    study: Study, name: str, title: str, caption: str, measures: Mapping[tuple[str, str], Measure]
) -> Table:
    """Return a row an algorithm, with means over scenarios of measures by group and heading."""
    return algorithms_table(
        study,
        name,
        title,
        caption,
        (Column(heading, group) for group, heading in measures),
        lambda part: (over_scenarios(part, measure) for measure in measures.values()),
        [measure.highest for measure in measures.values()],
    )


def spread_over_seeds(scores: Mapping[tuple[Any, int], float], expected: int) -> float | None:
    """Return the standard deviation (n - 1) over seeds of the means over scenarios.

    None for one seed, and unless all `expected` scores are there, by (scenario, seed): means of different
    scenarios differ for another reason than their seeds.
    """
    by_seed: dict[int, list[float]] = {}
    for (_, seed), value in scores.items():
        by_seed.setdefault(seed, []).append(value)
    num_scenarios = len({scenario for scenario, _ in scores})
    is_whole = len(scores) == num_scenarios * len(by_seed) == expected
    return float(np.std(_means(by_seed), ddof=1)) if is_whole and len(by_seed) > 1 else None


def explained(table: Table, study: Study) -> Table:
    """Return the table with seeds, means of some of the runs, and missing runs explained in its caption."""
    cells = [cell for row in table.rows for cell in row.cells]
    seeds = len({run.seed for run in study.runs})
    count = "One seed" if seeds == 1 else f"{seeds} seeds"
    is_mean = any(cell.spread is not None for cell in cells)
    words = [table.caption, f"{count}{': mean ± standard deviation (n - 1)' if is_mean else ''}."]
    if any(cell.tone == "partial" and "(" in cell.text for cell in cells):
        words.append("In brackets: number of runs, if a mean is not over all of them.")
    if any(cell.text == ABSENT for cell in cells):
        words.append(f"{ABSENT}: not in this grid.")
    if any(row.is_reference for row in table.rows):
        words.append(study.reference_note)
    words.append(lacking(study))
    return replace(table, caption=" ".join(word for word in words if word))


def lacking(study: Study) -> str:
    """Return a sentence with the number of runs without a result; empty if there is none."""
    count = len(study.unfinished)
    verb = "has" if count == 1 else "have"
    return f"{count} of {len(study.runs)} runs {verb} no result yet." if count else ""


def split_name(split: str) -> str:
    """Return the name of a split in headings, as the papers have theirs: `overlapping balanced`."""
    return split.replace("-", " ") if split in SPLITS else split


def title_of(dataset: str, clients: int | None = None) -> str:
    """Return the data set, and the number of clients if given, for the title of a table."""
    return dataset if clients is None else f"{dataset}, {clients} clients"


def _means(groups: Mapping[Any, Sequence[float]]) -> list[float]:
    return [float(np.mean(values)) for values in groups.values()]
