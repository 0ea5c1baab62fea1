"""Cells of the runs of a study, means over seeds and scenarios, and what captions say of both."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedgrid.tracking.scoring.measures import Measure
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.table import ABSENT, Cell, Table, dash, mean, number

NAMED = 4
"""Unfinished runs that a caption names; the table of all scenarios has the others."""


def block_of(study: Study) -> tuple[str, int]:
    """Return the data set and the number of clients of a study that has one of each.

    Raises:
        ValueError: if it has several.
    """
    if len(study.blocks) != 1:
        raise ValueError(
            f"{study.name} has {len(study.blocks)} combinations of data set and clients, this table is of "
            "one: study.where(dataset=..., clients=...)"
        )
    _require_one_setting(study)
    return study.blocks[0]


def dataset_of(study: Study) -> str:
    """Return the data set of a study that has one.

    Raises:
        ValueError: if it has several.
    """
    if len(study.datasets) != 1:
        raise ValueError(
            f"{study.name} has {len(study.datasets)} data sets, this table is of one: "
            "study.where(dataset=...)"
        )
    _require_one_setting(study)
    return study.datasets[0]


def _require_one_setting(study: Study) -> None:
    if len(study.settings) > 1:
        raise ValueError(
            f"{study.name} has {len(study.settings)} combinations of its further axes, this table is of one: "
            f"study.where(setting={study.settings[0]!r})"
        )


def over_seeds(study: Study, measure: Measure) -> Cell:
    """Return the mean over seeds of the runs of one scenario and algorithm."""
    if not study.runs:
        return Cell(ABSENT)
    values = [measure.of(result) for result in study.finished]
    return number(values, expected=len(study.runs), digits=measure.digits)


def over_scenarios(study: Study, measure: Measure, *, expected: int = 0) -> Cell:
    """Return the mean of one algorithm over scenarios, each of which counts alike.

    Its spread is over seeds, of the means over scenarios, and is not given where a run lacks.
    `expected` is the number of runs that the mean should be of, where that is more than the study has.
    """
    if not study.runs:
        return Cell(ABSENT)
    expected = max(expected, len(study.runs))
    scores = {
        (result.run.scenario, result.run.seed): value
        for result in study.finished
        if not np.isnan(value := measure.of(result))
    }
    if not scores:
        return dash(expected=expected, finished=len(study.finished)) if study.finished else Cell()
    by_scenario: dict[object, list[float]] = {}
    by_seed: dict[int, list[float]] = {}
    for (scenario, seed), value in scores.items():
        by_scenario.setdefault(scenario, []).append(value)
        by_seed.setdefault(seed, []).append(value)
    is_whole = len(scores) == len(by_scenario) * len(by_seed) == expected
    spread = float(np.std(_means(by_seed), ddof=1)) if is_whole and len(by_seed) > 1 else None
    value = float(np.mean(_means(by_scenario)))
    return mean(value, spread, count=len(scores), expected=expected, digits=measure.digits)


def explained(table: Table, study: Study) -> Table:
    """Return the table with a caption that also says what stands behind its numbers and what it lacks."""
    cells = [cell for row in table.rows for cell in row.cells]
    seeds = len({run.seed for run in study.runs})
    count = "One seed" if seeds == 1 else f"{seeds} seeds"
    is_mean = any(cell.spread is not None for cell in cells)
    words = [table.caption, f"{count}{': mean ± standard deviation (n - 1)' if is_mean else ''}."]
    if any(cell.tone == "partial" and "(" in cell.text for cell in cells):
        words.append("In brackets: runs behind a mean that is not over all of them.")
    if any(cell.text == ABSENT for cell in cells):
        words.append(f"{ABSENT}: not in this grid.")
    words.append(lacking(study))
    return replace(table, caption=" ".join(word for word in words if word))


def lacking(study: Study) -> str:
    """Return how many runs of a study have no result yet, and the first of their names; empty if none."""
    runs = study.unfinished
    if not runs:
        return ""
    names = ", ".join(f"{run.name} ({study.lacking[run.run_id]})" for run in runs[:NAMED])
    more = f", and {len(runs) - NAMED} more" if len(runs) > NAMED else ""
    verb = "has" if len(runs) == 1 else "have"
    return f"{len(runs)} of {len(study.runs)} runs {verb} no result yet: {names}{more}."


def split_name(split: tuple[str, str]) -> str:
    """Return a split as headings name it."""
    return " ".join(split)


def title_of(dataset: str, clients: int | None = None) -> str:
    """Return what a table is of, for its title."""
    return dataset if clients is None else f"{dataset}, {clients} clients"


def _means(groups: Mapping[Any, Sequence[float]]) -> list[float]:
    return [float(np.mean(values)) for values in groups.values()]
