"""TensorBoard as a tracker: event files below `tensorboard/GRID/` of the storage, in a folder a run."""

import struct
import time
from collections.abc import Collection, Iterator, Mapping
from math import isfinite
from pathlib import Path
from shlex import quote
from shutil import rmtree
from typing import Any

from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.trackers.names import select_metrics
from fedgrid.grids.trackers.tracker import Status, TrackedGrid, TrackedRun, Tracker
from fedgrid.regular_files import read_file

FOLDER = "tensorboard"
COMPLETE_MARK = "whole"
"""Empty file next to the events of a finished run."""
FRAME, CHECKSUM = struct.Struct("<QI"), 4
"""Format of what stands before each event: its length, and a checksum of that. Another checksum, of
`CHECKSUM` bytes, follows the event."""
LARGEST = 1 << 30
"""Most bytes of a file of events that is read."""
SIZE_OF_PNG = slice(16, 24)
"""Place of width and height in a PNG file, as two 32-bit numbers."""


class TensorBoardTracker(Tracker):
    """Tracker that writes an event for each round, and one with the figure of a finished run.

    The event of a round has all of its metrics.
    """

    name = "tensorboard"

    def __init__(self, grid: TrackedGrid) -> None:
        super().__init__(grid)
        self._writers: dict[str, Any] = {}
        """Run id -> `EventsWriter` of the runs that are open."""

    def opened(self, run: TrackedRun) -> int:
        """Begin another file of a run; return the last round that the earlier files have."""
        from tensorboardX.event_file_writer import EventsWriter

        folder = events_folder(run, self.grid)
        rounds = max((event.step for event in read_events(folder) if _is_round(event)), default=0)
        folder.mkdir(parents=True, exist_ok=True)
        # The writer names files by the second, and empties one that exists; nanoseconds keep them apart.
        self._writers[run.config.run_id] = EventsWriter(str(folder / "events"), f".{time.time_ns()}")
        return rounds

    def round(self, run: TrackedRun, number: int, scores: Mapping[str, Any], ended_ms: int) -> None:
        """Write a round as one event, so that a file that ends in half an event ends with a whole round.

        Args:
            run: The run, which was `opened`.
            number: The round, counted from 1.
            scores: Value by name. None, NaN and infinities are left out.
            ended_ms: Unix time of the round's end in milliseconds.
        """
        from tensorboardX.proto.summary_pb2 import Summary

        values = [
            Summary.Value(tag=key, simple_value=float(value))
            for key, value in select_metrics(scores).items()
            if value is not None and isfinite(value)
        ]
        self._write_event(run, Summary(value=values), number, ended_ms / 1000)

    def artifact(self, run: TrackedRun | None, path: Path, folder: str = "") -> None:
        """Show a run's figure; TensorBoard has no place for other files."""
        from tensorboardX.proto.summary_pb2 import Summary

        if run is not None and path.suffix == ".png":
            picture = path.read_bytes()
            width, height = struct.unpack(">II", picture[SIZE_OF_PNG])
            image = Summary.Image(height=height, width=width, colorspace=4, encoded_image_string=picture)
            tag = f"{folder}/{path.stem}"
            self._write_event(run, Summary(value=[Summary.Value(tag=tag, image=image)]), 0, time.time())

    def finished(self, run: TrackedRun) -> None:
        """Close the file, and mark the folder as complete."""
        # Closing flushes the events, so that the mark follows the last of them.
        self._writers.pop(run.config.run_id).close()
        (events_folder(run, self.grid) / COMPLETE_MARK).touch()

    def failed(self, run: TrackedRun, status: Status) -> None:
        """Close the file."""
        self._writers.pop(run.config.run_id).close()

    def flush(self) -> None:
        """Write what is buffered to the disk."""
        for writer in self._writers.values():
            writer.flush()

    def forget(self, run: TrackedRun) -> None:
        """Delete the events of a run."""
        rmtree(events_folder(run, self.grid), ignore_errors=True)

    def has(self, run: TrackedRun | None, status: Status, rounds: int) -> bool:
        """Check whether the files have a run's rounds, and those of a finished run its figure."""
        if run is None:
            return True
        folder = events_folder(run, self.grid)
        steps = (event.step for event in read_events(folder) if _is_round(event))
        return max(steps, default=0) == rounds and (status != "FINISHED" or (folder / COMPLETE_MARK).exists())

    @classmethod
    def prepare(cls) -> None:
        """Import tensorboardX."""
        import tensorboardX.event_file_writer  # noqa: F401

    @classmethod
    def lacks(cls, run: TrackedRun, grid: TrackedGrid) -> bool:
        """Check whether a run's folder lacks the mark of a finished run."""
        return not (events_folder(run, grid) / COMPLETE_MARK).exists()

    @classmethod
    def title(cls) -> str:
        """Return the product's name."""
        return "TensorBoard"

    @classmethod
    def lines(cls, grid: TrackedGrid) -> list[str]:
        """Format the command that shows the grid."""
        return [f"TensorBoard:  tensorboard --logdir {quote(str(grid.storage.root / FOLDER / grid.name))}"]

    def _write_event(self, run: TrackedRun, summary: Any, step: int, wall_time: float) -> None:
        """Write one event of a run."""
        from tensorboardX.proto.event_pb2 import Event

        event = Event(step=step, wall_time=wall_time, summary=summary)
        self._writers[run.config.run_id].write_event(event)


def events_folder(run: TrackedRun, grid: TrackedGrid) -> Path:
    """Build the path of a run's events; TensorBoard shows the run under the folder's name."""
    return grid.storage.root / FOLDER / grid.name / run.folder.name


def delete_events(grid: str, storage: Storage, run_ids: Collection[str] | None = None) -> None:
    """Delete the events of runs of a grid.

    Args:
        grid: The grid's name.
        storage: Storage of the grid.
        run_ids: The runs; None for all.
    """
    folder = storage.root / FOLDER / grid
    for path in [folder] if run_ids is None else [*folder.glob("*")]:
        # A run's folder is named NAME-RUN_ID.
        if run_ids is None or path.name.rpartition("-")[2] in run_ids:
            rmtree(path, ignore_errors=True)


def read_events(folder: Path) -> Iterator[Any]:
    """Yield the events of a run up to the first that is cut off in each file.

    tensorboardX only writes, and TensorBoard itself, which could read, is a large package that fedgrid does
    not need.
    """
    from tensorboardX.proto.event_pb2 import Event

    for path in sorted(folder.glob("events.out.tfevents.*")):
        content, at = read_file(path, LARGEST), 0
        while len(content) - at > FRAME.size:
            begin = at + FRAME.size
            at = begin + FRAME.unpack_from(content, at)[0] + CHECKSUM
            # A writer that was killed leaves half an event at the end.
            if at > len(content):
                break
            yield Event.FromString(content[begin : at - CHECKSUM])


def _is_round(event: Any) -> bool:
    """Check whether an event has the metrics of a round, and not a figure."""
    return any(value.HasField("simple_value") for value in event.summary.value)
