"""What there is, and to begin: data, convert, algorithms, models, presets; init, schema, doctor."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.cli.actions import completion
from fedgrid.grids.cli.commands.app import FAILED, console, data_folder, use_plugins, with_groups
from fedgrid.grids.cli.commands.options import AsJson, DataDir, Overrides, Plugins, ScenarioOptions, StorageAt

app = typer.Typer()


@app.command(epilog="Example: `fedgrid data mnist --split nonoverlapping-balanced --clients 15`")
@with_groups
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
    figure: Annotated[
        Path | None, typer.Option(help="Draw the classes of each client here: .pdf, .png or .svg.")
    ] = None,
    plugins: Plugins = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List the data sets and splits, or show the class counts per client of one scenario."""
    from fedgrid.grids.cli.actions.listings import list_datasets
    from fedgrid.grids.cli.actions.scenario import show_scenario
    from fedgrid.grids.presets.load import is_scenario, load_grid, scenario_values

    use_plugins(plugins)
    folder = data_folder(data_dir)
    axes = scenario.axes()
    if dataset is None:
        if axes or overrides or csv or export or figure:
            raise ConfigError("these options need a data set, as in fedgrid data digits")
        list_datasets(folder, as_json, console())
        return
    values = scenario_values(dataset) if is_scenario(dataset) else {"dataset": dataset}
    config, *others = load_grid(None, {**values, **axes}, overrides or [], folder).runs
    if others:
        raise ConfigError(f"one split at a time, not {1 + len(others)}; leave lists out")
    show_scenario(config, folder, csv, export, figure, as_json, console())


@app.command(epilog="Example: `fedgrid convert femnist leaf/data/femnist/data/all_data`")
def convert(
    dataset: Annotated[Literal["femnist"], typer.Argument(show_default=False)],
    source: Annotated[
        Path,
        typer.Argument(
            help="A folder of LEAF's json files, or Parquet files with writer, label and image.",
            show_default=False,
        ),
    ],
    data_dir: DataDir = None,
) -> None:
    """Make the file of a data set that is not downloaded, FEMNIST, from what LEAF or others publish."""
    from fedgrid.grids.cli.actions.listings import convert_femnist

    convert_femnist(source, data_folder(data_dir), console())


@app.command(epilog="Example: `fedgrid algorithms sattler`")
def algorithms(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Show the settings of this algorithm.",
            show_default=False,
            autocompletion=completion.algorithms,
        ),
    ] = None,
    plugins: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """List the algorithms with their source, or show the settings of one: defaults, values, meaning."""
    from fedgrid.grids.cli.actions.listings import list_algorithms

    use_plugins(plugins)
    list_algorithms(name, as_json, console())


@app.command(epilog="Example: `fedgrid models`")
def models(plugins: Plugins = None, as_json: AsJson = False) -> None:
    """List the models, with their source."""
    from fedgrid.grids.cli.actions.listings import list_models

    use_plugins(plugins)
    list_models(as_json, console())


@app.command(epilog="Example: `fedgrid presets`")
def presets(as_json: AsJson = False) -> None:
    """List the grids that come with fedgrid, with their numbers of runs."""
    from fedgrid.grids.cli.actions.listings import list_presets

    list_presets(as_json, console())


@app.command(epilog="Example: `fedgrid init my-study`")
def init(
    folder: Annotated[Path, typer.Argument(help="A new folder, named after the study.", show_default=False)],
) -> None:
    """Write a study to start from: a grid, an algorithm and a model of your own, a search, a notebook."""
    from fedgrid.grids.cli.actions.init import init as write_study

    write_study(folder, console())


@app.command(epilog="Example: `fedgrid schema > fedgrid.schema.json`")
def schema(plugins: Plugins = None) -> None:
    """Print the JSON Schema of a grid's file, by which editors complete and check its keys.

    The file's first line names it: `# yaml-language-server: $schema=fedgrid.schema.json`.
    """
    import json

    from fedgrid.grids.cli.actions.schema import schema as schema_of_file

    use_plugins(plugins)
    print(json.dumps(schema_of_file(), indent=1))


@app.command(epilog="Example: `fedgrid doctor > report.txt`")
def doctor(storage: StorageAt = "runs", as_json: AsJson = False) -> None:
    """Print what is here, and what must be fixed: versions, machine, GPUs, Slurm, Ray, storage, MLflow.

    For a first run on a machine, and for a bug report. Writes nothing, starts no Ray; GPUs are opened for a
    moment. Secrets are left out. Exit code 1 if something must be fixed.
    """
    from fedgrid.grids.doctor.doctor import run_doctor

    if not run_doctor(storage, as_json, console()):
        raise typer.Exit(FAILED)
