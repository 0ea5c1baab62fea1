"""Print a grid for `fedgrid show GRID`: its state, its axes, and its runs as a table, CSV or JSON."""

import csv
import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rich.console import Console

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, suggest_name
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.hints import format_command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.plain_console import print_plain, warn
from fedgrid.grids.display.status import COUNTS, STOPPED, format_state_lines, read_status
from fedgrid.grids.display.tables import DISTURBANCE_COLUMNS, RESULT_COLUMNS, format_cell, select_columns
from fedgrid.grids.display.text_table import TextTable, print_pairs
from fedgrid.grids.presets.axes import read_where
from fedgrid.grids.presets.axis_keys import ALGORITHM, AXES, SETTING_PREFIX, format_axis_value, list_axis_keys
from fedgrid.grids.presets.yaml_file import split_at_commas
from fedgrid.grids.results.axes import find_naming_keys
from fedgrid.grids.results.grid_folder import SUPERSEDED, GridFolder
from fedgrid.grids.results.outcome import is_finished, trust_times
from fedgrid.grids.results.runs import read_runs
from fedgrid.grids.trackers.annotations import read_annotations
from fedgrid.tracking.names import SHORT_NAMES
from fedgrid.tracking.scoring.run import FINISHED, IDENTITY, NOTE, TAG, TIMES, Run, format_early_stops
from fedgrid.tracking.scoring.selection import Condition, format_value, sort_positions

ALL_COLUMNS = "all"
"""The word in `--columns` that stands for every column whose value is available without a run's records."""
VALUES_SHOWN = 8
"""Number of values of a column that a message lists, and of an axis; an axis with more shows the first ones,
the last and their number."""
ON_ONE_LINE = str.maketrans({"\n": "\\n", "\t": "\\t"})
"""Translation that keeps a cell on one line of the table: a note may contain line breaks and tabs."""


@dataclass(frozen=True)
class RunListOptions:
    """Options of `fedgrid show GRID`: which runs are listed, in which order, with which columns."""

    where: Sequence[str] = ()
    """Conditions as typed (`dataset=digits`), all of which a run must meet; default: none."""
    sort: str | None = None
    """Column to sort by, largest number first and text from A to Z; default None: the order of the grid."""
    reverse: bool = False
    """Whether the order is reversed; default False."""
    columns: str | None = None
    """Column names separated by commas; default None: what the runs differ in, and the scores of the results
    table."""
    superseded: bool = False
    """Whether superseded runs are listed too, with a column that marks them; default False."""
    as_csv: bool = False
    """Whether the runs are written as CSV to standard output, without anything else; default False."""


ALL_RUNS = RunListOptions()
"""Options that list all runs of a grid: those of `fedgrid show GRID` without further options."""


def read_rows(
    configs: Sequence[RunConfig], storage: Storage, old: Collection[RunConfig] = ()
) -> tuple[Run, ...]:
    """Read states, scores, times and notes of runs.

    Args:
        configs: the runs, in the order of the rows.
        storage: where their folders are; from a storage behind a URI, only what the rows need is downloaded.
        old: those of `configs` that are superseded.

    Raises:
        RunError: if the storage cannot be read.
    """
    # What a finished run's rows need was already downloaded with its marks, except its times. An unfinished
    # run has no stored scores, so its records are needed; its states, which are large, never are.
    for config in configs if storage.uri else ():
        folder = build_folder_path(storage.root, config).name
        if is_finished(storage, config):
            storage.pull(folder, only=("timings",))
        else:
            storage.pull(folder, skip=("state-",))
    return tuple(map(_add_notes, read_runs(configs, storage, old)))


def _add_notes(run: Run) -> Run:
    """Add the note and tags of a run's folder, which its user may have changed after the run ended."""
    written = read_annotations(run.folder)
    tags = {f"{TAG}{key}": value for key, value in written.tags.items()}
    return replace(run, notes={**({NOTE: written.note} if written.note else {}), **tags})


def list_usual_columns(rows: Sequence[Run]) -> list[str]:
    """List the default columns: state, axes with several values, and the scores of the results table."""
    further = dict.fromkeys(
        axis for row in rows for axis, _ in row.axes if not axis.startswith(SETTING_PREFIX)
    )
    differing = [
        axis
        for axis in (*AXES, *further)
        # The algorithm is named even if there is only one: nothing else in the table says it.
        if len({str(row.value(axis)) for row in rows}) > 1 or axis == ALGORITHM
    ]
    variant = ["variant"] if any(row.variant for row in rows) else []
    superseded = [SUPERSEDED] if any(row.is_superseded for row in rows) else []
    own = [name for name in DISTURBANCE_COLUMNS if any(name in row.scores for row in rows)]
    scores = select_columns({name for row in rows for name in row.scores})
    return [*differing, *variant, *superseded, "state", *scores, *own, "seconds", "run_id"]


def list_all_columns(rows: Sequence[Run]) -> list[str]:
    """List every column for which some run has a value, except those that need a run's records."""
    notes = {name: None for row in rows for name in row.notes}
    settings = {key for row in rows for key, value in row.values.items() if value is not None}
    # Known keys come first, in the order of `fedgrid list keys`; then those of plugins, which only the runs
    # name.
    keys = (*list_axis_keys(), *(key for row in rows for key in row.values))
    scores = (name for row in rows for name in row.scores)
    columns = [
        *IDENTITY,
        *(name for name in (NOTE, *notes) if name in notes),
        *(key for key in keys if key in settings),
        *scores,
        *TIMES,
    ]
    return list(dict.fromkeys(columns))


def check_columns(columns: Sequence[str], rows: Sequence[Run], option: str) -> None:
    """Check that the columns exist.

    Args:
        columns: names given by the user.
        rows: the runs; a score or a key of a plugin exists if one of them has it.
        option: the option that named the columns, for the message.

    Raises:
        ConfigError: if one is unknown; names the nearest, and how to see all.
    """
    allowed = {*IDENTITY, *TIMES, NOTE, *list_axis_keys()}
    allowed |= {name for row in rows for part in (row.values, row.scores, row.notes) for name in part}
    for column in columns:
        # Recorded numbers are looked up last: this opens files of runs.
        if column in allowed or any(column in row.recorded for row in rows):
            continue
        names = {*allowed, *(name for row in rows for name in row.recorded)}
        keys = rows[0].values if rows else {}
        inner = {key.rpartition(".")[2]: key for key, value in keys.items() if value is not None}
        near = suggest_name(column, names, SHORT_NAMES, inner)
        raise ConfigError(
            f"{option}: unknown column '{column}'; {near}allowed: a key of a run (training.rounds), a score "
            f"({', '.join(list(RESULT_COLUMNS)[:3])}), a recorded number (temperature); `--columns all "
            "--json` shows them"
        )


def _select_runs(rows: Sequence[Run], conditions: Sequence[Condition], options: RunListOptions) -> list[Run]:
    """Select the runs that meet all conditions, and sort them; warn of a condition that no run meets."""
    check_columns([condition.column for condition in conditions], rows, "--where")
    chosen = [
        row for row in rows if all(rule.matches_values([row.value(rule.column)]) for rule in conditions)
    ]
    for rule in conditions:
        if rows and not any(rule.matches_values([row.value(rule.column)]) for row in rows):
            warn(f"--where: {_describe_unmet_condition(rule, rows)}")
    if options.sort is not None:
        check_columns([options.sort], rows, "--sort")
        places = sort_positions([row.value(options.sort) for row in chosen], options.reverse)
        return [chosen[place] for place in places]
    return chosen[::-1] if options.reverse else chosen


def _describe_unmet_condition(rule: Condition, rows: Sequence[Run]) -> str:
    """Describe a condition that no run meets, with the values that its column has."""
    distinct = list(dict.fromkeys(row.value(rule.column) for row in rows))
    places = sort_positions(distinct, reverse=False)
    values = ", ".join(format_cell(distinct[place]) for place in places[:VALUES_SHOWN]) + ", ..." * (
        len(distinct) > VALUES_SHOWN
    )
    given = ",".join(map(format_value, rule.values))
    return f"no run has {rule.column}{rule.operator}{given}; its values here: {values}"


def _parse_columns(given: str | None, rows: Sequence[Run]) -> list[str]:
    """Parse `--columns`, with `all` replaced by every column; without it, list the default columns."""
    if given is None:
        return list_usual_columns(rows)
    names = split_at_commas(given, f"--columns {given}")
    check_columns([name for name in names if name != ALL_COLUMNS], rows, "--columns")
    columns = (
        column for name in names for column in (list_all_columns(rows) if name == ALL_COLUMNS else [name])
    )
    return list(dict.fromkeys(columns))


def _add_used_columns(columns: list[str], sort: str | None, conditions: Sequence[Condition]) -> list[str]:
    """Add the columns by which runs are sorted or selected, except those left with a single value."""
    several = [one.column for one in conditions if one.operator != "=" or len(one.values) > 1]
    used = [*([sort] if sort else []), *several]
    return [*columns, *(name for name in dict.fromkeys(used) if name not in columns)]


def _add_run_names(columns: list[str]) -> list[str]:
    """Add the runs' names as first column, unless another column already identifies a run."""
    return columns if {"run", "run_id", "folder"} & {*columns} else ["run", *columns]


def _write_csv(rows: Sequence[Run], columns: Sequence[str]) -> None:
    """Write a header and a row for each run to standard output."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_format_csv_value(row.value(column)) for column in columns] for row in rows)


def _format_csv_value(value: Any) -> Any:
    """Format a value for a CSV cell; None gives an empty cell."""
    return value if value is None or isinstance(value, int | float) else format_value(value)


def _print_table(rows: Sequence[Run], columns: Sequence[str], console: Console) -> None:
    """Print the table of runs, without columns that are empty for all of them."""
    every = {column: [row.value(column) for row in rows] for column in columns}
    shown = {name: values for name, values in every.items() if any(value is not None for value in values)}
    # Into a file or pipe go the names that `--columns` and `--sort` accept; a terminal gets headings for
    # people.
    headings = [RESULT_COLUMNS.get(name, name) if console.is_terminal else name for name in shown]
    are_numbers = [
        all(isinstance(value, int | float | None) for value in column) for column in shown.values()
    ]
    cells = [[format_cell(value).translate(ON_ONE_LINE) for value in values] for values in shown.values()]
    numbers = [place for place, is_number in enumerate(are_numbers) if is_number]
    table = TextTable(headings, list(zip(*cells, strict=True)), numbers=numbers)
    # Without a terminal a row stays on one line whatever its width, so that `grep` and `awk` can read it.
    console.print(table, soft_wrap=not console.is_terminal)


def show_grid(name: str, options: RunListOptions, storage: Storage, as_json: bool, console: Console) -> None:
    """Print a grid: state, axes, runs and next commands; with `as_csv` only the runs.

    Args:
        name: the grid.
        options: which runs are listed, and how.
        storage: where the grid is.
        as_json: whether one JSON object is printed in place of text.
        console: where text is printed; CSV and JSON go to standard output.

    Raises:
        ConfigError: if it is damaged, there is no such column, or a condition is malformed.
        RunError: if the storage cannot be read.
    """
    if options.as_csv and as_json:
        raise ConfigError("choose one of --csv and --json")
    with trust_times(storage):
        folder = GridFolder(storage, name)
        stored = folder.read_definition()
        old = stored.superseded
        every = read_rows((*stored.runs, *old) if options.superseded else stored.runs, storage, old)
    # Conditions and columns are checked before anything is printed: half a page followed by an error is worse
    # than an error.
    conditions = [condition for text in options.where for condition in read_where(text)]
    columns = _parse_columns(options.columns, every)
    rows = _select_runs(every, conditions, options)
    if options.as_csv:
        _write_csv(rows, columns)
        return
    now = read_status(name, storage)
    keys = (*AXES, *find_naming_keys(stored.runs))
    values = {key: dict.fromkeys(format_axis_value(run, key) for run in stored.runs) for key in keys}
    axes = {
        key: [value for value in shown_values if value is not None] for key, shown_values in values.items()
    }
    facts = {
        "grid": name,
        "source": stored.source,
        "folder": f"{storage}/{folder.path.relative_to(storage.root)}",
        **{key: now[key] for key in ("driver", *COUNTS, STOPPED, SUPERSEDED, "failures")},
        "axes": axes,
    }
    if as_json:
        print(json.dumps({**facts, "runs": [{name: row.value(name) for name in columns} for row in rows]}))
        return
    say = partial(print_plain, console)
    for line in format_state_lines(now, storage):
        say(line)
    if stored.source:
        say(f"From {stored.source}")
    print_pairs(console, {key: _join_values(of_key) for key, of_key in axes.items()}, "  ")
    say()
    if options.columns is not None:
        columns = _add_run_names(columns)
    else:
        columns = _add_used_columns(columns, options.sort, conditions)
    _print_table(rows, columns, console)
    if len(rows) < len(every):
        say(f"{len(rows)} of {len(every)} runs")
    if line := format_early_stops([row for row in rows if row.state == FINISHED]):
        say(line)
    say()
    for failure in now["failures"]:
        say(f"failed: {failure['run']} ({failure['run_id']}): {failure['cause']}")
    more = {"Files:": facts["folder"]}
    if rows:
        more["One of them:"] = format_command(storage, "show", rows[0].run_id)
    more["All columns:"] = format_command(storage, "show", name, "--columns", "all", "--csv")
    if now["done"] + now[STOPPED] < now["total"]:
        more["Its progress:"] = format_command(storage, "status", name)
    if now["done"]:
        more["Means over seeds:"] = format_command(storage, "table", name)
        more["Tables and figures:"] = format_command(storage, "report", name)
    print_pairs(console, more)


def _join_values(values: list[str]) -> str:
    """Join the values of an axis with commas, abbreviated if there are many."""
    if len(values) <= VALUES_SHOWN:
        return ", ".join(values)
    return f"{values[0]}, {values[1]}, ... {values[-1]} ({len(values)} values)"
