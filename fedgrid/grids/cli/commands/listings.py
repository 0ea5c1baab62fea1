"""Commands that list what fedgrid has, start a study or examine the machine: data, list, init and doctor."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.cli.actions import completion
from fedgrid.grids.cli.commands.app import (
    FAILED,
    create_console,
    expand_groups,
    find_data_folder,
    use_plugins,
)
from fedgrid.grids.cli.commands.options import AsJson, DataDir, Overrides, Plugins, ScenarioOptions, StorageAt

app = typer.Typer()


@app.command(epilog="Example: `fedgrid data mnist --split nonoverlapping-balanced --clients 15`")
@expand_groups
def data(
    *,
    dataset: Annotated[
        str | None, typer.Argument(help="A data set, or a scenario: show its split.", show_default=False)
    ] = None,
    overrides: Overrides = None,
    scenario: ScenarioOptions,
    csv: Annotated[
        Path | None, typer.Option(help="Write the class counts per client here, as a blueprint csv.")
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(help="Write who holds what here, for split file: .parquet, any other is csv."),
    ] = None,
    made_from: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Make the file of femnist, which is not downloaded, from this: a folder of LEAF's json "
            "files, or Parquet files with writer, label and image.",
        ),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the classes of each client here: .pdf, .png or .svg.")
    ] = None,
    plugins: Plugins = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List the data sets and splits, or show the class counts per client of one scenario."""
    from fedgrid.grids.cli.actions.listings import convert_femnist, list_datasets
    from fedgrid.grids.cli.actions.scenario import show_scenario
    from fedgrid.grids.presets.load import is_scenario, load_grid, parse_scenario

    use_plugins(plugins)
    folder = find_data_folder(data_dir)
    axes = scenario.build_axes()
    if made_from is not None:
        if dataset != "femnist":
            raise ConfigError("--from makes the file of femnist alone: fedgrid data femnist --from FOLDER")
        convert_femnist(made_from, folder, create_console())
        return
    if dataset is None:
        if axes or overrides or csv or export or figure:
            raise ConfigError("these options need a data set, as in fedgrid data digits")
        list_datasets(folder, as_json, create_console())
        return
    values = parse_scenario(dataset) if is_scenario(dataset) else {"dataset": dataset}
    config, *others = load_grid(None, {**values, **axes}, overrides or [], folder).runs
    if others:
        raise ConfigError(f"one split at a time, not {1 + len(others)}; leave lists out")
    show_scenario(config, folder, csv, export, figure, as_json, create_console())


@app.command("list", epilog="Example: `fedgrid list algorithms`, then `fedgrid list algorithms sattler`")
def list_(
    *,
    context: typer.Context,
    kind: Annotated[
        Literal["algorithms", "models", "presets", "analyses", "keys", "columns", "commands", "schema"],
        typer.Argument(
            help="What to list. keys: of a grid's file; columns: of a run's records, with the scores; "
            "schema: the JSON Schema of a grid's file, by which editors complete and check its keys.",
            show_default=False,
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            help="Show this one: an algorithm's or an analysis's settings, a preset's file, a key.",
            show_default=False,
            autocompletion=completion.complete_listed_names,
        ),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Run the algorithm, or all that have one, beside a reference in plain torch, and print the "
            "greatest difference.",
        ),
    ] = False,
    plugins: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """List algorithms, models, presets, analyses (with those of plugins), keys, columns, commands; or one."""
    use_plugins(plugins)
    if verify:
        if kind != "algorithms":
            raise ConfigError(f"--verify is for algorithms, not {kind}: fedgrid list algorithms --verify")
        from fedgrid.grids.cli.actions.verification import print_verifications

        if not print_verifications(name, as_json, create_console()):
            raise typer.Exit(FAILED)
        return
    if kind == "analyses":
        from fedgrid.grids.cli.actions.analyses import print_analyses

        print_analyses(name, as_json, create_console())
    elif kind == "commands":
        from fedgrid.grids.cli.actions.reference import print_commands

        print_commands(name, context.find_root().command, as_json, create_console())
    elif kind in ("keys", "columns"):
        from fedgrid.grids.cli.actions.reference import print_columns, print_keys

        {"keys": print_keys, "columns": print_columns}[kind](name, as_json, create_console())
    elif kind == "schema":
        import json

        from fedgrid.grids.cli.actions.schema import build_schema

        if name is not None:
            raise ConfigError(f"list schema takes no name, not '{name}'")
        print(json.dumps(build_schema(), indent=1))
    else:
        from fedgrid.grids.cli.actions.listings import print_algorithms, print_models, print_presets

        printers = {"algorithms": print_algorithms, "models": print_models, "presets": print_presets}
        printers[kind](name, as_json, create_console())


@app.command(epilog="Example: `fedgrid init my-study`")
def init(
    folder: Annotated[Path, typer.Argument(help="A new folder, named after the study.", show_default=False)],
) -> None:
    """Write a study to start from: a grid, an algorithm and a model of your own, a search, a notebook."""
    from fedgrid.grids.cli.actions.init import write_study as write_study

    write_study(folder, create_console())


@app.command(epilog="Example: `fedgrid doctor > report.txt`")
def doctor(storage: StorageAt = "runs", as_json: AsJson = False) -> None:
    """Print what is here, and what is missing: versions, machine, GPUs, Slurm, Ray, storage, MLflow.

    For a first run on a machine, and for a bug report. Writes nothing, starts no Ray; GPUs are opened for a
    moment. Secrets are left out. Exit code 1 if something is missing.
    """
    from fedgrid.grids.doctor.doctor import run_doctor

    if not run_doctor(storage, as_json, create_console()):
        raise typer.Exit(FAILED)
