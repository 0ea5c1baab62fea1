"""Read the runs of a report or a table, and print the tables of `fedgrid table`."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError, unknown_name_error
from fedgrid.engine.runtime.storage.hints import format_command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.bundles.layout import SUFFIX
from fedgrid.grids.bundles.read_bundle import open_grid
from fedgrid.grids.display.plain_console import print_plain, warn
from fedgrid.grids.display.steps import StepDisplay
from fedgrid.grids.display.text_table import build_text_table
from fedgrid.grids.presets.yaml_file import split_at_commas
from fedgrid.grids.results.grid_folder import list_grids
from fedgrid.grids.results.import_marks import describe_imports
from fedgrid.grids.results.runs import select_where
from fedgrid.grids.results.study import load
from fedgrid.tracking.scoring.measures import find_measure
from fedgrid.tracking.scoring.run import DAMAGED
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.by_axes import by_axes
from fedgrid.tracking.tables.comparison import MEASURES, build_comparison_tables, describe_unpaired
from fedgrid.tracking.tables.formats import to_csv, to_latex, to_markdown
from fedgrid.tracking.tables.table import Table

PUBLISHED = "published"
"""Value of `report --against` that is not the name of a grid."""
WRITERS: dict[str, Callable[[Table], str]] = {"markdown": to_markdown, "latex": to_latex, "csv": to_csv}
"""Format of `fedgrid table` -> function that formats a table."""


def read_study(
    name: str, storage: Storage, steps: StepDisplay, *, sizes: bool = False, superseded: bool = False
) -> Study:
    """Read the runs of a grid with their results; at least one is finished.

    Args:
        name: the grid.
        storage: where it is.
        steps: shows the progress.
        sizes: whether sizes of models are read too; default False.
        superseded: whether superseded runs are included; default False.

    Raises:
        ConfigError: if there is no such grid, or none of its runs is finished.
        RunError: if a file of the grid is damaged.
    """
    steps.begin_step(f"Reading the runs of {name}")
    study = load(name, storage, sizes=sizes, superseded=superseded, seen=steps.show_count)
    if not study.finished:
        raise ConfigError(
            f"none of the {len(study.runs)} runs of {name} is finished; "
            f"`{format_command(storage, 'status', name)}` shows their progress"
        )
    return study


def filter_study(study: Study, filters: Sequence[str]) -> Study:
    """Select the runs of a study that pass all filters, which are as those of `fedgrid run`.

    Raises:
        ConfigError: for another text, an axis or value that no run has, or if no run is left.
    """
    for text in filters:
        study = study.only(select_where(study.runs, text))
        if not study.finished:
            raise ConfigError(f"--where {text}: no finished run is left")
        study = replace(study, notes=(f"Only runs with {text}.", *study.notes))
    return study


def parse_names(option: str, given: str | None) -> list[str]:
    """Parse the names that an option lists, separated by commas; empty for an option that is not given.

    Raises:
        ConfigError: there is nothing on one side of a comma.
    """
    return [] if given is None else split_at_commas(given, f"{option} {given}")


def is_grid(text: str, storage: Storage) -> bool:
    """Check whether a word names a grid of the storage or of another one, or a bundle."""
    # A path is a grid of another storage: names of grids contain no separator.
    return os.sep in text or text.endswith(SUFFIX) or text in list_grids(storage)


def read_other(text: str, name: str, storage: Storage, steps: StepDisplay) -> Study:
    """Read the runs of what `--against` names: a grid, STORAGE/grids/NAME or a bundle.

    Args:
        text: what it names.
        name: the grid that is compared with it.
        storage: where that grid is.
        steps: shows the progress.

    Raises:
        ConfigError: there is no such grid, it is `name` itself, or none of its runs is finished.
        RunError: a file of it is damaged.
    """
    if text == name:
        raise ConfigError(f"--against {text}: this is the grid itself; name another one")
    if not is_grid(text, storage):
        raise unknown_name_error("grid", text, [PUBLISHED, *list_grids(storage)])
    with open_grid(text, storage) as grid:
        return replace(read_study(grid.name, grid.storage, steps), name=text)


def print_tables(
    name: str,
    storage: Storage,
    steps: StepDisplay,
    console: Console,
    format: str,
    *,
    filters: Sequence[str],
    scores: str | None,
    rows: str | None,
    columns: str | None,
    against: str | None,
) -> None:
    """Print scores of a grid by axes, or next to those of another grid, on the terminal or in a format.

    Two grids are paired by scenario, algorithm and seed, with a table a score: without `scores` the final
    ARI, or the first of the usual scores that both have.

    Args:
        name: the grid.
        storage: where it is.
        steps: shows the progress.
        console: where text is printed; other formats go to standard output.
        format: `text`, or a key of `WRITERS`.
        filters: conditions on runs.
        scores: names of scores, separated by commas; None: the usual one.
        rows, columns: axes, separated by commas; None: chosen by what the runs differ in.
        against: an algorithm or another grid to compare with; None: nothing.

    Raises:
        ConfigError: there is no such grid, score, axis or algorithm, or nothing to show or to pair.
        RunError: a file of the grid is damaged.
    """
    study = filter_study(read_study(name, storage, steps), filters)
    named = parse_names("--score", scores)
    other = None
    if against is not None and is_grid(against, storage):
        if rows or columns:
            raise ConfigError("--rows and --columns lay out one grid; leave them out with --against GRID")
        other = read_other(against, name, storage, steps)
    steps.remove_line()
    try:
        if other is None:
            axes = parse_names("--rows", rows), parse_names("--columns", columns)
            tables = [by_axes(study, named, *axes, against)]
        else:
            measures = [find_measure(score, study, other) for score in named]
            *tables, pairs = build_comparison_tables(study, other, measures or MEASURES)
            if not pairs.rows:
                raise ConfigError(describe_unpaired(study, other))
            # Without `--score` the first of the usual scores is enough here; the report has them all.
            tables = tables[: len(measures) or 1]
    except ValueError as error:
        # The tables know nothing of a command line: what they refuse is a mistake in its options.
        raise ConfigError(str(error)) from error
    _warn_of_runs(study)
    for place, table in enumerate(tables):
        if place:
            print_plain(console)
        if format == "text":
            console.print(build_text_table(table))
        else:
            print(WRITERS[format](table), end="")


def _warn_of_runs(study: Study) -> None:
    """Warn of runs that were imported, and of damaged ones, which are not in the table."""
    for line in describe_imports(run.folder for run in study.runs):
        warn(line)
    for run in study.unfinished:
        if run.state == DAMAGED:
            warn(f"{run.name} is not in the table: {run.lacking}")
