"""`fedgrid table`: a score of a grid by the axes that the user chooses."""

from collections.abc import Callable, Sequence

from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.cli.actions.studies import filtered, names_in, read_study
from fedgrid.grids.display.by_axes import show_table
from fedgrid.grids.display.steps import Steps
from fedgrid.tracking.tables.by_axes import by_axes
from fedgrid.tracking.tables.formats import to_csv, to_latex, to_markdown
from fedgrid.tracking.tables.table import Table

WRITERS: dict[str, Callable[[Table], str]] = {"markdown": to_markdown, "latex": to_latex, "csv": to_csv}


def print_table(
    grid: str,
    storage: Storage,
    console: Console,
    steps: Steps,
    *,
    scores: str,
    rows: str | None,
    columns: str | None,
    against: str | None,
    filters: Sequence[str],
    format: str,
) -> None:
    """Print the table, on the terminal or as text of a format.

    Raises:
        ConfigError: there is no such grid, score, axis or algorithm, or nothing to show.
        RunError: a file of the grid is damaged.
    """
    study = filtered(read_study(grid, storage, steps), filters)
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
    steps.pause()
    if format == "text":
        show_table(table, console)
    else:
        print(WRITERS[format](table), end="")
