"""`fedgrid bundle make` and `fedgrid bundle check`."""

from pathlib import Path
from typing import Annotated

import typer

from fedgrid.grids.cli.commands.app import FAILED, console, data_folder, open_storage, use_plugins
from fedgrid.grids.cli.commands.options import (
    AsJson,
    Conditions,
    DataDir,
    GridOrRun,
    InProcess,
    Plugins,
    StorageAt,
)
from fedgrid.grids.display.plain import print_plain
from fedgrid.grids.display.steps import Steps
from fedgrid.grids.ray_cluster import address_space

app = typer.Typer()
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

    Nothing in it says who made it, or where: no log, path, address or name of a machine.
    """
    address_space.check(address_space.REPORT)
    shown = console()
    with Steps(shown) as steps:
        steps.say("Starting")
        from fedgrid.engine.runtime.storage.user_files import absolute
        from fedgrid.grids.bundles.write import write_bundle
        from fedgrid.grids.cli.actions.reports import write_pages

        output = absolute(output, "--output")
        count = write_bundle(
            what,
            open_storage(storage),
            where or [],
            output,
            with_models=models,
            report=lambda name, staged, folder: write_pages(name, staged, folder, steps),
        )
        steps.pause()
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
    from fedgrid.grids.cli.actions.reports import usual_page
    from fedgrid.grids.planning.options import LaunchOptions

    use_plugins(plugins)
    options = LaunchOptions(
        data_folder(data_dir),
        in_process=in_process,
        as_json=as_json,
        by_round=False,
        cache=None,
        trackers=(),
    )
    shown = console()
    with Steps(shown, quiet=True) as steps:
        same = check.check_bundle(
            path,
            open_storage(storage) if storage else None,
            options,
            shown,
            lambda name, its: usual_page(name, its, steps).tables(),
            sample=None if every else sample,
            data=data or (),
            trust=trust,
            show=show,
        )
    if not same:
        raise typer.Exit(FAILED)
