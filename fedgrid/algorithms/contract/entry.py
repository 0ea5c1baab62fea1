"""The entry of an algorithm in the registry: all that is known of it beside its code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.base import Algorithm, Settings

SearchSpace: TypeAlias = Mapping[str, Any]
"""Setting -> a list of values, or `low` and `high`, as in a search's file."""
Told: TypeAlias = Literal["", "number", "groups"]


@dataclass(frozen=True)
class OwnNumber:
    """A number of a round: one that an algorithm returns in `Diagnostics.metrics`, or else the mean of the
    output of this name of the clients' rule, over its entries and the clients, all alike."""

    name: str
    """The column of `rounds.parquet`, float64: small letters, digits and _."""
    meaning: str
    """One sentence."""
    section: str = "other"
    """Of MLflow's metrics."""


@dataclass(frozen=True)
class AlgorithmEntry:
    """An algorithm as the command line lists it."""

    name: str
    title: str
    """What its paper calls it."""
    summary: str
    """One line."""
    source: str
    algorithm: type[Algorithm]
    settings: Settings
    """The defaults."""
    is_reference: bool = False
    """Whether it is a row to compare with and no competitor: never the best, in no rank and in no test."""
    search: SearchSpace | Callable[[int], SearchSpace] = field(default_factory=dict, compare=False)
    """What `fedgrid search` and `fedgrid arena` tune; or a function that returns it for the number of rounds
    of the shortest run. Empty: nothing."""
    bibtex: str = field(default="", repr=False)
    """Entries of its papers, apart by blank lines, which `fedgrid cite` prints; empty: there is none."""
    arena: Mapping[str, Any] | None = field(default=None, compare=False)
    """The settings with which it is in the arena, beside its defaults; None: it is not in it."""
    numbers: tuple[OwnNumber, ...] = ()
    """Numbers of its own, which records, `fedgrid show`, MLflow and reports show."""
    told: Told = ""
    """What it is told of the hidden groups, which no server knows: their number, which is a setting of its
    own, or the groups themselves; empty: nothing."""

    @property
    def told_line(self) -> str:
        """What it is told, in a line; empty: nothing."""
        what = {"": "", "number": "the number of hidden groups", "groups": "the hidden groups"}[self.told]
        return f"Told: {what}." if what else ""

    def space(self, rounds: int) -> dict[str, Any]:
        """Return what is tuned in runs of this many rounds, the shortest; empty: nothing."""
        return dict(self.search(rounds) if callable(self.search) else self.search)


def clustering_rounds(rounds: int) -> dict[str, int]:
    """Return the range of rounds to cluster in: from a tenth to six tenths of a run, in tenths.

    The remaining rounds let the clusters' models improve.
    """
    tenth = max(1, rounds // 10)
    return {"low": tenth, "high": max(tenth + 1, rounds * 6 // 10), "step": tenth}
