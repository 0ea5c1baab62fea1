"""The protocol of trackers: what MLflow, TensorBoard and a plugin's own get of the runs of a grid.

Each tracker of a launch has a process of its own, which looks into the runs' folders. Whatever it raises, or
if it hangs, the runs and the other trackers go on; it is made anew later, and `opened` says what it lacks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.storage import Storage

Status: TypeAlias = Literal["FINISHED", "FAILED", "KILLED"]
"""How a run or a grid ended; KILLED: it was interrupted, and may go on."""


@dataclass(frozen=True)
class TrackedGrid:
    """The grid whose runs a tracker is told of."""

    name: str
    storage: Storage
    axes: Sequence[str] = ()
    """The keys, beside scenario, algorithm and seed, in which its runs differ."""
    searched: Sequence[str] = ()
    """Those of the axes that a search varies."""
    text: str = ""
    """Its preset, as YAML."""
    at_uri: bool = False
    """Whether runs under way are recorded at the storage's URI, by other machines."""
    is_launch: bool = True
    """Whether its runs are made now, rather than told of later."""


@dataclass(frozen=True)
class TrackedRun:
    """A run that a tracker is told of."""

    config: RunConfig
    folder: Path
    """Where its files are, or will be."""
    started_ms: int | None = None
    """The Unix time in milliseconds at which its folder was made; None if that is not known."""

    @classmethod
    def of(cls, config: RunConfig, storage: Storage) -> Self:
        """Return a run of a storage."""
        return cls(config, folder_of(storage.root, config))


class Tracker:
    """Is told of the runs of one grid. A tracker overrides what it needs; its calls never overlap.

    It is made in the process that tells it, and made anew after it has raised anything. Of a run it is told
    `opened`, each `round` in order, and at its end each `artifact`, then `finished` or `failed`.
    """

    name: ClassVar[str]
    """As in `--track`."""

    def __init__(self, grid: TrackedGrid) -> None:
        """Get ready to be told of the runs of `grid`."""
        self.grid = grid

    def opened(self, run: TrackedRun) -> int:
        """A run starts, goes on, or is caught up on; return how many of its first rounds are here already.

        These are not told again. By default none are, so that each launch tells a run from its first round.
        """
        return 0

    def round(self, run: TrackedRun, number: int, scores: Mapping[str, Any], ended_ms: int) -> None:
        """A round is recorded.

        Args:
            run: its run.
            number: counted from 1.
            scores: number of the round by name, None where there is none: docs/reference/scores.md.
            ended_ms: the Unix time of its end in milliseconds.
        """

    def artifact(self, run: TrackedRun | None, path: Path, folder: str = "") -> None:
        """A file of a run that has ended, or of the grid (None), to be taken now; `folder`: where to."""

    def finished(self, run: TrackedRun) -> None:
        """All rounds of a run are done."""

    def failed(self, run: TrackedRun, status: Status) -> None:
        """A run has ended before its last round: FAILED, or KILLED if it was interrupted."""

    def flush(self) -> None:
        """Store what was told. Follows each group of rounds."""

    def forget(self, run: TrackedRun) -> None:
        """The records of a run are deleted: it starts over."""

    def close(self, status: Status, counts: Mapping[str, float]) -> None:
        """The launch ends; `counts` has runs done and failed, unless it broke off."""

    def has(self, run: TrackedRun | None, status: Status, rounds: int) -> bool:
        """Return whether a run, or the grid (None), is here with this status and so many rounds.

        `fedgrid sync` passes over these.
        """
        return False

    @classmethod
    def prepare(cls) -> None:
        """Import what takes seconds; called in the tracker's process, while Ray starts."""

    @classmethod
    def check(cls, grid: TrackedGrid) -> None:
        """Raise a ConfigError if the grid cannot be tracked here; called before anything starts."""

    @classmethod
    def lacks(cls, run: TrackedRun, grid: TrackedGrid) -> bool:
        """Return whether a finished run is to be told of at the next launch, by what lies in its folder."""
        return False

    @classmethod
    def title(cls) -> str:
        """Return what messages call it."""
        return f"tracker {cls.name}"

    @classmethod
    def lines(cls, grid: TrackedGrid) -> list[str]:
        """Return the lines at the end of a launch that say where to look."""
        return []
