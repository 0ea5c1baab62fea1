"""`fedgrid submit`."""

from pathlib import Path
from typing import Annotated

import typer

from fedgrid.grids.cli.actions import completion
from fedgrid.grids.cli.commands.app import console

app = typer.Typer()


@app.command(
    context_settings={"ignore_unknown_options": True},
    epilog="Example: `fedgrid submit paper --cluster cluster.yaml --filter dataset=mnist`",
)
def submit(
    grid: Annotated[
        str,
        typer.Argument(
            help="The grid, as for `fedgrid run`: a preset or a file.",
            show_default=False,
            autocompletion=completion.presets_and_files,
        ),
    ],
    options: Annotated[
        list[str] | None, typer.Argument(help="Options of `fedgrid run`.", show_default=False)
    ] = None,
    cluster: Annotated[Path | None, typer.Option(help="The cluster file given to `ray up`.")] = None,
    address: Annotated[
        str | None, typer.Option(help="Or the address of Ray's dashboard, such as http://127.0.0.1:8265.")
    ] = None,
    follow: Annotated[bool, typer.Option(help="Show the job's output until it ends.")] = True,
) -> None:
    """Run a grid on a cluster, as a Ray job that goes on when this machine is switched off."""
    from fedgrid.grids.submit.job import submit as start_job

    arguments = [grid, *(options or [])]
    name = Path(grid).stem
    code = start_job(arguments, cluster=cluster, address=address, name=name, follow=follow, console=console())
    raise typer.Exit(code)
