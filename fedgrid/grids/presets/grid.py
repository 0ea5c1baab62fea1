"""The runs of a grid."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedgrid.engine.federation.configuration.run_config import RunConfig

OPTIONS = "options"
"""The source of a grid without a file. Its axes are options, and so add to each other."""
DICT = "a dict"
"""The source of a grid that Python gave: another dict under its name replaces it, as an edited file does."""


@dataclass(frozen=True)
class RequestedRuns:
    """The runs that a file or a dict requests, whichever of them a launch runs."""

    digest: str
    """Of what the file, its bases and overrides say."""
    run_ids: frozenset[str]
    """All runs of the file, those that `--where` leaves out too."""


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
    """Where the preset comes from: a file, a built-in preset, options."""
    is_named: bool = False
    """Whether the user gave its name: launches of several files then add to one grid."""
    requested: RequestedRuns | None = None
    """None: its runs join those of earlier launches, as those of a search do."""
    notes: tuple[str, ...] = ()
    """Remarks on how the file was read, a line each."""
