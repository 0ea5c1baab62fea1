"""What the folder of a run has for trackers: its rounds, its files, its figure, and how it ended."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.leases.scratch import create_scratch_folder
from fedgrid.engine.runtime.plugins.run_algorithm import list_own_columns
from fedgrid.engine.runtime.run.records import write_joined_tables
from fedgrid.engine.runtime.run.run_folder import FAILED, LOG, build_folder_path
from fedgrid.engine.runtime.storage.format import DamagedFile, load_manifest
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.outcome import SCORES
from fedgrid.grids.results.times import read_round_ends
from fedgrid.grids.trackers.tracker import Status, TrackedRun
from fedgrid.manifest import CLIENTS, CONFIG, ROUNDS, TIMES
from fedgrid.record_columns import build_schemas
from fedgrid.tracking.records import RecordsError
from fedgrid.tracking.scoring.scores import score_rounds

ARTIFACT_FILES = (CONFIG, ROUNDS, CLIENTS, TIMES, LOG)
"""Names of the files that are a run's artifacts."""
RECORD_PREFIXES = ("rounds", "clients", "timings")
"""Prefixes of the names of files with records."""

Round: TypeAlias = tuple[int, Mapping[str, Any], int]
"""Number, scores, and the Unix time of its end in milliseconds."""


def read_rounds_after(folder: Path, number: int) -> list[Round]:
    """Read the recorded rounds after round `number`; a round that is recorded by half is left out."""
    # The server may be writing: a later poll reads the round, or the next launch reports what is wrong.
    with suppress(RecordsError, DamagedFile):
        rounds = list(score_rounds(folder, number))
        ends = read_round_ends(folder, range(1, max((at for at, _ in rounds), default=0) + 1))
        return [(at, scores, ends[at]) for at, scores in rounds]
    return []


@contextmanager
def open_artifacts(run: TrackedRun, *, drawn: bool) -> Iterator[list[tuple[Path, str]]]:
    """Yield the files of a run that has ended, each with its folder among the artifacts.

    Records in segments are joined, as a user expects one file. The joined files and the figure are temporary.

    Args:
        run: The run.
        drawn: Whether the run's figure is drawn too.
    """
    with create_scratch_folder() as scratch:
        paths = {name: run.folder / name for name in ARTIFACT_FILES}
        with suppress(FileNotFoundError, DamagedFile):  # As they are: the next launch says what is wrong.
            columns = build_schemas(list_own_columns(run.config))
            paths |= {path.name: path for path in write_joined_tables(run.folder, scratch, columns)}
        files = [(path, "") for path in paths.values() if path.is_file()]
        if drawn:
            # Imports matplotlib, which takes a second; a figure takes as long as two rounds on digits.
            from fedgrid.tracking.figures.runs import write

            with suppress(RecordsError, DamagedFile):  # The next launch says what is wrong.
                files.append((write(run.folder, scratch), "figures"))
        yield files


@contextmanager
def pull_records(storage: Storage, config: RunConfig) -> Iterator[Path]:
    """Yield a temporary copy of the records that another machine is writing, in a folder named as the run's.

    The mirror is left alone: a server on this machine may be writing into it.

    Raises:
        RunError: The URI cannot be read.
    """
    folder = build_folder_path(storage.root, config).name
    with create_scratch_folder() as scratch:
        copy = scratch / folder
        copy.mkdir()
        replace(storage, root=scratch).pull(folder, only=RECORD_PREFIXES)
        yield copy


def read_status(folder: Path) -> Status | None:
    """Read how the run in a folder has ended; None if it is under way, interrupted, or not started."""
    with suppress(FileNotFoundError, DamagedFile):  # The next launch says what is wrong.
        if load_manifest(folder).is_finished and (folder / SCORES).exists():
            return "FINISHED"  # The scores are written last.
    return "FAILED" if (folder / FAILED).exists() else None


def read_start_ms(folder: Path) -> int | None:
    """Read the Unix time in milliseconds at which a run's folder was made, None if there is no folder."""
    with suppress(FileNotFoundError):
        return int((folder / CONFIG).stat().st_mtime * 1000)
    return None
