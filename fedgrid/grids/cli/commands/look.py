"""`fedgrid runs`, `fedgrid show`, `fedgrid tag` and `fedgrid cite`."""

from pathlib import Path
from typing import Annotated

import typer

from fedgrid.grids.cli.actions import completion
from fedgrid.grids.cli.commands.app import console, data_folder, open_storage, use_plugins
from fedgrid.grids.cli.commands.options import AsJson, DataDir, GridName, Plugins, StorageAt, Superseded

app = typer.Typer()


@app.command(epilog="Example: `fedgrid runs paper --sort ari --where algorithm=ocfl-hdbscan`")
def runs(
    grid: GridName,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these runs: COLUMN=VALUE[,...]; also != > >= < <=, as in 'ari>0.9'; may be repeated."
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column to sort by: largest number first, text from A to Z."),
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="Reverse the order.")] = False,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,NAME]",
            help="Keys of a run (training.rounds), scores (ari), recorded numbers (temperature: the last "
            "one), state, variant, seconds, note, tags.KEY; or all.",
            show_default="what the runs differ in, and the scores of the results table",
        ),
    ] = None,
    superseded: Superseded = False,
    storage: StorageAt = "runs",
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, for a spreadsheet.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the runs of a grid with any of their settings, scores and recorded numbers."""
    from fedgrid.grids.browse.runs import show_runs

    show_runs(
        grid,
        open_storage(storage),
        console(),
        where=where or (),
        sort=sort,
        reverse=reverse,
        columns=columns,
        superseded=superseded,
        as_csv=as_csv,
        as_json=as_json,
    )


@app.command(epilog="Example: `fedgrid show quickstart`, then `fedgrid show 11e257`")
def show(
    what: Annotated[
        str,
        typer.Argument(
            help="A grid, or a run: its name, or the beginning of its id.",
            show_default=False,
            autocompletion=completion.grids_and_runs,
        ),
    ],
    storage: StorageAt = "runs",
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw a run's temperature and clusters by round here: .pdf, .png or .svg."),
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Show a grid with its scores, or a run: settings, what happened by round, temperature, clusters."""
    from fedgrid.grids.browse.show import show as show_it

    show_it(what, open_storage(storage), data_folder(data_dir), as_json, console(), figure)


@app.command(epilog="Example: `fedgrid tag 11e257 status=good --note 'for figure 3'`")
def tag(
    run: Annotated[
        str,
        typer.Argument(
            help="A run: its name, or the beginning of its id.",
            show_default=False,
            autocompletion=completion.runs,
        ),
    ],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Tags to set; KEY= removes one.", show_default=False),
    ] = None,
    note: Annotated[
        str | None, typer.Option(help="A note, which replaces an earlier one; '' removes it.")
    ] = None,
    storage: StorageAt = "runs",
) -> None:
    """Write a note and tags on a run: in its folder, in `fedgrid show` and `fedgrid runs`, and in MLflow."""
    from fedgrid.grids.browse.tag import tag as tag_it

    tag_it(run, changes or (), note, open_storage(storage), console())


@app.command(epilog="Example: `fedgrid cite paper > refs.bib`")
def cite(
    grid: Annotated[
        str,
        typer.Argument(
            help="A grid that was launched, a preset, a YAML file, or a scenario.",
            show_default=False,
            autocompletion=completion.grids_presets_and_files,
        ),
    ],
    plugins: Plugins = None,
    storage: StorageAt = "runs",
    data_dir: DataDir = None,
) -> None:
    """Print a methods paragraph (LaTeX) and the BibTeX of the algorithms and data sets that a grid uses."""
    from fedgrid.grids.cli.actions.shelves import cite as cite_it

    use_plugins(plugins)
    cite_it(grid, open_storage(storage), data_folder(data_dir))
