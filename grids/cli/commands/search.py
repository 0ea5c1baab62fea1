"""`fedgrid search`."""

from typing import Annotated

import typer

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
)

app = typer.Typer()


@app.command(epilog="Example: `fedgrid search sattler --dataset mnist --overlap overlapping --trials 32`")
def search(
    what: Annotated[
        str,
        typer.Argument(
            help="An algorithm, or a YAML file with search: in it.",
            show_default=False,
            autocompletion=completion.algorithms_and_files,
        ),
    ],
    dataset: Dataset = None,
    overlap: Overlap = None,
    balance: Balance = None,
    clients: Clients = None,
    seed: Seed = None,
    seeds: Seeds = None,
    base: Annotated[
        str | None,
        typer.Option(
            help="The preset or file whose scenarios the search uses. [default with --filter: paper]"
        ),
    ] = None,
    filters: Annotated[
        list[str] | None, typer.Option("--filter", help="Only these of its scenarios: AXIS=VALUE[,...].")
    ] = None,
    changes: Changes = None,
    trials: Annotated[int | None, typer.Option(help="Settings to try. [default: 32]")] = None,
    searcher: Annotated[str | None, typer.Option(help="optuna, random or grid. [default: optuna]")] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="validation or silhouette; or ari, an oracle: it needs the hidden groups. "
            "[default: validation]"
        ),
    ] = None,
    early_stop: Annotated[
        bool,
        typer.Option(
            "--early-stop",
            help="Stop the worse half of each batch at a quarter of the rounds, and again at half of them.",
        ),
    ] = False,
    name: Annotated[
        str | None, typer.Option(help="The name for --tuned. [default: ALGORITHM-DATASET, or the file's]")
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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the runs of the first trials, and roughly how long.")
    ] = False,
    accept_changes: AcceptChanges = False,
    as_json: AsJson = False,
) -> None:
    """Search for an algorithm's settings; `fedgrid run GRID --tuned NAME` uses what is found.

    After an interruption, the same command continues and gives the same result.
    """
    from fedgrid.engine.storage.storage import Storage
    from fedgrid.grids.search.definition import load_search
    from fedgrid.grids.search.run import plan_search, run_search

    options = launch_options(
        data_dir,
        clients_per_actor=clients_per_actor,
        cpus_per_client=cpus_per_client,
        gpus_per_client=gpus_per_client,
        retries=retries,
        store=store,
        store_limit=store_limit,
        in_process=in_process,
        accept_changes=accept_changes,
        as_json=as_json,
    )
    axes = {"dataset": dataset, "overlap": overlap, "balance": balance, "clients": clients, "seed": seed}
    own = {
        "trials": trials,
        "searcher": searcher,
        "objective": objective,
        "early_stop": early_stop or None,
    }
    use_plugins(plugins)
    found = load_search(
        what,
        given(axes),
        changes or [],
        options.data_dir,
        own=given(own),
        name=name,
        base=base,
        filters=filters or [],
        seeds=seeds,
    )
    if dry_run:
        plan_search(found, Storage.of(storage), options, console())
        return
    exit_with(run_search(found, Storage.of(storage), options, console()))
