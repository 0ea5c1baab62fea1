"""`fedgrid init`, `fedgrid schema` and `fedgrid doctor`."""

from pathlib import Path
from typing import Annotated

import typer

from fedgrid.grids.cli.commands.app import FAILED, console, use_plugins
from fedgrid.grids.cli.commands.options import AsJson, Plugins, StorageAt

app = typer.Typer()


@app.command(epilog="Example: `fedgrid init my-study`")
def init(
    folder: Annotated[Path, typer.Argument(help="A new folder, named after the study.", show_default=False)],
) -> None:
    """Write a study to start from: a grid, an algorithm and a model of your own, a search, a notebook."""
    from fedgrid.grids.cli.actions.init import init as write_study

    write_study(folder, console())


@app.command(epilog="Example: `fedgrid schema > fedgrid.schema.json`")
def schema(plugins: Plugins = None) -> None:
    """Print the JSON Schema of a grid's file, by which editors complete and check its keys.

    The file's first line names it: `# yaml-language-server: $schema=fedgrid.schema.json`.
    """
    import json

    from fedgrid.grids.cli.actions.schema import schema as schema_of_file

    use_plugins(plugins)
    print(json.dumps(schema_of_file(), indent=1))


@app.command(epilog="Example: `fedgrid doctor > report.txt`")
def doctor(storage: StorageAt = "runs", as_json: AsJson = False) -> None:
    """Print what is here, and what must be fixed: versions, machine, GPUs, Slurm, Ray, storage, MLflow.

    For a first run on a machine, and for a bug report. Writes nothing, starts no Ray; GPUs are opened for a
    moment. Secrets are left out. Exit code 1 if something must be fixed.
    """
    from fedgrid.grids.upkeep.doctor import run_doctor

    if not run_doctor(storage, as_json, console()):
        raise typer.Exit(FAILED)
