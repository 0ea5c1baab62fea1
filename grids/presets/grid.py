"""The runs of a grid."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedgrid.engine.configuration.run_config import RunConfig


@dataclass(frozen=True)
class Grid:
    """A set of runs with a name."""

    name: str
    runs: tuple[RunConfig, ...]
    text: str
    """The preset as YAML; without one, the values that options gave."""
    varied: tuple[str, ...] = ()
    """Axes beside `AXES`, and the settings by which variants of an algorithm differ: shown beside a run's
    name, which has none of them, and tagged."""
    until: Mapping[str, int] = field(default_factory=dict)
    """Run id -> the round after which it stops and keeps its state; runs not listed run to their end."""
    source: str = ""
    """Where the preset comes from: a file, a built-in preset, options; empty if the user named the grid."""
