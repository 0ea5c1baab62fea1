"""Work on finished runs: `fedgrid explain`, `fedgrid attack` and `fedgrid analyse`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
    Trust,
)

if TYPE_CHECKING:
    from fedgrid.grids.analyses.analysis import Analysis
    from fedgrid.grids.analyses.command import How

app = typer.Typer()

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done, and roughly how long it takes.")
]


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
    trust: Trust = False,
    storage: StorageAt = "runs",
    data_dir: DataDir = None,
    in_process: InProcess = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Explain the images of finished runs: saliency maps, and insertion and deletion curves that test them.

    Runs are not changed. After an interruption, the same command continues.
    """
    from fedgrid.grids.analyses.command import How
    from fedgrid.grids.explain.analysis import EXPLAIN
    from fedgrid.grids.explain.asked import Asked, distributions

    use_plugins(plugins)
    asked = Asked(distributions(on), images, steps, round_, baseline, as_published)
    _analyse(EXPLAIN, what, asked, filters, storage, data_dir, How(in_process, dry_run, as_json, trust))


@app.command(epilog="Example: `fedgrid attack quickstart --kind membership`")
def attack(
    grid: GridOrRun,
    kind: Annotated[
        Literal["membership", "class", "reconstruction"],
        typer.Option(help="What to learn: who trained on an image, a majority class, the images themselves."),
    ],
    filters: Filters = None,
    clients: Annotated[
        int | None,
        typer.Option(min=1, help="Reconstruction: clients whose updates are inverted.", show_default="3"),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Reconstruction: optimizer steps per client.", show_default="300"),
    ] = None,
    round_: Annotated[
        int | None,
        typer.Option(
            "--round",
            min=1,
            help="Attack the state after this round, if its checkpoint is kept.",
            show_default="last",
        ),
    ] = None,
    plugins: Plugins = None,
    trust: Trust = False,
    storage: StorageAt = "runs",
    data_dir: DataDir = None,
    in_process: InProcess = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Attack the privacy of clients in finished runs: from their models, updates, messages and clusters.

    Runs are not changed. After an interruption, the same command continues.
    """
    from fedgrid.grids.analyses.command import How
    from fedgrid.grids.attack.analysis import ATTACK, settings_of

    use_plugins(plugins)
    asked = settings_of(kind, clients, steps, round_)
    _analyse(ATTACK, grid, asked, filters, storage, data_dir, How(in_process, dry_run, as_json, trust))


@app.command(epilog="Example: `fedgrid analyse quickstart spread --plugin my_analysis.py`")
def analyse(
    what: GridOrRun,
    name: Annotated[
        str, typer.Argument(help="epsilons, or an analysis of a plugin's ANALYSES.", show_default=False)
    ],
    filters: Filters = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Set one of the analysis's settings: KEY=VALUE.")
    ] = None,
    plugins: Plugins = None,
    trust: Trust = False,
    storage: StorageAt = "runs",
    data_dir: DataDir = None,
    in_process: InProcess = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Compute something of each finished run: epsilons of a centralised training, or an analysis of your own.

    Runs are not changed. After an interruption, the same command continues.
    """
    from fedgrid.grids.analyses.command import How
    from fedgrid.grids.cli.actions.analyses import analysis_named, settings_of

    use_plugins(plugins)
    analysis = analysis_named(name)
    asked = settings_of(analysis, changes or [])
    _analyse(analysis, what, asked, filters, storage, data_dir, How(in_process, dry_run, as_json, trust))


def _analyse(
    analysis: "Analysis",
    what: str,
    asked: Any,
    filters: Sequence[str] | None,
    storage: str,
    data_dir: Path | None,
    how: "How",
) -> None:
    from fedgrid.grids.analyses.command import analyse

    result = analyse(
        analysis,
        what,
        open_storage(storage),
        data_folder(data_dir),
        asked,
        console(),
        filters=filters or (),
        how=how,
    )
    if result.stopped or result.failed:
        raise typer.Exit(INTERRUPTED if result.stopped else FAILED)
