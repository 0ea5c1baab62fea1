"""`fedgrid attack`."""

from typing import Annotated, Literal

import typer

from fedgrid.grids.cli.commands.app import FAILED, console, data_folder, open_storage, use_plugins
from fedgrid.grids.cli.commands.options import AsJson, DataDir, Filters, GridOrRun, Plugins, StorageAt

app = typer.Typer()


@app.command(epilog="Example: `fedgrid attack quickstart --kind membership`")
def attack(
    grid: GridOrRun,
    kind: Annotated[
        Literal["membership", "class", "reconstruction"],
        typer.Option(help="What to learn: who trained on an image, a majority class, the images themselves."),
    ],
    filters: Filters = None,
    clients: Annotated[
        int | None,
        typer.Option(min=1, help="Reconstruction: clients whose updates are inverted.", show_default="3"),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Reconstruction: optimizer steps per client.", show_default="300"),
    ] = None,
    round_: Annotated[
        int | None,
        typer.Option(
            "--round",
            min=1,
            help="Attack the state after this round, if its checkpoint is kept.",
            show_default="last",
        ),
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help="Runs to attack in parallel.")] = 1,
    plugins: Plugins = None,
    storage: StorageAt = "runs",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Attack the privacy of clients in finished runs: from their models, updates, messages and clusters.

    Runs are not changed. After an interruption, the same command continues.
    """
    from fedgrid.grids.attack.command import attack_grid, settings_of

    folder = data_folder(data_dir)
    use_plugins(plugins)
    settings = settings_of(kind, clients, steps, round_)
    store = open_storage(storage)
    failed = attack_grid(
        grid,
        store,
        folder,
        settings,
        console(),
        filters=filters or [],
        processes=processes,
        as_json=as_json,
    )
    if failed:
        raise typer.Exit(FAILED)
