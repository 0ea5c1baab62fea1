"""`fedgrid ui`."""

from typing import Annotated

import typer

from fedgrid.grids.cli.commands.app import console
from fedgrid.grids.cli.commands.options import StorageAt

app = typer.Typer()


@app.command(epilog="Example: `fedgrid ui paper --port 5001`")
def ui(
    grid: Annotated[str | None, typer.Argument(help="Open at this grid's runs.", show_default=False)] = None,
    storage: StorageAt = "runs",
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port on this machine's loopback address.")
    ] = 5000,
) -> None:
    """Open the MLflow UI on the run store, on this machine only."""
    from fedgrid.engine.storage.storage import Storage
    from fedgrid.grids.mlflow_log.ui import serve_ui

    raise typer.Exit(serve_ui(grid, Storage.of(storage), port, console()))
