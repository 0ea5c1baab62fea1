"""How a grid is run; none of it changes a number."""

from dataclasses import dataclass
from pathlib import Path

from fedgrid.engine.clients.placement import Request
from fedgrid.engine.round_cache.store import CacheOptions
from fedgrid.grids.results.outcome import Outcome
from fedgrid.grids.results.tally import Tally


@dataclass(frozen=True)
class LaunchOptions:
    """What a user may say about how a grid is run."""

    data_dir: Path
    request: Request = Request()
    retries: int = 2
    """How often a run that fails is tried again."""
    in_process: bool = False
    fresh: bool = False
    """Forget what is kept of the runs, and of their rounds, first."""
    as_json: bool = False
    store: CacheOptions | None = CacheOptions()
    """How rounds of other runs are taken from the round store; None: not at all."""


@dataclass(frozen=True)
class LaunchResult:
    """How a launch ended."""

    failures: tuple[Outcome, ...] = ()
    """Runs given up."""
    tally: Tally | None = None
    """None where there was nothing to run."""
    stopped: bool = False
    """Whether it was asked to stop before all was done."""
