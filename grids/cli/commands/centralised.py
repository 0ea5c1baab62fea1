"""`fedgrid centralised`."""

from typing import Annotated

import typer

from fedgrid.grids.cli.commands.app import console, data_folder, open_storage, use_plugins
from fedgrid.grids.cli.commands.options import (
    AcceptChanges,
    AsJson,
    Changes,
    DataDir,
    Plugins,
    Seed,
    StorageAt,
)

app = typer.Typer()


@app.command(epilog="Example: `fedgrid centralised mnist --epochs 30`")
def centralised(
    dataset: Annotated[
        str, typer.Argument(help="A data set of `fedgrid data`, folder:PATH or npz:PATH.", show_default=False)
    ],
    epochs: Annotated[
        int | None, typer.Option(min=2, help="Passes over the pool. [default: the data set's rounds]")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="A model of `fedgrid models`. [default: the data set's]")
    ] = None,
    seed: Seed = None,
    changes: Changes = None,
    plugins: Plugins = None,
    storage: StorageAt = "runs",
    data_dir: DataDir = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete what is stored of this training, and start over.")
    ] = False,
    accept_changes: AcceptChanges = False,
    as_json: AsJson = False,
) -> None:
    """Train on the whole pool, without clients, and propose epsilons and cooldown for Sattler from that."""
    from fedgrid.grids.centralised.command import configure, run_centralised

    folder = data_folder(data_dir)
    use_plugins(plugins)
    config = configure(dataset, folder, seed=seed or 0, epochs=epochs, model=model, changes=changes or [])
    run_centralised(
        config, open_storage(storage), folder, as_json, console(), fresh=fresh, accept=accept_changes
    )
