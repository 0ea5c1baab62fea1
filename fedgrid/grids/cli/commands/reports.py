"""Commands on finished runs: `fedgrid report`, `table`, `import`, `analyse` and `bundle`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedgrid.grids.cli.commands.app import (
    FAILED,
    INTERRUPTED,
    create_console,
    find_data_folder,
    open_storage,
    use_plugins,
)
from fedgrid.grids.cli.commands.options import (
    AsJson,
    Conditions,
    DataDir,
    GridName,
    GridOrRun,
    InProcess,
    Plugins,
    ReportTo,
    StorageAt,
    Superseded,
    Track,
    Trust,
)
from fedgrid.grids.display.plain_console import print_plain
from fedgrid.grids.display.steps import StepDisplay
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
    # Checked first: with too little, a library would end the process without a message.
    address_space.check_limit(address_space.REPORT_BYTES)
    shown = create_console()
    with StepDisplay(shown, quiet=as_json) as steps:
        steps.begin_step("Starting")
        # Imported while the step is shown: matplotlib and what analyses need take seconds.
        from fedgrid.grids.cli.actions.analyses import list_analyses
        from fedgrid.grids.cli.actions.reports import read_drawing, read_target, write_report

        goal, place = read_target(target, unit), open_storage(storage)
        write_report(
            grid,
            place,
            against,
            goal,
            to,
            as_json,
            shown,
            steps,
            plugins or [],
            list_analyses(plugins or []),
            superseded=superseded,
            filters=where or [],
            drawing=read_drawing(all_figures, format, style),
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
    address_space.check_limit(address_space.REPORT_BYTES)
    shown = create_console()
    with StepDisplay(shown) as steps:
        steps.begin_step("Starting")
        from fedgrid.grids.cli.actions.studies import print_tables

        print_tables(
            grid,
            open_storage(storage),
            steps,
            shown,
            format,
            filters=where or [],
            scores=score,
            rows=rows,
            columns=columns,
            against=against,
        )


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
    place, shown = open_storage(storage), create_console()
    if path.suffix == ".zip":
        from fedgrid.grids.bundles.imports import import_bundle

        import_bundle(path, name, place, as_json=as_json, console=shown)
        return
    from fedgrid.grids.archive.importing import import_archive
    from fedgrid.grids.planning.options import parse_trackers

    import_archive(
        path,
        name,
        place,
        parse_trackers(track),
        published_truth=published_truth,
        as_json=as_json,
        console=shown,
    )


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
    from fedgrid.grids.analyses.command import analyse_runs as analyse_runs
    from fedgrid.grids.cli.actions.analyses import find_analysis, read_options

    use_plugins(plugins)
    analysis = find_analysis(name)
    result = analyse_runs(
        analysis,
        what,
        open_storage(storage),
        find_data_folder(data_dir),
        read_options(analysis, overrides or []),
        create_console(),
        filters=where or (),
        in_process=in_process,
        dry_run=dry_run,
        as_json=as_json,
        trust=trust,
    )
    if result.stopped or result.failed:
        raise typer.Exit(INTERRUPTED if result.stopped else FAILED)


bundle = typer.Typer(
    help="Write finished runs as one file for others, or check such a file.", no_args_is_help=True
)
app.add_typer(bundle, name="bundle")


@bundle.command("make", epilog="Example: `fedgrid bundle make paper -o paper.zip`")
def make_bundle(
    what: GridOrRun,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, as in paper.zip.")],
    where: Conditions = None,
    models: Annotated[
        bool, typer.Option("--models", help="Also the final models, which take most of the space.")
    ] = False,
    storage: StorageAt = "runs",
) -> None:
    """Write a grid's finished runs as one file for others: records, tables, figures, what made them.

    Nothing in it tells who made it, or where: no log, path, address or name of a machine.
    """
    address_space.check_limit(address_space.REPORT_BYTES)
    shown = create_console()
    with StepDisplay(shown) as steps:
        steps.begin_step("Starting")
        from fedgrid.engine.runtime.storage.user_files import make_absolute
        from fedgrid.grids.bundles.write import write_bundle
        from fedgrid.grids.cli.actions.reports import write_all_figures

        output = make_absolute(output, "--output")
        count = write_bundle(
            what,
            open_storage(storage),
            where or [],
            output,
            with_models=models,
            report=lambda name, staged, folder: write_all_figures(name, staged, folder, steps),
        )
        steps.remove_line()
        size = output.stat().st_size / 1e6
        print_plain(shown, f"{count} runs in {output}, {size:.1f} MB")
        print_plain(shown, f"To check it:  fedgrid bundle check {output}")


@bundle.command("check", epilog="Example: `fedgrid bundle check paper.zip --sample 5`")
def check_bundle(
    path: Annotated[Path, typer.Argument(help="A file of `fedgrid bundle make`.", show_default=False)],
    sample: Annotated[int, typer.Option(min=1, help="How many runs, drawn by the file's checksum.")] = 5,
    every: Annotated[bool, typer.Option("--all", help="All runs.")] = False,
    data_dir: DataDir = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(help="Your copy of data that are the author's own, found by content; may be repeated."),
    ] = None,
    plugins: Plugins = None,
    trust: Annotated[bool, typer.Option("--trust", help="Execute the plugins that are in the file.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the code of these plugins.")] = False,
    storage: Annotated[
        str | None,
        typer.Option(help="Where the runs are computed, as on a cluster. [default: a temporary folder]"),
    ] = None,
    in_process: InProcess = False,
    as_json: AsJson = False,
) -> None:
    """Compute some runs of a bundle again, compare all numbers, and say what that shows of all of its runs.

    The exit code is 0 if all that was compared is confirmed, 1 if something differs or is not confirmed, 2 if
    it is no bundle or nothing can be tried.
    """
    from fedgrid.grids.bundles import check
    from fedgrid.grids.cli.actions.reports import build_usual_page
    from fedgrid.grids.planning.options import LaunchOptions

    use_plugins(plugins)
    options = LaunchOptions(
        find_data_folder(data_dir),
        in_process=in_process,
        as_json=as_json,
        by_round=False,
        cache=None,
        trackers=(),
    )
    shown = create_console()
    with StepDisplay(shown, quiet=True) as steps:
        same = check.check_bundle(
            path,
            open_storage(storage) if storage else None,
            options,
            shown,
            lambda name, its: build_usual_page(name, its, steps).list_tables(),
            sample=None if every else sample,
            data=data or (),
            trust=trust,
            show=show,
        )
    if not same:
        raise typer.Exit(FAILED)
