"""Commands on grids that were launched: `fedgrid status` to `delete`, `show` and `cite`."""

from pathlib import Path
from typing import Annotated

import typer

from fedgrid.grids.cli.actions import completion
from fedgrid.grids.cli.commands.app import (
    create_console,
    find_data_folder,
    open_storage,
    use_plugins,
)
from fedgrid.grids.cli.commands.options import (
    AnyGridName,
    AsJson,
    Conditions,
    DataDir,
    GridName,
    Plugins,
    StorageAt,
    Superseded,
    Track,
    Trust,
    Yes,
)

app = typer.Typer()


@app.command(epilog="Example: `fedgrid status paper`")
def status(
    grid: AnyGridName = None,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Refresh it every two seconds, until the grid has ended or Ctrl-C."),
    ] = False,
    storage: StorageAt = "runs",
    as_json: AsJson = False,
) -> None:
    """Show the progress of a grid, or of all: runs done, running, waiting and failed, the time left."""
    from fedgrid.grids.display.status import show_all_grids, show_status, watch_status

    if watch:
        watch_status(grid, open_storage(storage), as_json, create_console())
    elif grid is None:
        show_all_grids(open_storage(storage), as_json, create_console())
    else:
        show_status(grid, open_storage(storage), as_json, create_console())


@app.command(epilog="Example: `fedgrid cache paper`")
def cache(grid: GridName, storage: StorageAt = "runs", as_json: AsJson = False) -> None:
    """Show how much work the round cache has saved a grid, and how much space it takes."""
    from fedgrid.grids.round_cache.usage import show_cache

    show_cache(grid, open_storage(storage), as_json, create_console())


@app.command(epilog="Example: `fedgrid stop paper`")
def stop(grid: GridName, storage: StorageAt = "runs") -> None:
    """Let every run of a grid stop after its current round; `fedgrid run` continues them."""
    from fedgrid.grids.display.status import request_stop

    request_stop(grid, open_storage(storage), create_console())


@app.command(epilog="Example: `fedgrid sync paper`")
def sync(
    grid: GridName,
    track: Track = "mlflow",
    figures: Annotated[
        bool, typer.Option("--figures", help="Draw the figure of each finished run for it, too.")
    ] = False,
    plugins: Plugins = None,
    storage: StorageAt = "runs",
) -> None:
    """Log to MLflow, or another tracker, what it lacks of a grid's runs, as after an outage of its server."""
    from fedgrid.grids.execution.relaunch import sync_grid
    from fedgrid.grids.planning.options import parse_trackers

    use_plugins(plugins)
    sync_grid(grid, open_storage(storage), create_console(), parse_trackers(track), with_figures=figures)


@app.command(epilog="Example: `fedgrid ui paper --port 5001`")
def ui(
    grid: AnyGridName = None,
    storage: StorageAt = "runs",
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port on this machine's loopback address.")
    ] = 5000,
) -> None:
    """Open the MLflow UI on the runs of a storage, on this machine only."""
    from fedgrid.grids.cli.actions.ui import serve_ui

    serve_ui(grid, open_storage(storage), port, create_console())


@app.command(epilog="Example: `fedgrid delete quickstart`")
def delete(
    grid: GridName,
    superseded: Annotated[
        bool,
        typer.Option(
            "--superseded", help="Only the runs of earlier launches that the edited file or plugin replaces."
        ),
    ] = False,
    yes: Yes = False,
    storage: StorageAt = "runs",
) -> None:
    """Delete a grid: its folder, and those of its runs that no other grid has.

    Cached rounds stay; its runs in MLflow are marked as deleted.
    """
    from fedgrid.grids.upkeep.delete import delete_grid

    ask = None if yes else typer.confirm
    delete_grid(grid, open_storage(storage), create_console(), ask, only_superseded=superseded)


@app.command(epilog="Example: `fedgrid show paper --sort ari --where algorithm=ocfl-hdbscan`")
def show(
    what: Annotated[
        str,
        typer.Argument(
            help="A grid, or a run: its name, or the beginning of its id.",
            show_default=False,
            autocompletion=completion.complete_grids_and_runs,
        ),
    ],
    where: Conditions = None,
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
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the runs as CSV, for a spreadsheet.")] = False,
    note: Annotated[
        str | None,
        typer.Option(help="Write a note on a run, which replaces an earlier one; '' removes it."),
    ] = None,
    tags: Annotated[
        list[str] | None,
        typer.Option("--tag", help="Write a tag on a run, KEY=VALUE; KEY= removes it; may be repeated."),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw a run's temperature and clusters by round here: .pdf, .png or .svg."),
    ] = None,
    data_dir: DataDir = None,
    storage: StorageAt = "runs",
    as_json: AsJson = False,
) -> None:
    """Show a grid and its runs, with any settings and scores; or one run, round by round."""
    from fedgrid.grids.browse.grid_page import RunListOptions
    from fedgrid.grids.browse.show import show_grid_or_run as show_it

    show_it(
        what,
        open_storage(storage),
        find_data_folder(data_dir),
        as_json,
        create_console(),
        runs=RunListOptions(where or (), sort, reverse, columns, superseded, as_csv),
        figure=figure,
        tags=tags or (),
        note=note,
    )


@app.command(epilog="Example: `fedgrid cite paper > refs.bib`")
def cite(
    grid: Annotated[
        str,
        typer.Argument(
            help="A grid that was launched, a preset, a YAML file, or a scenario.",
            show_default=False,
            autocompletion=completion.complete_grids_presets_and_files,
        ),
    ],
    plugins: Plugins = None,
    trust: Trust = False,
    storage: StorageAt = "runs",
    data_dir: DataDir = None,
) -> None:
    """Print the BibTeX of the algorithms and data sets that a grid uses, below a line of its settings."""
    from fedgrid.grids.cli.actions.cite import print_citations as cite_it

    use_plugins(plugins, trust=trust)
    cite_it(grid, open_storage(storage), find_data_folder(data_dir))
