"""Options that several commands share, each declared once, alone or in groups (`expand_groups`)."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.cli.actions import completion
from fedgrid.grids.cli.commands.app import find_data_folder

if TYPE_CHECKING:
    from fedgrid.grids.planning.options import LaunchOptions


def parse_size(text: str) -> int:
    """Parse a size such as `200GB` as a number of bytes; without a unit it is in bytes."""
    from pydantic import ByteSize, TypeAdapter, ValidationError

    # ByteSize reads as far as it can: of "1,5GB" it would take the 1, for a byte.
    is_complete = ByteSize.byte_string_re.fullmatch(text.strip())
    try:
        size = TypeAdapter(ByteSize).validate_python(text.strip()) if is_complete else 0
    except ValidationError:
        size = 0
    if size < 1:
        raise typer.BadParameter(
            f"{text!r} is not a size: expected at least 1 byte, as a number and a unit, as in 200GB; "
            "units: B, KB, MB, GB, TB, KiB, MiB, GiB, TiB"
        )
    return size


GridOrRun = Annotated[
    str,
    typer.Argument(
        help="A grid that was launched, or the name or id of one of its runs.", show_default=False
    ),
]
Dataset = Annotated[
    str | None,
    typer.Option(
        help="A data set of `fedgrid data`, folder:PATH, folder:PATH#64x64, npz:PATH, "
        "csv:PATH#label=COLUMN, parquet:PATH or hf:NAME; several with commas."
    ),
]
Seeds = Annotated[str | None, typer.Option(help="Several seeds: 0..4, or 0,2,5.")]
Conditions = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        help="Only these runs: KEY=VALUE[,KEY=VALUE], as in dataset=mnist; of finished runs also != > >= < "
        "<=, and scores, as in 'ari>0.9'; may be repeated.",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="Set a key of the runs, as in training.rounds=5; several values, as in split.alpha=0.1,0.5, are "
        "a run each.",
        show_default=False,
    ),
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        help="A Python file with algorithms, models, splits or other things of your own; may be repeated.",
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="Execute plugins that lie in a storage or a bundle, which others may have written."
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(envvar="FEDGRID_DATA", help="Folder of the images. [default: the user's cache]"),
]
StorageAt = Annotated[
    str,
    typer.Option(
        "--storage",
        envvar="FEDGRID_STORAGE",
        help="Folder of the runs and the MLflow store, or a URI such as s3://bucket/runs.",
    ),
]
GridName = Annotated[
    str,
    typer.Argument(
        help="Name of a grid that was launched.", show_default=False, autocompletion=completion.complete_grids
    ),
]
Superseded = Annotated[
    bool,
    typer.Option(
        "--superseded", help="Also the runs of earlier launches that the edited file or plugin replaces."
    ),
]
AnyGridName = Annotated[
    str | None,
    typer.Argument(
        help="Name of a grid. [default: all of the storage]",
        show_default=False,
        autocompletion=completion.complete_grids,
    ),
]
InProcess = Annotated[
    bool, typer.Option("--in-process", help="Run in this process, without Ray: for debugging.")
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Show what would run, with which resources, and roughly how long."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Track = Annotated[
    str,
    typer.Option(
        "--track",
        envvar="FEDGRID_TRACK",
        help="Trackers to log the runs to: mlflow, tensorboard, one of a plugin's TRACKERS, or several with "
        "commas between them; none: no tracker.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
ReportTo = Annotated[
    Path | None,
    typer.Option("--to", help="Output folder. [default: the grid's folder in the storage]"),
]


@dataclass(frozen=True)
class ScenarioOptions:
    """Options that choose a split of a data set, instead of the file's."""

    split: Annotated[
        str | None,
        typer.Option(
            help="overlapping-balanced, overlapping-imbalanced, nonoverlapping-balanced, "
            "nonoverlapping-imbalanced, majority, label-skew, dirichlet, iid, rotated, rolled, flipped, "
            "swapped, dimmed, noisy, two-levels, continuum, natural, file or a plugin's: docs/splits.md. "
            "Its settings: split.alpha=0.1."
        ),
    ] = None
    clients: Annotated[int | None, typer.Option(help="Number of federated clients.")] = None
    seed: Annotated[int | None, typer.Option(help="Seed of everything random in the run.")] = None

    def build_axes(self, **others: Any) -> dict[str, Any]:
        """Build the axes that the command line sets: the scenario's, and `others`, split at commas."""
        given = (others | vars(self)).items()
        return {name: _split_values(value, f"--{name}") for name, value in given if value not in (None, [])}


def _split_values(given: Any, option: str) -> Any:
    """Split the values of an axis at commas; the path of the user's own images may contain commas."""
    from fedgrid.grids.presets.yaml_file import split_at_commas

    if isinstance(given, list):
        return [part for text in given for part in split_at_commas(text, f"{option} {text}")]
    is_several = isinstance(given, str) and "," in given and ":" not in given
    return _split_values([given], option) if is_several else given


@dataclass(frozen=True)
class LaunchSettings:
    """Options of a launch: where it finds what it needs, what it may use, and how it is shown."""

    plugins: Plugins = None
    storage: StorageAt = "runs"
    data_dir: DataDir = None
    clients_per_actor: Annotated[
        int | None, typer.Option(min=1, help="Clients that share an actor. [default: fits the cluster]")
    ] = None
    cpus_per_actor: Annotated[
        float | None, typer.Option(min=0, help="CPUs that an actor reserves. [default: fits the cluster]")
    ] = None
    gpus_per_actor: Annotated[
        float | None,
        typer.Option(min=0, help="Share of a GPU that an actor reserves. [default: what its training takes]"),
    ] = None
    retries: Annotated[
        int,
        typer.Option(
            min=0,
            help="Retries of a run that fails, unless it would fail again: by a slip in a plugin, or NaN.",
        ),
    ] = 2
    cache: Annotated[
        bool,
        typer.Option(
            "--cache/--no-cache",
            help="Use the round cache: rounds that other runs have computed. Numbers are the same either "
            "way.",
        ),
    ] = True
    cache_limit: Annotated[
        int | None,
        typer.Option(
            parser=parse_size,
            metavar="SIZE",
            help="Size limit of the round cache, as in 200GB. [default: no limit]",
        ),
    ] = None
    track: Track = "mlflow"
    accept_changes: Annotated[
        bool,
        typer.Option(
            "--accept-changes",
            help="Continue runs that were made with other code, versions or processors, and note it.",
        ),
    ] = False
    as_json: AsJson = False

    def build_options(self, **more: Any) -> "LaunchOptions":
        """Build the options of the launch; `more` are those that only some commands have.

        Raises:
            ConfigError: if there is a limit for a round cache that is switched off.
        """
        from fedgrid.engine.runtime.clients.placement import PlacementRequest
        from fedgrid.engine.runtime.round_cache.files import CacheOptions
        from fedgrid.grids.planning.options import LaunchOptions, parse_trackers

        if self.cache_limit is not None and not self.cache:
            raise ConfigError("--cache-limit limits what --no-cache does not use: leave out one of the two")
        return LaunchOptions(
            find_data_folder(self.data_dir),
            request=PlacementRequest(self.clients_per_actor, self.cpus_per_actor, self.gpus_per_actor),
            retries=self.retries,
            accept_changes=self.accept_changes,
            as_json=self.as_json,
            cache=CacheOptions(self.cache_limit) if self.cache else None,
            trackers=parse_trackers(self.track),
            **more,
        )
