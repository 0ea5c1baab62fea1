"""`fedgrid report`, `fedgrid table` and `fedgrid import`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.cli.commands.app import console, open_storage
from fedgrid.grids.cli.commands.options import (
    AsJson,
    Conditions,
    GridName,
    ReportTo,
    StorageAt,
    Superseded,
    Track,
)
from fedgrid.grids.display.steps import Steps
from fedgrid.grids.ray_cluster import address_space

app = typer.Typer()


@app.command(epilog="Example: `fedgrid report paper --against published`")
def report(
    grid: GridName,
    against: Annotated[
        str | None,
        typer.Option(
            help="published: the papers' numbers beside ours; or another grid, of this storage or as "
            "STORAGE/grids/NAME, or a bundle, FILE.zip: both side by side.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Score to reach, at a cost of rounds, bytes and seconds: personalised_accuracy=0.7, or "
            "=95% of the scenario's best.",
            show_default="personalised_f1=95%",
        ),
    ] = None,
    unit: Annotated[
        Literal["bytes", "mbit-per-client"], typer.Option(help="Unit of that cost's traffic.")
    ] = "bytes",
    plugins: Annotated[
        list[Path] | None,
        typer.Option(
            "--plugin",
            help="A Python file with FIGURES or TABLES of your own, functions of the study, or ANALYSES.",
        ),
    ] = None,
    where: Conditions = None,
    style: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="A style of matplotlib's for the figures, as ggplot or my.mplstyle, on top of the report's.",
        ),
    ] = None,
    all_figures: Annotated[
        bool,
        typer.Option(
            "--all-figures",
            help="Draw all figures. Without it, only the first of those that are alternatives.",
        ),
    ] = False,
    format: Annotated[
        Literal["svg", "png", "pdf"], typer.Option(help="Write each figure as svg, and in this format.")
    ] = "svg",
    to: ReportTo = None,
    superseded: Superseded = False,
    storage: StorageAt = "runs",
    as_json: AsJson = False,
) -> None:
    """Write a grid's tables and figures (a web page, LaTeX, Markdown, csv, svg), also while it runs."""
    address_space.check(address_space.REPORT)
    shown = console()
    with Steps(shown, quiet=as_json) as steps:
        steps.say("Starting")
        from fedgrid.grids.cli.actions.analyses import list_analyses
        from fedgrid.grids.cli.actions.report_page import drawing_of
        from fedgrid.grids.cli.actions.reports import terms_of, write_report

        terms, place = terms_of(target, unit), open_storage(storage)
        write_report(
            grid,
            place,
            against,
            terms,
            to,
            as_json,
            shown,
            steps,
            plugins or [],
            list_analyses(plugins or []),
            superseded=superseded,
            filters=where or [],
            drawing=drawing_of(all_figures, format, style),
        )


@app.command(epilog="Example: `fedgrid table paper --score ari --columns split --format latex`")
def table(
    grid: GridName,
    score: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,NAME]",
            help="Scores, or numbers recorded by round: their last values.",
            show_default="personalised_accuracy; of numbers to predict R2, its median, and pooled",
        ),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            metavar="AXIS[,AXIS]",
            help="dataset, clients, split, algorithm, seed, or a key such as training.rounds.",
            show_default="algorithm",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="AXIS[,AXIS]",
            help="The same. Runs that differ in other axes are averaged.",
            show_default="those in which the scenarios differ",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="ALGORITHM|GRID",
            help="Test the other algorithms against this one, paired by seed: + better, - worse; or compare "
            "with another grid, of this storage or as STORAGE/grids/NAME, or a bundle, FILE.zip.",
        ),
    ] = None,
    where: Conditions = None,
    format: Annotated[
        Literal["text", "markdown", "latex", "csv"], typer.Option(help="What to print; csv has all digits.")
    ] = "text",
    storage: StorageAt = "runs",
) -> None:
    """Print a table for a paper: algorithms by scenarios, or any axes, of the scores that you choose."""
    address_space.check(address_space.REPORT)
    shown = console()
    with Steps(shown) as steps:
        steps.say("Starting")
        from fedgrid.grids.cli.actions.studies import (
            filter_study,
            is_grid,
            print_comparison,
            print_table,
            read_other,
            read_study,
        )

        place = open_storage(storage)
        study = filter_study(read_study(grid, place, steps), where or [])
        if against is None or not is_grid(against, place):
            steps.pause()
            print_table(study, shown, format, scores=score, rows=rows, columns=columns, against=against)
            return
        if rows or columns:
            raise ConfigError("--rows and --columns lay out one grid; leave them out with --against GRID")
        other = read_other(against, grid, place, steps)
        steps.pause()
        print_comparison(study, other, shown, format, scores=score)


@app.command("import", epilog="Example: `fedgrid import ODFL_Archive --name ocfl-archive`")
def import_(
    path: Annotated[
        Path,
        typer.Argument(
            help="The authors' archive (experiments/, temperature_experiments/, datasets/), or a file of "
            "`fedgrid bundle make`.",
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
    track: Track = "mlflow",
    storage: StorageAt = "runs",
    as_json: AsJson = False,
) -> None:
    """Read a bundle, or the OCFL authors' archive, as runs of a grid."""
    place, shown = open_storage(storage), console()
    if path.suffix == ".zip":
        from fedgrid.grids.bundles.imports import import_bundle

        import_bundle(path, name, place, as_json=as_json, console=shown)
        return
    from fedgrid.grids.archive.importing import import_archive
    from fedgrid.grids.planning.options import trackers_in

    import_archive(
        path,
        name,
        place,
        trackers_in(track),
        published_truth=published_truth,
        as_json=as_json,
        console=shown,
    )
