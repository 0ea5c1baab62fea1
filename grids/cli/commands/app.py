"""What the commands share: exit codes, the console, and options that become settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console

from fedgrid.engine.errors import ConfigError

if TYPE_CHECKING:
    from fedgrid.grids.execution.launch_types import LaunchOptions, LaunchResult

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130
PLAIN_WIDTH = 132
"""Columns to print if the output is not a terminal."""


def console() -> Console:
    """Return a console for standard output."""
    found = Console()
    return found if found.is_terminal else Console(width=PLAIN_WIDTH)


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are set on the command line."""
    return {name: value for name, value in options.items() if value not in (None, [])}


def use_plugins(files: Sequence[Path] | None) -> None:
    """Register the plugins that a command names, and those of installed packages."""
    from fedgrid.engine.plugins import active

    active.use(files or [])


def data_folder(data_dir: Path | None) -> Path:
    """Return the absolute path of the image folder: `data_dir`, or the user's cache."""
    from fedgrid.engine.data.datasets import default_data_dir

    return (data_dir or default_data_dir()).absolute()


def launch_options(
    data_dir: Path | None,
    *,
    clients_per_actor: int | None,
    cpus_per_client: float | None,
    gpus_per_client: float | None,
    retries: int,
    store: bool,
    store_limit: int | None,
    as_json: bool,
    in_process: bool = False,
    fresh: bool = False,
    accept_changes: bool = False,
    each: bool = False,
) -> "LaunchOptions":
    """Return the options of a launch, as given on the command line.

    Raises:
        ConfigError: if there is a limit for a round cache that is switched off.
    """
    from fedgrid.engine.clients.placement import Request
    from fedgrid.engine.round_cache.store import CacheOptions
    from fedgrid.grids.execution.launch_types import LaunchOptions

    if store_limit is not None and not store:
        raise ConfigError("--store-limit limits what --no-store does not use: leave out one of the two")
    return LaunchOptions(
        data_folder(data_dir),
        request=Request(clients_per_actor, cpus_per_client, gpus_per_client),
        retries=retries,
        in_process=in_process,
        fresh=fresh,
        accept_changes=accept_changes,
        as_json=as_json,
        each=each,
        store=CacheOptions(store_limit) if store else None,
    )


def exit_with(result: "LaunchResult") -> NoReturn:
    """Exit with the code that says how a launch ended."""
    if result.stopped:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(FAILED if result.failures else 0)
