"""A run between two rounds."""

from collections.abc import Mapping
from dataclasses import dataclass

from algorithms.base import State
from algorithms.updates import Vector


@dataclass(frozen=True)
class Progress:
    """A run between two rounds; it alone is what a checkpoint stores."""

    rounds_done: int
    state: State
    memories: Mapping[int, Vector]
    """Client -> what its optimizer remembers; empty unless the training keeps optimizer state."""
