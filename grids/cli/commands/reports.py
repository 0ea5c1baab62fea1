"""`fedgrid report` and `fedgrid compare`."""

from typing import Annotated

import typer

from fedgrid.grids.cli.commands.app import console
from fedgrid.grids.cli.commands.options import AsJson, GridName, ReportTo, StorageAt

app = typer.Typer()


@app.command(epilog="Example: `fedgrid report paper --against published`")
def report(
    grid: GridName,
    against: Annotated[
        str | None,
        typer.Option(
            help="published: the papers' numbers beside ours; or a grid: both side by side.",
            show_default=False,
        ),
    ] = None,
    to: ReportTo = None,
    storage: StorageAt = "runs",
    as_json: AsJson = False,
) -> None:
    """Write a grid's tables and figures (a web page, LaTeX, Markdown, csv, svg, png), also while it runs."""
    from fedgrid.engine.storage.storage import Storage
    from fedgrid.grids.cli.actions.reports import write_report

    write_report(grid, Storage.of(storage), against, to, as_json, console())


@app.command(epilog="Example: `fedgrid compare paper ocfl-archive`")
def compare(
    one: GridName,
    other: Annotated[str, typer.Argument(help="Another grid of the same storage.", show_default=False)],
    to: ReportTo = None,
    storage: StorageAt = "runs",
    as_json: AsJson = False,
) -> None:
    """Compare two grids, paired by scenario and algorithm."""
    from fedgrid.engine.storage.storage import Storage
    from fedgrid.grids.cli.actions.reports import write_comparison

    write_comparison(one, other, Storage.of(storage), to, as_json, console())
