"""Options of a launch. None changes a number that a run computes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.clients.placement import PlacementRequest
from fedgrid.engine.runtime.round_cache.files import CacheOptions
from fedgrid.grids.display.steps import StepDisplay
from fedgrid.grids.presets.yaml_file import split_at_commas

DEFAULT_TRACKERS, NO_TRACKER = ("mlflow",), "none"


@dataclass(frozen=True)
class LaunchOptions:
    """How a grid is launched."""

    data_dir: Path
    request: PlacementRequest = PlacementRequest()
    retries: int = 2
    """Number of times that a failed run is retried; default 2."""
    in_process: bool = False
    """Whether the runs are executed one after another in this process, without Ray; default False."""
    fresh: bool = False
    """Whether the runs, and their cached rounds, are deleted first; default False."""
    as_json: bool = False
    """Whether events are printed as JSON instead of text; default False."""
    by_round: bool = True
    """Whether each round has a line, if the console is no terminal; default True."""
    accept_changes: bool = False
    """Whether runs continue with other code, versions or machines than they began with, which is recorded;
    default False."""
    imported: Sequence[str] = ()
    """Grids that were imported from bundles, whose runs are used in place of computing them; default: none.
    """
    cache: CacheOptions | None = CacheOptions()
    """How cached rounds of other runs are used; None uses none; default: `CacheOptions()`."""
    trackers: tuple[str, ...] = DEFAULT_TRACKERS
    """Names of the trackers to which runs are logged."""

    def __post_init__(self) -> None:
        if self.in_process and self.request != PlacementRequest():
            raise ConfigError(
                "--in-process has no actors: leave out either --in-process or the options about clients per "
                "actor"
            )

    @property
    def run_cache_options(self) -> CacheOptions | None:
        """Cache options of the runs: runs that start over reuse no rounds of shorter runs."""
        return None if self.cache is None else replace(self.cache, takes_rounds=not self.fresh)

    def open_steps(self, console: Console, *, as_lines: bool = False) -> StepDisplay:
        """Create the display of what a launch is doing: on a terminal, and with `as_lines` also in a log."""
        return StepDisplay(console, as_lines=as_lines, quiet=self.as_json)


def parse_trackers(text: str) -> tuple[str, ...]:
    """Parse the names that `--track` lists, separated by commas; `none` means no tracker.

    Raises:
        ConfigError: `none` is combined with another one.
    """
    names = tuple(dict.fromkeys(split_at_commas(text, f"--track {text}")))
    if NO_TRACKER in names and names != (NO_TRACKER,):
        raise ConfigError(f"--track {text}: {NO_TRACKER} stands alone; leave it out, or the others")
    return () if names == (NO_TRACKER,) else names
