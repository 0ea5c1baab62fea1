"""Commands that train: `fedgrid run`, `submit`, `search` and `arena`."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.cli.actions import completion
from fedgrid.grids.cli.commands.app import (
    create_console,
    exit_with,
    expand_groups,
    open_storage,
    show_starting,
    use_plugins,
)
from fedgrid.grids.cli.commands.options import (
    Conditions,
    Dataset,
    DryRun,
    InProcess,
    LaunchSettings,
    Overrides,
    ScenarioOptions,
    Seeds,
    Trust,
    Yes,
)
from fedgrid.grids.display.plain_console import warn

app = typer.Typer()


@app.command(
    epilog="Example: `fedgrid run --dataset mnist --split rotated --algorithm ocfl-hdbscan --seed 3`"
)
@expand_groups
def run(
    *,
    grid: Annotated[
        str | None,
        typer.Argument(
            help="A preset (`fedgrid list presets` lists them), a YAML file, or a scenario, as in "
            "mnist-15-overlapping-balanced.",
            show_default=False,
            autocompletion=completion.complete_presets_and_files,
        ),
    ] = None,
    overrides: Overrides = None,
    dataset: Dataset = None,
    scenario: ScenarioOptions,
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            help="An algorithm of `fedgrid list algorithms`, or several with commas; may be repeated.",
            autocompletion=completion.complete_algorithms,
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
    launch: LaunchSettings,
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
    with show_starting(quiet=launch.as_json):
        from fedgrid.grids.execution.relaunch import run_failed
        from fedgrid.grids.execution.run import Launcher
        from fedgrid.grids.presets.load import load_grid
        from fedgrid.grids.search.tuned_settings import add_notes, read_tuned

        use_plugins(launch.plugins, trust=trust)
    options = launch.build_options(in_process=in_process, fresh=fresh, imported=imported or ())
    axes = scenario.build_axes(dataset=dataset, algorithm=algorithm)
    if failed:
        # The failed runs are read from the storage, so options that describe runs would have no effect.
        if grid is None or axes or any((overrides, where, seeds, tuned, imported, fresh, dry_run)):
            raise ConfigError("--failed runs failed runs as they were launched: fedgrid run GRID --failed")
        launched = name or (Path(grid).stem if grid.endswith((".yaml", ".yml")) else grid)
        storage = open_storage(launch.storage)
        exit_with(run_failed(launched, storage, options, create_console(), trust=trust))
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
    launcher = Launcher(storage, options, create_console())
    if dry_run:
        launcher.print_plan(planned)
        return
    exit_with(
        launcher.run_unfinished(planned, shows_scores=True, confirm=None if yes else _confirm_consequence)
    )


def _confirm_consequence(consequence: str) -> str:
    """Let the user confirm a consequence; return why the run is not to start, empty if the user agrees."""
    other = "--name OTHER makes this a grid of its own"
    if not sys.stdin.isatty():
        return f"there is no terminal to ask on: add --yes; or {other}"
    # On standard error: standard output may be JSON.
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
            autocompletion=completion.complete_presets_and_files,
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
    """Run a grid on a cluster, as a Ray job that continues when this machine is switched off."""
    from fedgrid.grids.submit.job import submit_job as start_job

    arguments = [grid, *(options or [])]
    name = Path(grid).stem
    code = start_job(
        arguments, cluster=cluster, address=address, name=name, follow=follow, console=create_console()
    )
    raise typer.Exit(code)


@dataclass(frozen=True)
class SearchSettings:
    """Options of how settings are tried, instead of the file's."""

    trials: Annotated[int | None, typer.Option(help="Number of settings to try. [default: 32]")] = None
    searcher: Annotated[str | None, typer.Option(help="optuna, random or grid. [default: optuna]")] = None
    objective: Annotated[
        str | None,
        typer.Option(
            help="validation (F1), accuracy or silhouette; or ari, an oracle: it needs the hidden groups. "
            "[default: validation]"
        ),
    ] = None
    early_stop: Annotated[
        bool,
        typer.Option(
            "--early-stop",
            help="Stop the worse half of each batch at a quarter of the rounds, and again at half of them.",
        ),
    ] = False

    def list_given(self) -> dict[str, Any]:
        """List the settings that the command line gives, by name."""
        return {name: value for name, value in vars(self).items() if value is not None and value is not False}


@app.command(epilog="Example: `fedgrid search sattler --dataset mnist --split rotated --trials 32`")
@expand_groups
def search(
    *,
    what: Annotated[
        str,
        typer.Argument(
            help="An algorithm, or a YAML file with search: in it.",
            show_default=False,
            autocompletion=completion.complete_algorithms_and_files,
        ),
    ],
    overrides: Overrides = None,
    dataset: Dataset = None,
    scenario: ScenarioOptions,
    seeds: Seeds = None,
    base: Annotated[
        str | None,
        typer.Option(
            help="The preset or file whose scenarios the search uses. [default with --where: paper]"
        ),
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option("--where", help="Only these scenarios: AXIS=VALUE[,...].")
    ] = None,
    space: Annotated[
        list[str] | None,
        typer.Option(
            "--space",
            help="Search this too: KEY=VALUE,VALUE or KEY={low: ..., high: ...}, as in "
            "training.learning_rate=0.01,0.03,0.1; may be repeated.",
        ),
    ] = None,
    settings: SearchSettings,
    name: Annotated[
        str | None, typer.Option(help="The name for --tuned. [default: ALGORITHM-DATASET, or the file's]")
    ] = None,
    launch: LaunchSettings,
    trust: Trust = False,
    in_process: InProcess = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the runs of the first trials, and roughly how long.")
    ] = False,
) -> None:
    """Search for an algorithm's settings; `fedgrid run GRID --tuned NAME` uses what is found.

    After an interruption, the same command continues and gives the same result.
    """
    from fedgrid.grids.search.definition import load_search
    from fedgrid.grids.search.run import plan_search, run_search

    options = launch.build_options(in_process=in_process)
    use_plugins(launch.plugins, trust=trust)
    definition = load_search(
        what,
        scenario.build_axes(dataset=dataset),
        overrides or [],
        options.data_dir,
        own=settings.list_given(),
        name=name,
        base=base,
        filters=where or [],
        seeds=seeds,
        extra_settings=space or [],
    )
    if dry_run:
        plan_search(definition, open_storage(launch.storage), options, create_console())
        return
    exit_with(run_search(definition, open_storage(launch.storage), options, create_console()))


@app.command(epilog="Example: `fedgrid arena --with mine.py`")
@expand_groups
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
    launch: LaunchSettings,
    in_process: InProcess = False,
    dry_run: DryRun = False,
) -> None:
    """Tune every method alike, run them on the same clients, and print the verdict on yours.

    After an interruption, the same command continues.
    """
    with show_starting(quiet=launch.as_json):
        from fedgrid.grids.arena.check import run_check
        from fedgrid.grids.arena.command import run_arena
        from fedgrid.grids.arena.definition import load_arena
        from fedgrid.grids.arena.plan import plan_arena
        from fedgrid.grids.arena.stored_results import read_results
        from fedgrid.grids.execution.run import Launcher
        from fedgrid.grids.following.trackers import Trackers
        from fedgrid.grids.search.definition import Search
        from fedgrid.grids.search.run import SearchAdvance, continue_search
        from fedgrid.grids.trackers.tracker import TrackedGrid

        options = launch.build_options(in_process=in_process)
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
    launcher = Launcher(open_storage(launch.storage), options, create_console())
    # Checks the trackers' names, also if nothing is left to run.
    Trackers(TrackedGrid(definition.name, launcher.storage), warn, options.trackers)
    results = read_results()
    if check is not None and dry_run:
        raise ConfigError("--check trains the runs that it compares: leave out --dry-run")
    if check is not None:
        exit_with(run_check(definition, results, check, launcher))
    if dry_run:
        plan_arena(definition, results, launcher)
        return

    def advance_search(search: Search) -> SearchAdvance:
        return continue_search(search, launcher.storage, options, launcher.console)

    exit_with(run_arena(definition, results, launcher, advance_search))
