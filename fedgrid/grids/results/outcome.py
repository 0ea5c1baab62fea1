"""Whether a run is finished, failed, damaged or still to be computed, read from its folder."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from fedgrid.algorithms.registry import find_paper_row
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.integrity.made_with import load_parts
from fedgrid.engine.runtime.run.run_folder import RunFolder, build_folder_path
from fedgrid.engine.runtime.storage.atomic import disk_errors, set_aside
from fedgrid.engine.runtime.storage.format import DamagedFile, UnreadableFile, check_run, unseal_file
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.checked_runs import CheckedRuns, Stat
from fedgrid.grids.results.times import Times, read_times
from fedgrid.manifest import CONFIG, MANIFEST, TIMES
from fedgrid.sealed_json import seal_values
from fedgrid.tracking.scoring.run import DAMAGED, FAILED, FINISHED
from fedgrid.tracking.scoring.scores import SCORING_VERSION, score_run

WAITING = "not started"
SCORES = "scores.json"
"""The final scores of a run, in its folder. Written last; faster to read than the records."""
RUN_ID, SCORING = "run_id", "scoring"
"""Keys of the run's id, and of the version of the scoring; without that key it is the first version."""
LARGEST_COUNT = 1 << 53
"""Largest count that a score can be: above it a float does not hold every whole number."""


class RunStatus(NamedTuple):
    """Whether a run is finished, what is damaged, and its times."""

    is_finished: bool
    damage: str | None
    """What is damaged in a run that its manifest calls finished, in one line; None if nothing is."""
    times: Times
    """Sums over the rounds of an undamaged run; all zero for others."""


def is_finished(storage: Storage, config: RunConfig) -> bool:
    """Check whether a run has all of its rounds, and its final scores, which are written last.

    A run with a damaged file is not finished: the next launch sets that aside, and runs it again.

    Raises:
        OtherVersion: another fedgrid wrote it.
    """
    return inspect_run(storage, config).is_finished


def inspect_run(storage: Storage, config: RunConfig) -> RunStatus:
    """Inspect the files of a run. Files that have not changed since the last time are not read again.

    Raises:
        OtherVersion: another fedgrid wrote it.
    """
    folder = build_folder_path(storage.root, config)
    try:
        manifest = RunFolder(storage, config).load_manifest()
    except (DamagedFile, UnreadableFile) as error:
        return RunStatus(False, str(error), Times())
    if manifest is None or not manifest.is_finished:
        return RunStatus(False, None, Times())
    # The signatures are taken before the files are read: a write in between shows as a change next time.
    names = (SCORES, MANIFEST, *manifest.files)
    stats = tuple([_read_stat(f"{folder}/{name}") for name in names])
    has_scores, *_ = stats
    damage_cause, times = _check_files(storage, config, folder, stats)
    return RunStatus(damage_cause is None and bool(has_scores), damage_cause, times)


def read_state(storage: Storage, config: RunConfig) -> tuple[str, str, Times]:
    """Read a run's state, the cause of a failure or damage, and its times.

    The state is `finished`, `failed`, `damaged`, `not started` or as in `7 of 15 rounds`.

    Raises:
        OtherVersion: another fedgrid wrote it.
    """
    now = inspect_run(storage, config)
    if now.is_finished:
        return FINISHED, "", now.times
    folder = RunFolder(storage, config)
    # A recorded failure comes before damage: its cause explains files that lack rounds.
    if failure := folder.read_failure():
        return FAILED, failure.cause, Times()
    if now.damage:
        return DAMAGED, now.damage, Times()
    rounds = folder.rounds_done
    return f"{rounds} of {config.training.rounds} rounds" if rounds else WAITING, "", Times()


def find_damage(storage: Storage, config: RunConfig) -> str | None:
    """Find what is damaged in a run that its manifest calls finished, in one line; None if nothing is.

    It is None too for a run that is not called finished.

    Raises:
        OtherVersion: another fedgrid wrote it.
    """
    return inspect_run(storage, config).damage


def read_scores(folder: Path, run_id: str) -> dict[str, Any]:
    """Read the final scores of a run; those of another version of the scoring are computed again.

    Raises:
        FileNotFoundError: there are none.
        DamagedFile: they are not what was written, those of another run, or no numbers.
        OtherVersion: another fedgrid wrote them.
        RecordsError: they are to be computed again, and there are no records.
    """
    # Records stay as they are when a score changes, so that old runs need no new training.
    version, scores = _stored_scores(folder, run_id)
    if version == SCORING_VERSION:
        return scores
    algorithm = json.loads((folder / CONFIG).read_bytes())["algorithm"]["name"]
    return score_run(folder, find_paper_row(algorithm))


def _stored_scores(folder: Path, run_id: str) -> tuple[int, dict[str, Any]]:
    """Read the stored scores of a run and their version of the scoring; raises as `read_scores`."""
    scores = unseal_file(folder / SCORES)
    check_run(folder / SCORES, scores.pop(RUN_ID, None), run_id)
    wrong = [name for name, value in scores.items() if not _is_number(value)]
    if wrong:
        raise DamagedFile(folder / SCORES, f"its {wrong[0]} is no number")
    return scores.pop(SCORING, 1), scores


def write_scores(config: RunConfig, storage: Storage) -> None:
    """Write the final scores of a run that has all its records.

    Raises:
        RecordsError: if it has none.
        RunError: if the files cannot be sent to the storage.
    """
    folder = build_folder_path(storage.root, config)
    with disk_errors(folder):
        scores = score_run(folder, find_paper_row(config.algorithm.name))
        # The storage refuses to replace a file by another content, so a damaged one is moved away first.
        if find_damage(storage, config):
            set_aside(folder, [SCORES])
        about = {RUN_ID: config.run_id, **({SCORING: SCORING_VERSION} if SCORING_VERSION > 1 else {})}
        storage.put({f"{folder.name}/{SCORES}": seal_values({**about, **scores}, indent=2).encode()})


def _is_number(value: object) -> bool:
    """Check whether a value can be a score; None stands for a score that the run lacks."""
    return (
        value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) < LARGEST_COUNT)
    )


@contextmanager
def trust_times(storage: Storage) -> Iterator[None]:
    """Within the block, trust earlier checks of a run's files if sizes, times and inodes are the same.

    Bits that a disk has lost change none of them: commands that read a run's records do without this block.
    """
    checked = CheckedRuns(storage.root)
    _TRUSTED_RUNS[storage.root] = checked
    try:
        yield
    finally:
        del _TRUSTED_RUNS[storage.root]
        checked.save()


def _check_files(
    storage: Storage, config: RunConfig, folder: Path, stats: tuple[Stat, ...]
) -> tuple[str | None, Times]:
    """Check a run's files for damage and read its times, unless the files are as at an earlier check."""
    seen = _CHECKED_RUNS.get(folder)
    if seen is not None and seen[0] == stats:
        return seen[1:]
    trusted = _TRUSTED_RUNS.get(storage.root)
    if trusted is not None and (numbers := trusted.read_numbers(folder.name, stats)):
        return None, Times(*numbers)
    damage_cause = _damaged_scores(folder, config.run_id) or RunFolder(storage, config).find_damage()
    times = Times()
    if damage_cause is None:
        try:
            # Read for its errors only: reports need this file, so a run without it is damaged.
            load_parts(folder)
            # At a URI the mirror has only what was fetched.
            times = read_times(folder) if not storage.uri or (folder / TIMES).exists() else Times()
        except (DamagedFile, UnreadableFile) as error:  # In a bundle, with the right checksum.
            damage_cause = str(error)
    _CHECKED_RUNS[folder] = stats, damage_cause, times
    if trusted is not None and damage_cause is None:
        trusted.add_run(folder.name, stats)
        trusted.add_numbers(folder.name, stats, astuple(times))
    return damage_cause, times


_CHECKED_RUNS: dict[Path, tuple[tuple[Stat, ...], str | None, Times]] = {}
"""Folder -> signatures of its files when they were checked, their damage, and the run's times."""
_TRUSTED_RUNS: dict[Path, CheckedRuns] = {}
"""Root of a storage -> runs that earlier commands checked, within a block of `trust_times`."""


def _damaged_scores(folder: Path, run_id: str) -> str | None:
    """Describe the damage of a run's scores, None if they are whole or not there."""
    try:
        _stored_scores(folder, run_id)
    except FileNotFoundError:
        return None
    except (DamagedFile, UnreadableFile) as error:
        return str(error)
    return None


def _read_stat(path: str) -> Stat:
    """Read numbers that change with a file: size, times and inode; empty if there is no file."""
    try:
        about = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino


def select_unfinished(
    runs: Iterable[RunConfig], storage: Storage, until: Mapping[str, int] = MappingProxyType({})
) -> list[RunConfig]:
    """Select the runs that are not finished and have not reached the round in `until` (as in `Grid`)."""
    return [
        run
        for run in runs
        if not is_finished(storage, run)
        and (run.run_id not in until or RunFolder(storage, run).rounds_done < until[run.run_id])
    ]
