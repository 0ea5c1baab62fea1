"""Work on finished runs: `fedgrid explain`, `fedgrid attack` and `fedgrid analyse`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fedgrid.grids.cli.commands.app import (
    FAILED,
    INTERRUPTED,
    console,
    data_folder,
    open_storage,
    use_plugins,
    with_groups,
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

if TYPE_CHECKING:
    from fedgrid.grids.analyses.analysis import Analysis

app = typer.Typer()


@dataclass(frozen=True)
class AnalysisOptions:
    """Where an analysis finds what it needs, and how it is done and shown."""

    plugins: Plugins = None
    trust: Trust = False
    storage: StorageAt = "runs"
    data_dir: DataDir = None
    in_process: InProcess = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and roughly how long it takes.")
    ] = False
    as_json: AsJson = False

    def do(self, analysis: "Analysis", what: str, settings: Any, where: Sequence[str] | None) -> None:
        """Do an analysis; exit with a code that says so if it was stopped or a part of it failed."""
        from fedgrid.grids.analyses.command import How, analyse

        result = analyse(
            analysis,
            what,
            open_storage(self.storage),
            data_folder(self.data_dir),
            settings,
            console(),
            filters=where or (),
            how=How(self.in_process, self.dry_run, self.as_json, self.trust),
        )
        if result.stopped or result.failed:
            raise typer.Exit(INTERRUPTED if result.stopped else FAILED)


@app.command(epilog="Example: `fedgrid explain quickstart --on members`")
@with_groups
def explain(
    *,
    what: GridOrRun,
    on: Annotated[
        str | None,
        typer.Option(
            help="Images to explain: members (the model's own clients'), others, server; or several: a,b.",
            show_default="all three",
        ),
    ] = None,
    where: Conditions = None,
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
    work: AnalysisOptions,
) -> None:
    """Explain the images of finished runs: saliency maps, and insertion and deletion curves that test them.

    Runs are not changed. After an interruption, the same command continues.
    """
    from fedgrid.grids.explain.analysis import EXPLAIN
    from fedgrid.grids.explain.asked import ExplainOptions, distributions

    use_plugins(work.plugins)
    work.do(
        EXPLAIN,
        what,
        ExplainOptions(distributions(on), images, steps, round_, baseline, as_published),
        where,
    )


@app.command(epilog="Example: `fedgrid attack quickstart --kind membership`")
@with_groups
def attack(
    *,
    grid: GridOrRun,
    kind: Annotated[
        Literal["membership", "class", "reconstruction"],
        typer.Option(help="What to learn: who trained on an image, a majority class, the images themselves."),
    ],
    where: Conditions = None,
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
    work: AnalysisOptions,
) -> None:
    """Attack the privacy of clients in finished runs: from their models, updates, messages and clusters.

    Runs are not changed. After an interruption, the same command continues.
    """
    from fedgrid.grids.attack.analysis import ATTACK, settings_of

    use_plugins(work.plugins)
    work.do(ATTACK, grid, settings_of(kind, clients, steps, round_), where)


@app.command(epilog="Example: `fedgrid analyse quickstart spread --plugin my_analysis.py`")
@with_groups
def analyse(
    *,
    what: GridOrRun,
    name: Annotated[
        str, typer.Argument(help="epsilons, or an analysis of a plugin's ANALYSES.", show_default=False)
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="Set one of the analysis's settings.", show_default=False
        ),
    ] = None,
    where: Conditions = None,
    work: AnalysisOptions,
) -> None:
    """Compute something of each finished run: epsilons of a centralised training, or an analysis of your own.

    Runs are not changed. After an interruption, the same command continues.
    """
    from fedgrid.grids.cli.actions.analyses import find_analysis, settings_of

    use_plugins(work.plugins)
    analysis = find_analysis(name)
    work.do(analysis, what, settings_of(analysis, overrides or []), where)
