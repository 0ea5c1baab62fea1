"""`fedgrid search`."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from fedgrid.grids.cli.actions import completion
from fedgrid.grids.cli.commands.app import console, exit_with, open_storage, use_plugins, with_groups
from fedgrid.grids.cli.commands.options import (
    Dataset,
    InProcess,
    Launch,
    Overrides,
    ScenarioOptions,
    Seeds,
    Trust,
)

app = typer.Typer()


@dataclass(frozen=True)
class SearchSettings:
    """How settings are tried, instead of as the file says."""

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

    def given(self) -> dict[str, Any]:
        """Return what the command line sets."""
        return {name: value for name, value in vars(self).items() if value is not None and value is not False}


@app.command(epilog="Example: `fedgrid search sattler --dataset mnist --split rotated --trials 32`")
@with_groups
def search(
    *,
    what: Annotated[
        str,
        typer.Argument(
            help="An algorithm, or a YAML file with search: in it.",
            show_default=False,
            autocompletion=completion.algorithms_and_files,
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
    launch: Launch,
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

    options = launch.options(in_process=in_process)
    use_plugins(launch.plugins, trust=trust)
    definition = load_search(
        what,
        scenario.axes(dataset=dataset),
        overrides or [],
        options.data_dir,
        own=settings.given(),
        name=name,
        base=base,
        filters=where or [],
        seeds=seeds,
        also=space or [],
    )
    if dry_run:
        plan_search(definition, open_storage(launch.storage), options, console())
        return
    exit_with(run_search(definition, open_storage(launch.storage), options, console()))
