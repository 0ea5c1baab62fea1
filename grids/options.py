"""Options that several commands have, each said once."""

from pathlib import Path
from typing import Annotated

import typer

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
    int | None, typer.Option(min=1, help="Clients that share an actor. [default: fits the cluster]")
]
CpusPerClient = Annotated[
    float | None, typer.Option(min=0, help="CPUs an actor reserves. [default: fits the cluster]")
]
GpusPerClient = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Share of a GPU an actor reserves. [default: 0.05 if there is one]"),
]
Retries = Annotated[int, typer.Option(min=0, help="How often a run that fails is tried again.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
