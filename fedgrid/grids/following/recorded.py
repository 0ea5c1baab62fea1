"""What the folder of a run has for trackers: its rounds, its files, its figure, how it ended."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.leases.scratch import scratch_folder
from fedgrid.engine.runtime.plugins.algorithm_of import own_columns
from fedgrid.engine.runtime.run.records import write_joined
from fedgrid.engine.runtime.run.run_folder import FAILED, LOG, folder_of
from fedgrid.engine.runtime.storage.format import DamagedFile, manifest_of
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.outcome import SCORES
from fedgrid.grids.results.times import round_ends
from fedgrid.grids.trackers.tracker import Status, TrackedRun
from fedgrid.manifest import CLIENTS, CONFIG, ROUNDS, TIMES
from fedgrid.record_columns import schemas
from fedgrid.tracking.records import RecordsError
from fedgrid.tracking.scoring.scores import score_rounds

FILES = (CONFIG, ROUNDS, CLIENTS, TIMES, LOG)
"""A run's artifacts."""
RECORDS = ("rounds", "clients", "timings")
"""Beginnings of the names of files with records."""

Round: TypeAlias = tuple[int, Mapping[str, Any], int]
"""Number, scores, and the Unix time of its end in milliseconds."""


def rounds_after(folder: Path, number: int) -> list[Round]:
    """Return the recorded rounds after one; none of half a round."""
    with suppress(RecordsError, DamagedFile):  # A later look has it, or the next launch says what is wrong.
        rounds = list(score_rounds(folder, number))
        ends = round_ends(folder, range(1, max((at for at, _ in rounds), default=0) + 1))
        return [(at, scores, ends[at]) for at, scores in rounds]
    return []


@contextmanager
def files_of(run: TrackedRun, *, drawn: bool) -> Iterator[list[tuple[Path, str]]]:
    """Yield the files of a run that has ended, each with its folder; with its figure, if that is `drawn`.

    Records in segments are joined for it.
    """
    with scratch_folder() as scratch:
        paths = {name: run.folder / name for name in FILES}
        with suppress(FileNotFoundError, DamagedFile):  # As they are: the next launch says what is wrong.
            columns = schemas(own_columns(run.config))
            paths |= {path.name: path for path in write_joined(run.folder, scratch, columns)}
        files = [(path, "") for path in paths.values() if path.is_file()]
        if drawn:
            # Imports matplotlib, which takes a second; a figure takes as long as two rounds on digits.
            from fedgrid.tracking.figures.runs import write

            with suppress(RecordsError, DamagedFile):  # The next launch says what is wrong.
                files.append((write(run.folder, scratch), "figures"))
        yield files


@contextmanager
def records_at_uri(storage: Storage, config: RunConfig) -> Iterator[Path]:
    """Yield a folder, named as the run's, with a copy of its records, which another machine takes forward.

    The mirror is left alone: a server on this machine may be writing into it.

    Raises:
        RunError: the URI cannot be read.
    """
    folder = folder_of(storage.root, config).name
    with scratch_folder() as scratch:
        copy = scratch / folder
        copy.mkdir()
        replace(storage, root=scratch).pull(folder, only=RECORDS)
        yield copy


def end_of(folder: Path) -> Status | None:
    """Return how the run in a folder has ended; None if it is under way, interrupted, or not started."""
    with suppress(FileNotFoundError, DamagedFile):  # The next launch says what is wrong.
        if manifest_of(folder).is_finished and (folder / SCORES).exists():
            return "FINISHED"  # The scores are written last.
    return "FAILED" if (folder / FAILED).exists() else None


def started_ms(folder: Path) -> int | None:
    """Return the Unix time in milliseconds at which a run's folder was made, None if it is not there."""
    with suppress(FileNotFoundError):
        return int((folder / CONFIG).stat().st_mtime * 1000)
    return None
