"""`fedgrid arena`."""

from pathlib import Path
from typing import Annotated

import typer

from fedgrid.grids.cli.commands.app import (
    console,
    exit_with,
    open_storage,
    starting,
    use_plugins,
    with_groups,
)
from fedgrid.grids.cli.commands.options import Dataset, DryRun, InProcess, Launch, Overrides, Seeds
from fedgrid.grids.display.plain import warn

app = typer.Typer()


@app.command(epilog="Example: `fedgrid arena --with mine.py`")
@with_groups
def arena(
    *,
    overrides: Overrides = None,
    own: Annotated[
        list[Path] | None,
        typer.Option(
            "--with", help="A Python file with your own method, which the verdict is about; may be repeated."
        ),
    ] = None,
    dataset: Dataset = None,
    algorithms: Annotated[
        list[str] | None,
        typer.Option(help="Only these methods, beside your own: A,B,C. [default: 20, and three references]"),
    ] = None,
    trials: Annotated[
        int, typer.Option(min=1, help="Settings that are tried for each method, its defaults first.")
    ] = 8,
    fine_tune: Annotated[
        int, typer.Option(min=1, help="Steps of fine-tuning of every method, in the second protocol.")
    ] = 45,
    seeds: Seeds = None,
    families: Annotated[list[str] | None, typer.Option(help="Only these families of clients: A,B,C.")] = None,
    blind: Annotated[
        bool,
        typer.Option("--blind", help="Draw the seeds from the file of --with, so that no one tunes on them."),
    ] = False,
    null: Annotated[
        bool,
        typer.Option("--null", help="Only how often your method splits clients without groups; ten seeds."),
    ] = False,
    name: Annotated[str | None, typer.Option(help="The grid's name. [default: arena-rows-DATASET]")] = None,
    check: Annotated[
        int | None,
        typer.Option(min=1, help="Compute this many of the results that fedgrid keeps again, and compare."),
    ] = None,
    launch: Launch,
    in_process: InProcess = False,
    dry_run: DryRun = False,
) -> None:
    """Tune every method alike, run them on the same clients, and print the verdict on yours.

    After an interruption, the same command continues.
    """
    with starting(quiet=launch.as_json):
        from fedgrid.grids.arena.check import run_check
        from fedgrid.grids.arena.command import run_arena
        from fedgrid.grids.arena.definition import load_arena
        from fedgrid.grids.arena.kept import read
        from fedgrid.grids.arena.plan import plan_arena
        from fedgrid.grids.execution.run import Launcher
        from fedgrid.grids.following.trackers import Trackers
        from fedgrid.grids.search.definition import Search
        from fedgrid.grids.search.run import Advanced, advance
        from fedgrid.grids.trackers.tracker import TrackedGrid

        options = launch.options(in_process=in_process)
        use_plugins([*(own or []), *(launch.plugins or [])])
        definition = load_arena(
            name,
            dataset,
            algorithms or [],
            own or [],
            trials,
            options.data_dir,
            changes=overrides or [],
            only=families or [],
            blind=blind,
            null=null,
            seeds=seeds,
            budget=fine_tune,
        )
    launcher = Launcher(open_storage(launch.storage), options, console())
    # Also if nothing is left to run.
    Trackers(TrackedGrid(definition.name, launcher.storage), warn, options.trackers)
    results = read()
    if check is not None:
        exit_with(run_check(definition, results, check, launcher))
    if dry_run:
        plan_arena(definition, results, launcher)
        return

    def advance_search(search: Search) -> Advanced:
        return advance(search, launcher.storage, options, launcher.console)

    exit_with(run_arena(definition, results, launcher, advance_search))
