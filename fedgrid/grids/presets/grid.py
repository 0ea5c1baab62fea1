"""A grid: a named set of runs, and where it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedgrid.engine.federation.configuration.run_config import RunConfig

OPTIONS_SOURCE = "options"
"""Source of a grid without a file. Its axes are options, so launches add to each other."""
DICT_SOURCE = "a dict"
"""Source of a grid given by Python; another dict under its name replaces it, as an edited file does."""


@dataclass(frozen=True)
class RequestedRuns:
    """The runs that a file or a dict requests, whichever of them a launch executes."""

    digest: str
    """Digest of the content of the file, its bases and overrides."""
    run_ids: frozenset[str]
    """Ids of all runs of the file, also of those that `--where` leaves out."""


@dataclass(frozen=True)
class Grid:
    """A set of runs with a name."""

    name: str
    runs: tuple[RunConfig, ...]
    text: str
    """Preset as YAML; without one, the values that options gave."""
    varied: tuple[str, ...] = ()
    """Axes other than `AXES`, and the settings by which variants of an algorithm differ; default: none.

    A run's name has none of them: they are shown next to it, and are tags in trackers.
    """
    until: Mapping[str, int] = field(default_factory=dict)
    """Run id -> round after which the run stops and keeps its state; runs not listed run to their end."""
    source: str = ""
    """Where the preset comes from: a file, a built-in preset, options."""
    is_named: bool = False
    """Whether the user gave its name, so that launches of several files add to one grid; default False."""
    requested: RequestedRuns | None = None
    """Runs of its file; default None: its runs are added to those of earlier launches, as those of a search.
    """
    notes: tuple[str, ...] = ()
    """Remarks on how the file was read, a line each; default: none."""
