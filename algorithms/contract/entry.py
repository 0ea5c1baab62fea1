"""The entry of an algorithm in the registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
