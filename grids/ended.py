"""How a launch ended."""

from dataclasses import dataclass

from grids.outcome import Outcome
from grids.tally import Tally


@dataclass(frozen=True)
class Ended:
    """How a launch ended."""

    failures: tuple[Outcome, ...] = ()
    """Runs given up."""
    tally: Tally | None = None
    """None where there was nothing to run."""
    stopped: bool = False
    """Whether it was asked to stop before all was done."""
