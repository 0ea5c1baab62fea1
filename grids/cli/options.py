"""Options that several commands have, each said once."""

from math import inf
from pathlib import Path
from typing import Annotated

import typer

from fedgrid.grids.round_cache.sizes import parse_size

AUTO = "auto"
"""What an option says that leaves the choice to the cluster, as leaving it out does."""


def _whole_or_auto(text: str) -> int | None:
    if text == AUTO:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is neither a whole number from 1 on nor '{AUTO}'")
    return int(text)


def _share_or_auto(text: str) -> float | None:
    if text == AUTO:
        return None
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < inf:
        raise typer.BadParameter(f"{text!r} is neither a number from 0 on nor '{AUTO}'")
    return share


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


What = Annotated[
    str | None,
    typer.Argument(
        help="A preset (quickstart, paper, paper-as-published, conference, paper-digits, communities, "
        "communities-mixed, communities-digits), a YAML file, or one of the papers' scenarios.",
        show_default=False,
    ),
]
Dataset = Annotated[str | None, typer.Option(help="A name of `fedgrid data`, folder:PATH or npz:PATH.")]
Overlap = Annotated[str | None, typer.Option(help="overlapping, nonoverlapping or majority.")]
Balance = Annotated[str | None, typer.Option(help="balanced or imbalanced.")]
Clients = Annotated[int | None, typer.Option(help="Number of federated clients.")]
Seed = Annotated[int | None, typer.Option(help="Seed of everything random in the run.")]
Seeds = Annotated[str | None, typer.Option(help="Several: 0..4, or 0,2,5.")]
Changes = Annotated[list[str] | None, typer.Option("--set", help="KEY=VALUE, as in training.rounds=5.")]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin", help="A Python file with algorithms, clusterers or models of your own; may be repeated."
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(envvar="FEDGRID_DATA", help="Where images are kept. [default: the user's cache]"),
]
StorageAt = Annotated[
    str,
    typer.Option(
        "--storage",
        envvar="FEDGRID_STORAGE",
        help="Where runs and the MLflow store are kept: a folder, or a URI such as s3://bucket/runs.",
    ),
]
GridName = Annotated[str, typer.Argument(help="A grid that was launched, by its name.", show_default=False)]
ClientsPerActor = Annotated[
    int | None,
    typer.Option(
        parser=_whole_or_auto,
        metavar="N|auto",
        help="Clients that share an actor. [default: fits the cluster]",
    ),
]
CpusPerClient = Annotated[
    float | None,
    typer.Option(
        parser=_share_or_auto, metavar="X|auto", help="CPUs an actor reserves. [default: fits the cluster]"
    ),
]
GpusPerClient = Annotated[
    float | None,
    typer.Option(
        parser=_share_or_auto,
        metavar="X|auto",
        help="Share of a GPU an actor reserves. [default: 0.05 if there is one]",
    ),
]
Retries = Annotated[int, typer.Option(min=0, help="How often a run that fails is tried again.")]
InProcess = Annotated[bool, typer.Option("--in-process", help="Without Ray, for debugging.")]
Store = Annotated[
    bool,
    typer.Option(
        "--store/--no-store",
        help="Take rounds that other runs have computed; the numbers are the same either way.",
    ),
]
StoreLimit = Annotated[
    int | None,
    typer.Option(
        parser=_size,
        metavar="SIZE",
        help="What rounds kept for other runs may take of the storage, as in 200GB. [default: no limit]",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
ReportTo = Annotated[
    Path | None,
    typer.Option("--to", help="Write here. [default: a folder of the grid in the storage]"),
]
