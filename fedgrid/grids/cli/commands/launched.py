"""Commands on a grid that was launched: status, cache, retry, stop, sync, ui, prune and delete."""

from typing import Annotated

import typer

from fedgrid.grids.cli.commands.app import console, exit_with, open_storage, use_plugins, with_groups
from fedgrid.grids.cli.commands.options import (
    AnyGridName,
    AsJson,
    GridName,
    Launch,
    Plugins,
    StorageAt,
    Track,
    Trust,
)

app = typer.Typer()

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


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
    plugins: Plugins = None,
    storage: StorageAt = "runs",
) -> None:
    """Log to MLflow, or another tracker, what it lacks of a grid's runs, as after an outage of its server."""
    from fedgrid.grids.execution.relaunch import sync_grid
    from fedgrid.grids.planning.options import trackers_in

    use_plugins(plugins)
    sync_grid(grid, open_storage(storage), console(), trackers_in(track))


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
    from fedgrid.grids.upkeep.delete import prune_grid

    prune_grid(grid, open_storage(storage), console(), ask=None if yes else typer.confirm)


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
