"""`fedgrid explain`."""

from typing import Annotated, Literal

import typer

from fedgrid.grids.cli.commands.app import (
    FAILED,
    INTERRUPTED,
    console,
    data_folder,
    open_storage,
    use_plugins,
)
from fedgrid.grids.cli.commands.options import (
    AsJson,
    DataDir,
    Filters,
    GridOrRun,
    InProcess,
    Plugins,
    StorageAt,
)

app = typer.Typer()


@app.command(epilog="Example: `fedgrid explain quickstart --on members`")
def explain(
    what: GridOrRun,
    on: Annotated[
        str | None,
        typer.Option(
            help="Images to explain: members (the model's own clients'), others, server; or several: a,b.",
            show_default="all three",
        ),
    ] = None,
    filters: Filters = None,
    images: Annotated[
        int | None,
        typer.Option(min=1, help="Images per client.", show_default="24, or all if a client has fewer"),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of a curve, at most.", show_default="32")
    ] = None,
    round_: Annotated[
        str, typer.Option("--round", help="Explain the state after this round: last, or a number.")
    ] = "last",
    baseline: Annotated[
        Literal["mean", "black", "blur"] | None,
        typer.Option(
            help="What removed pixels become: the mean colour of the client's images, black, or blurred.",
            show_default="mean",
        ),
    ] = None,
    as_published: Annotated[
        bool,
        typer.Option(
            "--as-published", help="As the OCFL journal paper did, with its mistakes: docs/explanations.md."
        ),
    ] = False,
    plugins: Plugins = None,
    storage: StorageAt = "runs",
    data_dir: DataDir = None,
    in_process: InProcess = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be explained, and roughly how long it takes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Explain the images of finished runs: saliency maps, and insertion and deletion curves that test them.

    Runs are not changed. After an interruption, the same command continues.
    """
    from fedgrid.grids.explain.choose import Asked, distributions
    from fedgrid.grids.explain.command import explain_grid

    folder = data_folder(data_dir)
    use_plugins(plugins)
    result = explain_grid(
        what,
        open_storage(storage),
        folder,
        Asked(distributions(on), images, steps, round_, baseline, as_published),
        filters or [],
        console(),
        in_process=in_process,
        dry_run=dry_run,
        as_json=as_json,
    )
    if result.stopped or result.failed:
        raise typer.Exit(INTERRUPTED if result.stopped else FAILED)
