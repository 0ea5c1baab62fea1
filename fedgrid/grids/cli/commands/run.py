"""`fedgrid run` and `fedgrid submit`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.cli.actions import completion
from fedgrid.grids.cli.commands.app import (
    console,
    exit_with,
    open_storage,
    starting,
    use_plugins,
    with_groups,
)
from fedgrid.grids.cli.commands.options import (
    Conditions,
    Dataset,
    DryRun,
    InProcess,
    Launch,
    Overrides,
    ScenarioOptions,
    Seeds,
    Trust,
    Yes,
)

app = typer.Typer()


@app.command(
    epilog="Example: `fedgrid run --dataset mnist --split rotated --algorithm ocfl-hdbscan --seed 3`"
)
@with_groups
def run(
    *,
    grid: Annotated[
        str | None,
        typer.Argument(
            help="A preset (`fedgrid list presets` lists them), a YAML file, or a scenario, as in "
            "mnist-15-overlapping-balanced.",
            show_default=False,
            autocompletion=completion.presets_and_files,
        ),
    ] = None,
    overrides: Overrides = None,
    dataset: Dataset = None,
    scenario: ScenarioOptions,
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            help="An algorithm of `fedgrid list algorithms`, or several with commas; may be repeated.",
            autocompletion=completion.algorithms,
        ),
    ] = None,
    seeds: Seeds = None,
    where: Conditions = None,
    tuned: Annotated[
        list[str] | None,
        typer.Option(
            help="Use the best settings that these searches found, for their algorithms and data sets: "
            "NAME[:oracle][,NAME]."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The grid's name. [default: the preset's or the file's]")
    ] = None,
    launch: Launch,
    in_process: InProcess = False,
    imported: Annotated[
        list[str] | None,
        typer.Option(help="Use runs of this grid, imported from a bundle, without computing them."),
    ] = None,
    failed: Annotated[
        bool,
        typer.Option(
            "--failed", help="Run only a launched grid's failed runs again, from their last rounds."
        ),
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete what these runs have stored, and start over.")
    ] = False,
    yes: Yes = False,
    trust: Trust = False,
    dry_run: DryRun = False,
) -> None:
    """Run a grid (a preset or a YAML file), or the run that the options describe.

    After an interruption, the same command continues: finished runs are not repeated.
    """
    with starting(quiet=launch.as_json):
        from fedgrid.grids.display.plain import warn
        from fedgrid.grids.execution.relaunch import run_failed
        from fedgrid.grids.execution.run import plan_grid, run_grid
        from fedgrid.grids.presets.load import load_grid
        from fedgrid.grids.search.tuned import add_notes, read_tuned

        use_plugins(launch.plugins, trust=trust)
    options = launch.options(in_process=in_process, fresh=fresh, imported=imported or ())
    axes = scenario.axes(dataset=dataset, algorithm=algorithm)
    if failed:
        if grid is None or axes or any((overrides, where, seeds, tuned, imported, fresh, dry_run)):
            raise ConfigError("--failed runs failed runs as they were launched: fedgrid run GRID --failed")
        launched = name or (Path(grid).stem if grid.endswith((".yaml", ".yml")) else grid)
        storage = open_storage(launch.storage)
        exit_with(run_failed(launched, storage, options, console(), trust=trust))
    if grid is None and not axes and not overrides:
        raise ConfigError("nothing to run: name a preset (quickstart), a YAML file, or options; see --help")
    storage = open_storage(launch.storage)
    searches = read_tuned(tuned or [], storage)
    planned = load_grid(
        grid,
        axes,
        overrides or [],
        options.data_dir,
        filters=where or [],
        seeds=seeds,
        overrides=[one.override for one in searches],
        name=name,
    )
    planned = add_notes(planned, searches)
    for note in planned.notes:
        warn(note)
    if dry_run:
        plan_grid(planned, storage, options, console())
        return
    exit_with(run_grid(planned, storage, options, console(), ask=None if yes else _ask))


def _ask(consequence: str) -> str:
    """Return why the run is not to start, with what to type; empty if the user agrees."""
    other = "--name OTHER makes this a grid of its own"
    if not sys.stdin.isatty():
        return f"there is no terminal to ask on: add --yes; or {other}"
    return "" if typer.confirm(f"{consequence}. Go on?", err=True) else f"not accepted; {other}"


@app.command(
    context_settings={"ignore_unknown_options": True},
    epilog="Example: `fedgrid submit paper --cluster cluster.yaml --where dataset=mnist`",
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
        list[str] | None,
        typer.Argument(help="Further arguments and options of `fedgrid run`.", show_default=False),
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
