"""The entry of an algorithm in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.base import Algorithm, Settings


@dataclass(frozen=True)
class AlgorithmEntry:
    """An algorithm as the command line lists it."""

    name: str
    title: str
    """As in tables."""
    summary: str
    """One line."""
    source: str
    algorithm: type[Algorithm]
    settings: Settings
    """The defaults."""
    is_reference: bool = False
    """Whether it is a row to compare with and no competitor: never the best, in no rank and in no test."""
    search: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What `fedgrid search` and `fedgrid arena` tune: setting -> a list of values, or `low` and `high`, as in
    a search's file. Empty: its built-in space, if it has one."""
    bibtex: str = field(default="", repr=False)
    """Entries of its papers, apart by blank lines, which `fedgrid cite` prints; empty: there is none."""
