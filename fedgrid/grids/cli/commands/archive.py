"""`fedgrid import`."""

from pathlib import Path
from typing import Annotated

import typer

from fedgrid.grids.cli.commands.app import console, open_storage
from fedgrid.grids.cli.commands.options import AsJson, StorageAt

app = typer.Typer()


@app.command("import", epilog="Example: `fedgrid import ODFL_Archive --name ocfl-archive`")
def import_(
    path: Annotated[
        Path,
        typer.Argument(
            help="The authors' archive: experiments/, temperature_experiments/, datasets/.",
            show_default=False,
        ),
    ],
    name: Annotated[str, typer.Option(help="Name of the new grid.")],
    published_truth: Annotated[
        bool,
        typer.Option(
            "--published-truth",
            help="Score BloodMNIST, overlapping, imbalanced, 30 clients against the groups of the paper's "
            "notebook (7/14/9), not the real ones (10/10/10).",
        ),
    ] = False,
    storage: StorageAt = "runs",
    as_json: AsJson = False,
) -> None:
    """Read the OCFL authors' archive as runs of a grid: records, MLflow runs, reports."""
    from fedgrid.grids.archive.importing import import_archive

    import_archive(
        path, name, open_storage(storage), published_truth=published_truth, as_json=as_json, console=console()
    )
