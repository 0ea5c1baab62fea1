"""The runs that a report or a table is asked for, and the table of `fedgrid table`."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.hints import command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.by_axes import show_table
from fedgrid.grids.display.plain import warn
from fedgrid.grids.display.steps import Steps
from fedgrid.grids.presets.yaml_file import split_at_commas
from fedgrid.grids.results.imported import import_lines
from fedgrid.grids.results.study import load
from fedgrid.tracking.scoring.run import DAMAGED, select
from fedgrid.tracking.scoring.selection import read_conditions
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.by_axes import by_axes
from fedgrid.tracking.tables.formats import to_csv, to_latex, to_markdown
from fedgrid.tracking.tables.table import Table

WRITERS: dict[str, Callable[[Table], str]] = {"markdown": to_markdown, "latex": to_latex, "csv": to_csv}


def read_study(
    name: str, storage: Storage, steps: Steps, *, sizes: bool = False, superseded: bool = False
) -> Study:
    """Return the runs of a grid with their results; it has some.

    Raises:
        ConfigError: if there is no such grid, or none of its runs is finished.
        RunError: if a file of the grid is damaged.
    """
    steps.say(f"Reading the runs of {name}")
    study = load(name, storage, sizes=sizes, superseded=superseded, seen=steps.count)
    if not study.finished:
        raise ConfigError(
            f"none of the {len(study.runs)} runs of {name} is finished; "
            f"`{command(storage, 'status', name)}` shows their progress"
        )
    return study


def filter_study(study: Study, filters: Sequence[str]) -> Study:
    """Return the study of the runs that pass all filters, as of `fedgrid run`.

    Raises:
        ConfigError: for another text, an axis or value that no run has, or if no run is left.
    """
    for text in filters:
        try:
            study = study.only(select(study.runs, read_conditions(text)))
        except ValueError as error:
            raise ConfigError(f"--where {text}: {error}") from error
        if not study.finished:
            raise ConfigError(f"--where {text}: no finished run is left")
        study = replace(study, notes=(f"Only runs with {text}.", *study.notes))
    return study


def names_in(option: str, given: str | None) -> list[str]:
    """Return what an option names, with commas between the names; nothing of one that is not given.

    Raises:
        ConfigError: nothing stands on one side of a comma.
    """
    return [] if given is None else split_at_commas(given, f"{option} {given}")


def print_table(
    study: Study,
    console: Console,
    format: str,
    *,
    scores: str,
    rows: str | None,
    columns: str | None,
    against: str | None,
) -> None:
    """Print scores of a study by axes, on the terminal or as text of a format.

    Raises:
        ConfigError: there is no such score, axis or algorithm, or nothing to show.
    """
    try:
        table = by_axes(
            study,
            names_in("--score", scores),
            names_in("--rows", rows),
            names_in("--columns", columns),
            against,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error
    for line in import_lines(run.folder for run in study.runs):
        warn(line)
    for run in study.unfinished:
        if run.state == DAMAGED:
            warn(f"{run.name} is not in the table: {run.lacking}")
    if format == "text":
        show_table(table, console)
    else:
        print(WRITERS[format](table), end="")
