"""The command line.

Exit codes: 0 done, 1 a run failed, 2 bad input (nothing was started), 130 interrupted.
"""

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from typer.exceptions import TyperException

from engine.errors import ConfigError, DataError, FedgridError

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

What = Annotated[
    str | None,
    typer.Argument(
        help="A preset (quickstart), a YAML file, or one of the papers' scenarios.", show_default=False
    ),
]
Dataset = Annotated[str | None, typer.Option(help="A name of `fedgrid data`, folder:PATH or npz:PATH.")]
Overlap = Annotated[str | None, typer.Option(help="overlapping or nonoverlapping.")]
Balance = Annotated[str | None, typer.Option(help="balanced or imbalanced.")]
Clients = Annotated[int | None, typer.Option(help="Number of federated clients.")]
Seed = Annotated[int | None, typer.Option(help="Seed of everything random in the run.")]
Changes = Annotated[list[str] | None, typer.Option("--set", help="KEY=VALUE, as in training.rounds=5.")]
DataDir = Annotated[
    Path | None,
    typer.Option(envvar="FEDGRID_DATA", help="Where images are kept. [default: the user's cache]"),
]
Storage = Annotated[
    Path, typer.Option(envvar="FEDGRID_STORAGE", help="Where runs and the MLflow store are kept.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


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
    changes: Changes = None,
    storage: Storage = Path("runs"),
    data_dir: DataDir = None,
    clients_per_actor: Annotated[
        int | None, typer.Option(min=1, help="Clients that share an actor. [default: fits the machine]")
    ] = None,
    cpus_per_client: Annotated[
        float | None, typer.Option(min=0, help="CPUs an actor reserves. [default: fits the machine]")
    ] = None,
    gpus_per_client: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share of a GPU an actor reserves. [default: 0.05 if there is one]"),
    ] = None,
    in_process: Annotated[bool, typer.Option("--in-process", help="Without Ray, for debugging.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget these runs and start over.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a preset, a YAML file, or the run that the options describe.

    The same command after an interruption continues where it was.
    """
    from engine.resources import Request
    from grids.commands import run_grid
    from grids.presets import load_grid

    axes = {
        "dataset": dataset,
        "overlap": overlap,
        "balance": balance,
        "clients": clients,
        "algorithm": algorithm,
        "seed": seed,
    }
    options = {axis: value for axis, value in axes.items() if value not in (None, [])}
    if what is None and not options and not changes:
        raise ConfigError("nothing to run: name a preset (quickstart), a YAML file, or options; see --help")
    folder = _data_dir(data_dir)
    grid = load_grid(what, options, changes or [], folder)
    request = Request(clients_per_actor, cpus_per_client, gpus_per_client)
    failed = run_grid(
        grid,
        storage.absolute(),
        folder,
        request=request,
        in_process=in_process,
        fresh=fresh,
        as_json=as_json,
        console=_console(),
    )
    raise typer.Exit(1 if failed else 0)


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
    from grids.listings import list_datasets, show_scenario
    from grids.presets import load_grid, scenario_values

    folder = _data_dir(data_dir)
    axes = {"overlap": overlap, "balance": balance, "clients": clients, "seed": seed}
    options = {axis: value for axis, value in axes.items() if value is not None}
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
def algorithms(as_json: AsJson = False) -> None:
    """List the algorithms, with their source and default settings."""
    from grids.listings import list_algorithms

    list_algorithms(as_json, _console())


@app.command(epilog="Example: `fedgrid models`")
def models(as_json: AsJson = False) -> None:
    """List the models, with their source."""
    from grids.listings import list_models

    list_models(as_json, _console())


@app.command(epilog="Example: `fedgrid ui --port 5001`")
def ui(
    storage: Storage = Path("runs"),
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port on this machine's loopback address.")
    ] = 5000,
) -> None:
    """Open the MLflow UI on the run store, on this machine only."""
    from grids.commands import serve_ui

    raise typer.Exit(serve_ui(storage.absolute(), port, _console()))


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


def _fail(message: str, code: int) -> NoReturn:
    line = f"[bold red]fedgrid:[/] {escape(' '.join(message.split()))}"
    Console(stderr=True).print(line, highlight=False, soft_wrap=True, emoji=False)
    sys.exit(code)


def _data_dir(given: Path | None) -> Path:
    from engine.datasets import default_data_dir

    return (given or default_data_dir()).absolute()


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=PLAIN_WIDTH)
