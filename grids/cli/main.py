"""The command line.

Exit codes: 0 done, 1 a run failed, 2 bad input (nothing was started), 130 interrupted.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from typer.exceptions import TyperException

from fedgrid.engine.clients.placement import Request
from fedgrid.engine.errors import ConfigError, DataError, FedgridError
from fedgrid.engine.round_cache.store import CacheOptions
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.cli.options import (
    AsJson,
    Balance,
    Changes,
    Clients,
    ClientsPerActor,
    CpusPerClient,
    DataDir,
    Dataset,
    GpusPerClient,
    GridName,
    InProcess,
    Overlap,
    Plugins,
    ReportTo,
    Retries,
    Seed,
    Seeds,
    StorageAt,
    Store,
    StoreLimit,
    What,
)
from fedgrid.grids.execution.launch_types import LaunchOptions, LaunchResult

app = typer.Typer(
    help="Grids of clustered federated learning experiments.",
    epilog="Example: `fedgrid run quickstart`",
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

BAD_INPUT = 2
INTERRUPTED = 130
PLAIN_WIDTH = 132
"""Columns assumed where the output is not a terminal."""


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
        list[str] | None, typer.Option(help="A name of `fedgrid algorithms`; may be repeated.")
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
            help="Searches whose best settings their algorithm has on their data sets: NAME[:oracle][,NAME]."
        ),
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
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget these runs and start over.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be run, where, and roughly for how long.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a grid (a preset or a YAML file), or the run that the options describe.

    The same command after an interruption continues where it was: finished runs are kept.
    """
    from fedgrid.grids.execution.run import run_grid
    from fedgrid.grids.planning.cluster import nodes_to_run_on
    from fedgrid.grids.presets.grid import load_grid
    from fedgrid.grids.search.tuned import noted, read_tuned

    axes = {
        "dataset": dataset,
        "overlap": overlap,
        "balance": balance,
        "clients": clients,
        "algorithm": algorithm,
        "seed": seed,
    }
    options = _given(axes)
    kept_rounds = _store(store, store_limit)
    if what is None and not options and not changes:
        raise ConfigError("nothing to run: name a preset (quickstart), a YAML file, or options; see --help")
    folder = _data_dir(data_dir)
    _use(plugins)
    found = read_tuned(tuned or [], Storage.of(storage))
    grid = load_grid(
        what,
        options,
        changes or [],
        folder,
        filters=filters or [],
        seeds=seeds,
        extends=extends or [],
        overrides=[one.override for one in found],
    )
    grid = noted(grid, found)
    request = Request(clients_per_actor, cpus_per_client, gpus_per_client)
    if dry_run:
        from fedgrid.grids.planning.dry_run import dry_run as show_plan

        nodes = nodes_to_run_on()
        show_plan(
            grid,
            Storage.of(storage),
            folder,
            nodes,
            request,
            with_store=store,
            as_json=as_json,
            console=_console(),
        )
        return
    how = LaunchOptions(
        folder,
        request=request,
        retries=retries,
        in_process=in_process,
        fresh=fresh,
        as_json=as_json,
        store=kept_rounds,
    )
    _end(run_grid(grid, Storage.of(storage), how, _console()))


@app.command(epilog="Example: `fedgrid search sattler --dataset mnist --overlap overlapping --trials 32`")
def search(
    what: Annotated[
        str,
        typer.Argument(help="An algorithm, or a YAML file with search: in it.", show_default=False),
    ],
    dataset: Dataset = None,
    overlap: Overlap = None,
    balance: Balance = None,
    clients: Clients = None,
    seed: Seed = None,
    seeds: Seeds = None,
    base: Annotated[
        str | None,
        typer.Option(help="A preset or file over whose scenarios to search. [default with --filter: paper]"),
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
        str | None, typer.Option(help="What --tuned finds it by. [default: ALGORITHM-DATASET, or the file's]")
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
    as_json: AsJson = False,
) -> None:
    """Search for an algorithm's settings; `fedgrid run GRID --tuned NAME` uses what is found.

    The same command after an interruption continues where it was, and ends as if nothing had been.
    """
    from fedgrid.grids.search.definition import load_search
    from fedgrid.grids.search.run import run_search

    kept_rounds = _store(store, store_limit)
    axes = {"dataset": dataset, "overlap": overlap, "balance": balance, "clients": clients, "seed": seed}
    own = {
        "trials": trials,
        "searcher": searcher,
        "objective": objective,
        "early_stop": early_stop or None,
    }
    folder = _data_dir(data_dir)
    _use(plugins)
    found = load_search(
        what,
        _given(axes),
        changes or [],
        folder,
        own=_given(own),
        name=name,
        base=base,
        filters=filters or [],
        seeds=seeds,
    )
    request = Request(clients_per_actor, cpus_per_client, gpus_per_client)
    how = LaunchOptions(
        folder,
        request=request,
        retries=retries,
        in_process=in_process,
        as_json=as_json,
        store=kept_rounds,
    )
    _end(run_search(found, Storage.of(storage), how, _console()))


@app.command(epilog="Example: `fedgrid status paper`")
def status(grid: GridName, storage: StorageAt = "runs", as_json: AsJson = False) -> None:
    """Show how far a grid is: runs done, running, waiting and failed, and the time left."""
    from fedgrid.grids.display.status import show_status

    show_status(grid, Storage.of(storage), as_json, _console())


@app.command(epilog="Example: `fedgrid store paper --drop`")
def store(
    grid: GridName,
    drop: Annotated[
        bool, typer.Option("--drop", help="Delete the states that no unfinished run of the grid can take.")
    ] = False,
    storage: StorageAt = "runs",
    as_json: AsJson = False,
) -> None:
    """Show what the rounds kept for other runs have saved a grid, and what room they take."""
    from fedgrid.grids.round_cache.command import show_store

    show_store(grid, Storage.of(storage), drop, as_json, _console())


@app.command(epilog="Example: `fedgrid retry paper`")
def retry(
    grid: GridName,
    plugins: Plugins = None,
    storage: StorageAt = "runs",
    data_dir: DataDir = None,
    clients_per_actor: ClientsPerActor = None,
    cpus_per_client: CpusPerClient = None,
    gpus_per_client: GpusPerClient = None,
    retries: Retries = 2,
    store: Store = True,
    store_limit: StoreLimit = None,
    as_json: AsJson = False,
) -> None:
    """Run a grid's failed runs again, from their last rounds, and nothing else."""
    from fedgrid.grids.execution.relaunch import retry as run_failed

    kept_rounds = _store(store, store_limit)
    request = Request(clients_per_actor, cpus_per_client, gpus_per_client)
    how = LaunchOptions(
        _data_dir(data_dir), request=request, retries=retries, as_json=as_json, store=kept_rounds
    )
    _end(run_failed(grid, Storage.of(storage), how, _console(), plugins or []))


@app.command(epilog="Example: `fedgrid stop paper`")
def stop(grid: GridName, storage: StorageAt = "runs") -> None:
    """Let every run of a grid stop after its current round; `fedgrid run` continues them."""
    from fedgrid.grids.display.status import ask_to_stop

    ask_to_stop(grid, Storage.of(storage), _console())


@app.command(epilog="Example: `fedgrid sync paper`")
def sync(grid: GridName, storage: StorageAt = "runs") -> None:
    """Log what MLflow lacks of a grid's runs, as after it could not be reached."""
    from fedgrid.grids.execution.relaunch import sync_grid

    sync_grid(grid, Storage.of(storage), _console())


@app.command(epilog="Example: `fedgrid report paper --against published`")
def report(
    grid: GridName,
    against: Annotated[
        str | None,
        typer.Option(
            help="published: the papers' numbers beside ours; or a grid: both side by side.",
            show_default=False,
        ),
    ] = None,
    to: ReportTo = None,
    storage: StorageAt = "runs",
    as_json: AsJson = False,
) -> None:
    """Write a grid's tables and figures (a web page, LaTeX, Markdown, csv, svg, png), also while it runs."""
    from fedgrid.grids.cli.reports import report as write_report

    write_report(grid, Storage.of(storage), against, to, as_json, _console())


@app.command(epilog="Example: `fedgrid compare paper ocfl-archive`")
def compare(
    one: GridName,
    other: Annotated[str, typer.Argument(help="Another grid of the same storage.", show_default=False)],
    to: ReportTo = None,
    storage: StorageAt = "runs",
    as_json: AsJson = False,
) -> None:
    """Compare two grids, paired by scenario and algorithm."""
    from fedgrid.grids.cli.reports import compare as write_comparison

    write_comparison(one, other, Storage.of(storage), to, as_json, _console())


@app.command("import", epilog="Example: `fedgrid import ODFL_Archive --name ocfl-archive`")
def import_(
    path: Annotated[
        Path,
        typer.Argument(
            help="The authors' archive: experiments/, temperature_experiments/, datasets/.",
            show_default=False,
        ),
    ],
    name: Annotated[str, typer.Option(help="The grid that its runs become.")],
    published_truth: Annotated[
        bool,
        typer.Option(
            "--published-truth",
            help="Score BloodMNIST, overlapping, imbalanced, 30 clients against 7/14/9 as the paper's "
            "notebook did, not against the 10/10/10 that it was.",
        ),
    ] = False,
    storage: StorageAt = "runs",
    as_json: AsJson = False,
) -> None:
    """Read the OCFL authors' archive as runs of a grid: records, MLflow runs, reports."""
    from fedgrid.grids.archive.importing import import_archive

    import_archive(
        path, name, Storage.of(storage), published_truth=published_truth, as_json=as_json, console=_console()
    )


@app.command(
    context_settings={"ignore_unknown_options": True},
    epilog="Example: `fedgrid submit paper --cluster cluster.yaml --filter dataset=mnist`",
)
def submit(
    grid: Annotated[str, typer.Argument(help="What `fedgrid run` would be given.", show_default=False)],
    options: Annotated[
        list[str] | None, typer.Argument(help="Options of `fedgrid run`.", show_default=False)
    ] = None,
    cluster: Annotated[Path | None, typer.Option(help="A cluster that `ray up` started.")] = None,
    address: Annotated[
        str | None, typer.Option(help="Or the address of its dashboard, as http://127.0.0.1:8265.")
    ] = None,
    follow: Annotated[bool, typer.Option(help="Show the job's output until it ends.")] = True,
) -> None:
    """Run a grid on a cluster, as a Ray job that goes on when this machine is switched off."""
    from fedgrid.grids.submit.job import submit as start_job

    arguments = [grid, *(options or [])]
    name = Path(grid).stem
    code = start_job(
        arguments, cluster=cluster, address=address, name=name, follow=follow, console=_console()
    )
    raise typer.Exit(code)


@app.command(epilog="Example: `fedgrid centralised mnist --epochs 30`")
def centralised(
    dataset: Annotated[
        str, typer.Argument(help="A name of `fedgrid data`, folder:PATH or npz:PATH.", show_default=False)
    ],
    epochs: Annotated[
        int | None, typer.Option(min=2, help="Passes over the pool. [default: the data set's rounds]")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="A name of `fedgrid models`. [default: the data set's]")
    ] = None,
    seed: Seed = None,
    changes: Changes = None,
    plugins: Plugins = None,
    storage: StorageAt = "runs",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Train on the whole pool, without clients, and propose epsilons and cooldown for Sattler from that."""
    from fedgrid.grids.centralised.command import configure, run_centralised

    folder = _data_dir(data_dir)
    _use(plugins)
    config = configure(dataset, folder, seed=seed or 0, epochs=epochs, model=model, changes=changes or [])
    run_centralised(config, Storage.of(storage), folder, as_json, _console())


@app.command(epilog="Example: `fedgrid data mnist --overlap nonoverlapping --balance balanced --clients 15`")
def data(
    dataset: Annotated[
        str | None, typer.Argument(help="A data set, or a scenario: show its split.", show_default=False)
    ] = None,
    overlap: Overlap = None,
    balance: Balance = None,
    clients: Clients = None,
    seed: Seed = None,
    changes: Changes = None,
    csv: Annotated[
        Path | None, typer.Option(help="Write the class counts per client here, as a blueprint csv.")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List the data sets, or show the class counts per client of one scenario."""
    from fedgrid.grids.cli.listings import list_datasets, show_scenario
    from fedgrid.grids.presets.grid import load_grid, scenario_values

    folder = _data_dir(data_dir)
    axes = {"overlap": overlap, "balance": balance, "clients": clients, "seed": seed}
    options = _given(axes)
    if dataset is None:
        if options or changes or csv:
            raise ConfigError("whose split? name a data set, as in fedgrid data digits")
        list_datasets(folder, as_json, _console())
        return
    values = scenario_values(dataset) if dataset.count("-") > 2 else {"dataset": dataset}
    config, *others = load_grid(None, {**values, **options}, changes or [], folder).runs
    if others:
        raise ConfigError(f"one split at a time, not {1 + len(others)}; leave lists out")
    show_scenario(config, folder, csv, as_json, _console())


@app.command(epilog="Example: `fedgrid algorithms --json`")
def algorithms(plugins: Plugins = None, as_json: AsJson = False) -> None:
    """List the algorithms, with their source and default settings."""
    from fedgrid.grids.cli.listings import list_algorithms

    _use(plugins)
    list_algorithms(as_json, _console())


@app.command(epilog="Example: `fedgrid models`")
def models(plugins: Plugins = None, as_json: AsJson = False) -> None:
    """List the models, with their source."""
    from fedgrid.grids.cli.listings import list_models

    _use(plugins)
    list_models(as_json, _console())


@app.command(epilog="Example: `fedgrid ui paper --port 5001`")
def ui(
    grid: Annotated[str | None, typer.Argument(help="Open at this grid's runs.", show_default=False)] = None,
    storage: StorageAt = "runs",
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port on this machine's loopback address.")
    ] = 5000,
) -> None:
    """Open the MLflow UI on the run store, on this machine only."""
    from fedgrid.grids.mlflow_log.ui import serve_ui

    raise typer.Exit(serve_ui(grid, Storage.of(storage), port, _console()))


def main() -> None:
    """Run the command line; every known error is one line on standard error."""
    try:
        # Typer turns an interruption into this code, without a word.
        code = app(args=sys.argv[1:] or ["--help"], standalone_mode=False) or 0
    except KeyboardInterrupt:
        code = INTERRUPTED
    except TyperException as error:
        _fail(f"{error.format_message().rstrip('.')}; see --help", BAD_INPUT)
    except (ConfigError, DataError) as error:
        _fail(str(error), BAD_INPUT)
    except FedgridError as error:
        _fail(str(error), 1)
    if code == INTERRUPTED:
        _fail("interrupted; the same command continues", INTERRUPTED)
    sys.exit(code)


def _end(ended: LaunchResult) -> NoReturn:
    """Exit with the code that says how a launch ended."""
    if ended.stopped:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(1 if ended.failures else 0)


def _fail(message: str, code: int) -> NoReturn:
    line = f"[bold red]fedgrid:[/] {escape(' '.join(message.split()))}"
    Console(stderr=True).print(line, highlight=False, soft_wrap=True, emoji=False)
    sys.exit(code)


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that the command line says."""
    return {name: value for name, value in options.items() if value not in (None, [])}


def _store(on: bool, limit: int | None) -> CacheOptions | None:
    """Return how the round store is used, None for not at all."""
    if not on and limit is not None:
        raise ConfigError("--store-limit limits what --no-store does not use: leave out one of the two")
    return CacheOptions(limit) if on else None


def _use(plugins: Sequence[Path] | None) -> None:
    """Use the plugins that a command names, and those of installed packages."""
    from fedgrid.engine.plugins import active

    active.use(plugins or [])


def _data_dir(given: Path | None) -> Path:
    from fedgrid.engine.data.datasets import default_data_dir

    return (given or default_data_dir()).absolute()


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=PLAIN_WIDTH)
