"""The protocol of trackers: what MLflow, TensorBoard and those of plugins receive of the runs of a grid.

Each tracker of a launch has a process of its own, which reads the runs' folders. If a tracker raises an error
or hangs, the runs and the other trackers go on. It is replaced by a new instance later, whose `opened` says
which rounds it lacks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.storage import Storage

Status: TypeAlias = Literal["FINISHED", "FAILED", "KILLED"]
"""How a run or a grid ended. KILLED means that it was interrupted, and may go on."""


@dataclass(frozen=True)
class TrackedGrid:
    """The grid whose runs a tracker receives.

    It is sent to the tracker's process as JSON; a tracker has it as `self.grid`.

    Args:
        name: name of the grid.
        storage: where the grid and its runs are stored; `storage.root` is a local folder.
        axes: keys, in addition to scenario, algorithm and seed, in which its runs differ; none by default.
        searched: those of the axes that a search varies; none by default.
        text: the grid's preset, as YAML; empty by default.
        at_uri: whether other machines record runs under way at the storage's URI; False by default.
        is_launch: whether its runs are made now, the default, rather than synchronised later.

    Example:
        >>> from pathlib import Path
        >>> import fedgrid
        >>> from fedgrid.engine.runtime.storage.storage import Storage
        >>> grid = fedgrid.TrackedGrid("mine", Storage(Path("runs")), axes=("training.rounds",))
        >>> grid.name, grid.axes, grid.is_launch
        ('mine', ('training.rounds',), True)
    """

    name: str
    """Name of the grid."""
    storage: Storage
    """Where the grid and its runs are stored; `storage.root` is a local folder."""
    axes: Sequence[str] = ()
    """Keys, in addition to scenario, algorithm and seed, in which its runs differ; none by default."""
    searched: Sequence[str] = ()
    """Those of the axes that a search varies; none by default."""
    text: str = ""
    """The grid's preset, as YAML; empty by default."""
    at_uri: bool = False
    """Whether other machines record runs under way at the storage's URI; False by default."""
    is_launch: bool = True
    """Whether its runs are made now, the default, rather than synchronised later."""


@dataclass(frozen=True)
class TrackedRun:
    """A run as a tracker receives it.

    Args:
        config: the run's configuration, with `run_id` and `name`.
        folder: folder in which its files are, or will be.
        started_ms: unix time in milliseconds at which its folder was made; None, the default, if that is not
            recorded.

    Example:
        >>> from pathlib import Path
        >>> import fedgrid
        >>> from fedgrid.engine.runtime.storage.storage import Storage
        >>> config = fedgrid.RunConfig.model_validate({
        ...     "dataset": "digits", "clients": 6, "model": "mlp", "algorithm": {"name": "fedavg"}, "seed": 0,
        ...     "training": {
        ...         "rounds": 2, "local_epochs": 1, "batch_size": 8, "optimizer": "sgd", "learning_rate": 0.1
        ...     },
        ... })
        >>> run = fedgrid.TrackedRun.from_config(config, Storage(Path("runs")))
        >>> run.folder.name == f"{config.name}-{config.run_id}", run.started_ms
        (True, None)
    """

    config: RunConfig
    """The run's configuration, with `run_id` and `name`."""
    folder: Path
    """Folder in which its files are, or will be."""
    started_ms: int | None = None
    """Unix time in milliseconds at which its folder was made; None, the default, if that is not recorded."""

    @classmethod
    def from_config(cls, config: RunConfig, storage: Storage) -> Self:
        """Build the tracked run of a configuration, without the time of its start.

        Args:
            config: The run's configuration.
            storage: Storage that has, or will have, the run's folder.

        Raises:
            ConfigError: The run's name is no name of a folder, or is too long.
        """
        return cls(config, build_folder_path(storage.root, config))


class Tracker:
    """Receives the runs of one grid. A subclass overrides the hooks that it needs; calls never overlap.

    A plugin lists its trackers in `TRACKERS`; `--track NAME` chooses one. The session of a tracker, in the
    tracker's own process, makes an instance and calls its hooks. After a hook has raised an error, the
    session drops the instance and makes another one later. For each run it calls:

    1. `opened`,
    2. `round` for each recorded round in order, with `flush` after each group,
    3. `artifact` for each file once the run has ended,
    4. `finished`, or else `failed`.

    At the end of the launch it calls `artifact` for each file of the grid, and `close`.

    Args:
        grid: The grid whose runs it receives.

    Example:
        >>> from pathlib import Path
        >>> import fedgrid
        >>> from fedgrid.engine.runtime.storage.storage import Storage
        >>> class Printer(fedgrid.Tracker):
        ...     name = "printer"
        ...     def round(self, run, number, scores, ended_ms):
        ...         print(f"round {number}: {scores['clusters']} clusters")
        >>> config = fedgrid.RunConfig.model_validate({
        ...     "dataset": "digits", "clients": 6, "model": "mlp", "algorithm": {"name": "fedavg"}, "seed": 0,
        ...     "training": {
        ...         "rounds": 2, "local_epochs": 1, "batch_size": 8, "optimizer": "sgd", "learning_rate": 0.1
        ...     },
        ... })
        >>> tracker = Printer(fedgrid.TrackedGrid("mine", Storage(Path("runs"))))
        >>> run = fedgrid.TrackedRun(config, Path("runs/somewhere"))
        >>> tracker.opened(run)
        0
        >>> tracker.round(run, 1, {"clusters": 3}, ended_ms=1_700_000_000_000)
        round 1: 3 clusters
        >>> tracker.title()
        'tracker printer'
    """

    name: ClassVar[str]
    """Name of the tracker, as in `--track`."""

    def __init__(self, grid: TrackedGrid) -> None:
        """Prepare to receive the runs of `grid`.

        Called by the session, at the launch and again after each failure.

        Args:
            grid: The grid whose runs it receives.
        """
        self.grid = grid

    def opened(self, run: TrackedRun) -> int:
        """Open a run.

        Called by the session before the first `round` of a run that starts, goes on, or was missed before.

        Args:
            run: The run.

        Returns:
            How many of its first rounds the tracker has already; the session does not send these again. By
            default 0, so that each launch sends a run from its first round.
        """
        return 0

    def round(self, run: TrackedRun, number: int, scores: Mapping[str, Any], ended_ms: int) -> None:
        """Take a recorded round.

        Called by the session for each round in order, soon after the server has stored it.

        Args:
            run: The run.
            number: The round, counted from 1.
            scores: Number of the round by name, None where there is none; docs/reference/scores.md lists the
                names.
            ended_ms: Unix time of the round's end in milliseconds.
        """

    def artifact(self, run: TrackedRun | None, path: Path, folder: str = "") -> None:
        """Take a file.

        Called by the session when a run has ended, and for the files of the grid before `close`.

        Args:
            run: The run; None for the grid.
            path: The file, which may be temporary: it is to be copied or sent before the hook returns.
            folder: Folder among the artifacts to put it in; empty (the default) for the topmost.
        """

    def finished(self, run: TrackedRun) -> None:
        """Close a run whose rounds are all done.

        Called by the session once, after the run's artifacts.

        Args:
            run: The run.
        """

    def failed(self, run: TrackedRun, status: Status) -> None:
        """Close a run that has ended before its last round.

        Called by the session after the run's artifacts.

        Args:
            run: The run.
            status: FAILED, or KILLED if the run was interrupted and may go on.
        """

    def flush(self) -> None:
        """Store what was received.

        Called by the session after each group of rounds, and after `opened`.
        """

    def forget(self, run: TrackedRun) -> None:
        """Delete a run, which starts over.

        Called by the session when the run's records were deleted.

        Args:
            run: The run.
        """

    def close(self, status: Status, counts: Mapping[str, float]) -> None:
        """End the grid.

        Called by the session once, at the end of the launch.

        Args:
            status: How the launch ended.
            counts: `grid/runs_done` and `grid/runs_failed`; empty if the launch broke off.
        """

    def has(self, run: TrackedRun | None, status: Status, rounds: int) -> bool:
        """Check whether the tracker has all of a run.

        Called by `fedgrid sync`, and by a launch for runs that have ended, to pass over those that it has.

        Args:
            run: The run; None for the grid itself.
            status: Status that the run or grid must have.
            rounds: Number of rounds that it must have.

        Returns:
            False by default, so that every run is sent again.
        """
        return False

    @classmethod
    def prepare(cls) -> None:
        """Import what takes seconds, before any instance is made.

        Called in the tracker's process while Ray starts. Only fedgrid's own trackers are prepared so: a
        plugin's file is loaded there later, with its imports.
        """

    @classmethod
    def check(cls, grid: TrackedGrid) -> None:
        """Check that the grid can be tracked here.

        Called by the launch before anything starts.

        Args:
            grid: The grid that is to be tracked.

        Raises:
            ConfigError: It cannot; the message is shown to the user.
        """

    @classmethod
    def lacks(cls, run: TrackedRun, grid: TrackedGrid) -> bool:
        """Check whether the tracker lacks a finished run, by what lies in the run's folder.

        Called by the launch in its own process, once for each finished run: it should be fast, without
        imports and requests.

        Args:
            run: The run.
            grid: Its grid.

        Returns:
            Whether the run is to be sent in this launch; False by default.
        """
        return False

    @classmethod
    def title(cls) -> str:
        """Name the tracker in messages.

        Called by the launch when it warns.
        """
        return f"tracker {cls.name}"

    @classmethod
    def lines(cls, grid: TrackedGrid) -> list[str]:
        """Format lines for the end of a launch which say where to look, none by default.

        Called by the launch when its runs have ended.

        Args:
            grid: The grid that was tracked.
        """
        return []
