"""The runs of a grid as a table of any columns, sorted and selected; also as CSV and JSON."""

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.browse.columns import ALL, all_columns, check_columns, read_rows, usual_columns
from fedgrid.grids.display.plain import warn
from fedgrid.grids.display.tables import cell
from fedgrid.grids.display.text_table import TextTable
from fedgrid.grids.presets.yaml_file import split_at_commas
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.result_columns import RESULT_COLUMNS
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.scoring.selection import Condition, read_conditions, sort_places, text_of

FEW = 8
"""Values of a column in a message."""
ON_ONE_LINE = str.maketrans({"\n": "\\n", "\t": "\\t"})


@dataclass(frozen=True)
class RunList:
    """Which runs of a grid are listed, and how."""

    where: Sequence[str] = ()
    """Conditions on columns, all of which must hold."""
    sort: str | None = None
    """A column: largest number first, text from A to Z; None: as they were launched."""
    reverse: bool = False
    columns: str | None = None
    """Names with commas between them; None: what the runs differ in, and the scores of the results table."""
    superseded: bool = False
    """Whether superseded runs are listed too; a column tells them apart then."""
    as_csv: bool = False


EVERY = RunList()
"""All runs of a grid, as `fedgrid show GRID` lists them."""


def read_list(
    grid: str, options: RunList, storage: Storage
) -> tuple[list[Run], list[str], Sequence[Condition], int]:
    """Return the runs of a grid that meet the conditions, their columns, the conditions, and how many runs.

    Raises:
        ConfigError: if there is no such grid or column, or a condition is malformed.
        RunError: if the storage cannot be read.
    """
    stored = GridFolder(storage, grid).read()
    old = stored.superseded
    every = read_rows((*stored.runs, *old) if options.superseded else stored.runs, storage, old)
    conditions = [condition for text in options.where for condition in _conditions(text)]
    columns = _columns(options.columns, every)
    check_columns([condition.column for condition in conditions], every, "--where")
    rows = [row for row in every if all(rule.holds([row.value(rule.column)]) for rule in conditions)]
    for rule in conditions:
        if every and not any(rule.holds([row.value(rule.column)]) for row in every):
            warn(f"--where: {_no_run(rule, every)}")
    if options.sort is not None:
        check_columns([options.sort], every, "--sort")
        places = sort_places([row.value(options.sort) for row in rows], options.reverse)
        rows = [rows[place] for place in places]
    elif options.reverse:
        rows.reverse()
    return rows, columns, conditions, len(every)


def run_facts(rows: Sequence[Run], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return a mapping of columns for each run, ready for JSON."""
    return [{column: row.value(column) for column in columns} for row in rows]


def print_list(
    rows: Sequence[Run],
    columns: list[str],
    conditions: Sequence[Condition],
    options: RunList,
    console: Console,
) -> None:
    """Print runs as a table, or as CSV."""
    if options.as_csv:
        _write_csv(rows, columns)
        return
    named = _add_used(columns, options.sort, conditions) if options.columns is None else _add_names(columns)
    _print(rows, named, console)


def _conditions(text: str) -> list[Condition]:
    try:
        return read_conditions(text)
    except ValueError as error:
        raise ConfigError(f"--where {text}: {error}") from error


def _no_run(rule: Condition, rows: Sequence[Run]) -> str:
    """Return that no run meets a condition, and what the values of its column are."""
    distinct = list(dict.fromkeys(row.value(rule.column) for row in rows))
    places = sort_places(distinct, reverse=False)
    values = ", ".join(cell(distinct[place]) for place in places[:FEW]) + ", ..." * (len(distinct) > FEW)
    given = ",".join(map(text_of, rule.values))
    return f"no run has {rule.column}{rule.operator}{given}; its values here: {values}"


def _columns(given: str | None, rows: Sequence[Run]) -> list[str]:
    if given is None:
        return usual_columns(rows)
    names = split_at_commas(given, f"--columns {given}")
    check_columns([name for name in names if name != ALL], rows, "--columns")
    columns = (column for name in names for column in (all_columns(rows) if name == ALL else [name]))
    return list(dict.fromkeys(columns))


def _add_used(columns: list[str], sort: str | None, conditions: Sequence[Condition]) -> list[str]:
    """Return the columns with those by which runs are sorted or selected, unless one value is left."""
    several = [one.column for one in conditions if one.operator != "=" or len(one.values) > 1]
    used = [*([sort] if sort else []), *several]
    return [*columns, *(name for name in dict.fromkeys(used) if name not in columns)]


def _add_names(columns: list[str]) -> list[str]:
    """Return the columns with the runs' names in front, unless they tell runs apart."""
    return columns if {"run", "run_id", "folder"} & {*columns} else ["run", *columns]


def _write_csv(rows: Sequence[Run], columns: Sequence[str]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_plain(row.value(column)) for column in columns] for row in rows)


def _plain(value: Any) -> Any:
    """Return a value for a cell of a CSV file; nothing is an empty cell."""
    return value if value is None or isinstance(value, int | float) else text_of(value)


def _print(rows: Sequence[Run], columns: Sequence[str], console: Console) -> None:
    every = {column: [row.value(column) for row in rows] for column in columns}
    shown = {name: values for name, values in every.items() if any(value is not None for value in values)}
    headings = [RESULT_COLUMNS.get(name, name) if console.is_terminal else name for name in shown]
    are_numbers = [
        all(isinstance(value, int | float | None) for value in column) for column in shown.values()
    ]
    cells = [[cell(value).translate(ON_ONE_LINE) for value in values] for values in shown.values()]
    numbers = [place for place, is_number in enumerate(are_numbers) if is_number]
    table = TextTable(headings, list(zip(*cells, strict=True)), numbers=numbers)
    console.print(table, soft_wrap=not console.is_terminal)
