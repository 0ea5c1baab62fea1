"""What a paper's folder provides; `papers.PAPERS` lists them all."""

from collections.abc import Callable
from dataclasses import dataclass

from fedgrid.tracking.papers.shared.claim import Claim
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.table import Table

__all__ = ["Paper", "Run", "Study", "nothing"]
"""A paper, and what its functions take."""


def nothing(study: Study) -> tuple[Table, ...]:
    """Return no table: of a paper without printed numbers that ours could stand beside."""
    return ()


@dataclass(frozen=True)
class Paper:
    """A paper whose numbers or claims a report can have beside ours."""

    name: str
    """As in the anchor of its section: `flis`."""
    title: str
    beside: Callable[[Study], tuple[Table, ...]] = nothing
    """Our numbers beside the printed ones: no table if a study has no runs in the paper's setting."""
    by_setting: bool = False
    """Whether `beside` takes one combination of a grid's further axes at a time."""
    claims: tuple[Claim, ...] = ()
    """What the paper says, as our runs can tell."""
