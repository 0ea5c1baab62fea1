"""Work on finished runs: `fedgrid analyse`."""

from typing import Annotated

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
    Conditions,
    DataDir,
    GridOrRun,
    InProcess,
    Plugins,
    StorageAt,
    Trust,
)

app = typer.Typer()


@app.command(
    epilog="Example: `fedgrid analyse quickstart explain on=members`, or "
    "`fedgrid analyse quickstart attack kind=membership`"
)
def analyse(
    *,
    what: GridOrRun,
    name: Annotated[
        str,
        typer.Argument(
            help="explain, attack, epsilons, or an analysis of a plugin's ANALYSES.", show_default=False
        ),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Set one of the analysis's settings: `fedgrid list analyses` has them.",
            show_default=False,
        ),
    ] = None,
    where: Conditions = None,
    plugins: Plugins = None,
    trust: Trust = False,
    storage: StorageAt = "runs",
    data_dir: DataDir = None,
    in_process: InProcess = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compute something of each finished run: explanations, attacks, or an analysis of your own.

    Runs are not changed. After an interruption, the same command continues.
    """
    from fedgrid.grids.analyses.command import analyse as analyse_runs
    from fedgrid.grids.cli.actions.analyses import find_analysis, read_options

    use_plugins(plugins)
    analysis = find_analysis(name)
    result = analyse_runs(
        analysis,
        what,
        open_storage(storage),
        data_folder(data_dir),
        read_options(analysis, overrides or []),
        console(),
        filters=where or (),
        in_process=in_process,
        dry_run=dry_run,
        as_json=as_json,
        trust=trust,
    )
    if result.stopped or result.failed:
        raise typer.Exit(INTERRUPTED if result.stopped else FAILED)
