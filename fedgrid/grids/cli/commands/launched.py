"""Commands on what was launched: `fedgrid status` to `delete`, `runs`, `show`, `tag` and `cite`."""

from pathlib import Path
from typing import Annotated

import typer

from fedgrid.grids.cli.actions import completion
from fedgrid.grids.cli.commands.app import (
    console,
    data_folder,
    exit_with,
    open_storage,
    use_plugins,
    with_groups,
)
from fedgrid.grids.cli.commands.options import (
    AnyGridName,
    AsJson,
    DataDir,
    GridName,
    Launch,
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
        typer.Option("--watch", help="Show it anew every two seconds, until the grid has ended or Ctrl-C."),
    ] = False,
    storage: StorageAt = "runs",
    as_json: AsJson = False,
) -> None:
    """Show the progress of a grid, or of all: runs done, running, waiting and failed, the time left."""
    from fedgrid.grids.display.status import show_all, show_status, watch_status

    if watch:
        watch_status(grid, open_storage(storage), as_json, console())
    elif grid is None:
        show_all(open_storage(storage), as_json, console())
    else:
        show_status(grid, open_storage(storage), as_json, console())


@app.command(epilog="Example: `fedgrid cache paper --drop`")
def cache(
    grid: GridName,
    drop: Annotated[
        bool,
        typer.Option("--drop", help="Delete the cached states that no unfinished run of the grid needs."),
    ] = False,
    storage: StorageAt = "runs",
    as_json: AsJson = False,
) -> None:
    """Show how much work the round cache has saved a grid, and how much space it takes."""
    from fedgrid.grids.round_cache.command import show_cache

    show_cache(grid, open_storage(storage), drop, as_json, console())


@app.command(epilog="Example: `fedgrid retry paper`")
@with_groups
def retry(grid: GridName, launch: Launch, trust: Trust = False) -> None:
    """Run a grid's failed runs again, from their last rounds, and no other run."""
    from fedgrid.grids.execution.relaunch import retry as run_failed

    options, storage = launch.options(), open_storage(launch.storage)
    use_plugins(launch.plugins)
    exit_with(run_failed(grid, storage, options, console(), trust=trust))


@app.command(epilog="Example: `fedgrid stop paper`")
def stop(grid: GridName, storage: StorageAt = "runs") -> None:
    """Let every run of a grid stop after its current round; `fedgrid run` continues them."""
    from fedgrid.grids.display.status import ask_to_stop

    ask_to_stop(grid, open_storage(storage), console())


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
    from fedgrid.grids.planning.options import trackers_in

    use_plugins(plugins)
    sync_grid(grid, open_storage(storage), console(), trackers_in(track), drawn=figures)


@app.command(epilog="Example: `fedgrid ui paper --port 5001`")
def ui(
    grid: AnyGridName = None,
    storage: StorageAt = "runs",
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port on this machine's loopback address.")
    ] = 5000,
) -> None:
    """Open the MLflow UI on the run store, on this machine only."""
    from fedgrid.grids.cli.actions.ui import serve_ui

    serve_ui(grid, open_storage(storage), port, console())


@app.command(epilog="Example: `fedgrid prune mine`")
def prune(grid: GridName, yes: Yes = False, storage: StorageAt = "runs") -> None:
    """Delete a grid's superseded runs: those that its edited file, or plugin, no longer asks for."""
    from fedgrid.grids.upkeep.delete import delete_grid

    ask = None if yes else typer.confirm
    delete_grid(grid, open_storage(storage), console(), ask, only_superseded=True)


@app.command(epilog="Example: `fedgrid delete quickstart`")
def delete(
    grid: GridName,
    yes: Yes = False,
    storage: StorageAt = "runs",
) -> None:
    """Delete a grid: its folder, and those of its runs that no other grid has.

    Cached rounds stay; its runs in MLflow are marked as deleted.
    """
    from fedgrid.grids.upkeep.delete import delete_grid

    delete_grid(grid, open_storage(storage), console(), ask=None if yes else typer.confirm)


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
    trust: Trust = False,
    storage: StorageAt = "runs",
    data_dir: DataDir = None,
) -> None:
    """Print a methods paragraph (LaTeX) and the BibTeX of the algorithms and data sets that a grid uses."""
    from fedgrid.grids.cli.actions.cite import cite as cite_it

    use_plugins(plugins, trust=trust)
    cite_it(grid, open_storage(storage), data_folder(data_dir))
