"""`fedgrid run`."""

from typing import Annotated

import typer

from fedgrid.engine.errors import ConfigError
from fedgrid.grids.cli.actions import completion
from fedgrid.grids.cli.commands.app import console, exit_with, given, launch_options, use_plugins
from fedgrid.grids.cli.commands.options import (
    AcceptChanges,
    AsJson,
    Balance,
    Changes,
    Clients,
    ClientsPerActor,
    CpusPerClient,
    DataDir,
    Dataset,
    GpusPerClient,
    InProcess,
    Overlap,
    Plugins,
    Retries,
    Seed,
    Seeds,
    StorageAt,
    Store,
    StoreLimit,
    What,
)

app = typer.Typer()


@app.command(
    epilog="Example: `fedgrid run --dataset mnist --overlap overlapping --algorithm ocfl-hdbscan --seed 3`"
)
def run(
    what: What = None,
    dataset: Dataset = None,
    overlap: Overlap = None,
    balance: Balance = None,
    clients: Clients = None,
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            help="A name of `fedgrid algorithms`; may be repeated.", autocompletion=completion.algorithms
        ),
    ] = None,
    seed: Seed = None,
    seeds: Seeds = None,
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", help="Only these runs: AXIS=VALUE[,AXIS=VALUE], as in dataset=mnist."),
    ] = None,
    extends: Annotated[
        list[str] | None,
        typer.Option("--extend", help="More on an axis: AXIS+=VALUE[,VALUE], as in seeds+=5..9."),
    ] = None,
    changes: Changes = None,
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
    plugins: Plugins = None,
    storage: StorageAt = "runs",
    data_dir: DataDir = None,
    clients_per_actor: ClientsPerActor = None,
    cpus_per_client: CpusPerClient = None,
    gpus_per_client: GpusPerClient = None,
    retries: Retries = 2,
    store: Store = True,
    store_limit: StoreLimit = None,
    in_process: InProcess = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete what these runs have stored, and start over.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would run, with which resources, and roughly how long."),
    ] = False,
    each: Annotated[
        bool, typer.Option("--each", help="At the end a row for each run, not means over seeds.")
    ] = False,
    accept_changes: AcceptChanges = False,
    as_json: AsJson = False,
) -> None:
    """Run a grid (a preset or a YAML file), or the run that the options describe.

    After an interruption, the same command continues: finished runs are not repeated.
    """
    from fedgrid.engine.storage.storage import Storage
    from fedgrid.grids.execution.run import run_grid
    from fedgrid.grids.planning.cluster import nodes_to_run_on
    from fedgrid.grids.presets.grid import load_grid
    from fedgrid.grids.search.tuned import noted, read_tuned

    options = launch_options(
        data_dir,
        clients_per_actor=clients_per_actor,
        cpus_per_client=cpus_per_client,
        gpus_per_client=gpus_per_client,
        retries=retries,
        store=store,
        store_limit=store_limit,
        in_process=in_process,
        fresh=fresh,
        accept_changes=accept_changes,
        as_json=as_json,
        each=each,
    )
    axes = given(
        {
            "dataset": dataset,
            "overlap": overlap,
            "balance": balance,
            "clients": clients,
            "algorithm": algorithm,
            "seed": seed,
        }
    )
    if what is None and not axes and not changes:
        raise ConfigError("nothing to run: name a preset (quickstart), a YAML file, or options; see --help")
    use_plugins(plugins)
    found = read_tuned(tuned or [], Storage.of(storage))
    grid = load_grid(
        what,
        axes,
        changes or [],
        options.data_dir,
        filters=filters or [],
        seeds=seeds,
        extends=extends or [],
        overrides=[one.override for one in found],
        name=name,
    )
    grid = noted(grid, found)
    if dry_run:
        from fedgrid.grids.planning.dry_run import dry_run as show_plan

        show_plan(
            grid,
            Storage.of(storage),
            options.data_dir,
            nodes_to_run_on(),
            options.request,
            with_store=store,
            as_json=as_json,
            console=console(),
        )
        return
    exit_with(run_grid(grid, Storage.of(storage), options, console()))
