"""How a run ended, read from its folder."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.integrity.files import DONE, LISTED, TIMES, TIMES_CHECKSUM
from fedgrid.engine.runtime.integrity.made_with import MADE_WITH, parts_of
from fedgrid.engine.runtime.run.run_folder import RunFolder, folder_of
from fedgrid.engine.runtime.storage.format import DamagedFile, UnreadableFile, unseal
from fedgrid.engine.runtime.storage.remembered import Checked, Stat
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.times import Times, times_of

FINISHED, FAILED, DAMAGED, WAITING = "finished", "failed", "damaged", "not started"
SCORES = "scores.json"
"""The final scores of a run, in its folder. Written last; faster to read than the records."""
RUN_ID = "run_id"
"""Key of the run that they are of."""
LARGEST_COUNT = 1 << 53
"""Of what a score counts: a float holds it."""
FILES = (DONE, SCORES, TIMES, TIMES_CHECKSUM, *LISTED)
"""Files of a finished run whose bytes are checked, the mark first."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    config: RunConfig
    folder: Path
    scores: Mapping[str, Any] | None
    """Of a finished run: those of `tracking.scoring.scores.of_run`."""
    times: Times
    error: str | None = None


def is_finished(storage: Storage, config: RunConfig) -> bool:
    """Return whether a run has all of its rounds, and its final scores, which are written last.

    A run with a damaged file is not finished: the next launch sets that aside, and runs it again.

    Raises:
        NewerFormat: a newer fedgrid wrote it.
    """
    return state_of(storage, config)[0]


def state_of(storage: Storage, config: RunConfig) -> tuple[bool, str | None]:
    """Return whether a run `is_finished`, and its `damage`.

    Raises:
        NewerFormat: a newer fedgrid wrote it.
    """
    folder = folder_of(storage.root, config)
    there = _files(folder)
    has_mark, has_scores, *_ = there
    if not has_mark:
        return False, None
    why = _damage(storage, config, folder, there)
    return why is None and bool(has_scores), why


def state(storage: Storage, config: RunConfig) -> tuple[str, str]:
    """Return `finished`, `failed`, `damaged`, `7 of 15 rounds` or `not started`, and the cause, if any.

    Raises:
        NewerFormat: a newer fedgrid wrote it.
    """
    is_done, why = state_of(storage, config)
    if is_done:
        return FINISHED, ""
    folder = RunFolder(storage, config)
    if failure := folder.failure():
        return FAILED, failure.cause
    if why:
        return DAMAGED, why
    rounds = folder.rounds_done
    return f"{rounds} of {config.training.rounds} rounds" if rounds else WAITING, ""


def damage(storage: Storage, config: RunConfig) -> str | None:
    """Return in one line what is wrong with the files of a run that says it is finished.

    None if nothing is, or if it does not say so. Files that have not changed since are not read again.

    Raises:
        NewerFormat: a newer fedgrid wrote it.
    """
    return state_of(storage, config)[1]


def read_scores(folder: Path, run_id: str) -> dict[str, Any]:
    """Return the final scores of a run.

    Raises:
        FileNotFoundError: there are none.
        DamagedFile: they are not what was written, those of another run, or no numbers.
        NewerFormat: a newer fedgrid wrote them.
    """
    scores = unseal(folder / SCORES)
    if (of := scores.pop(RUN_ID, None)) != run_id:
        raise DamagedFile(folder / SCORES, f"it is of run {of}")
    wrong = [name for name, value in scores.items() if not _is_number(value)]
    if wrong:
        raise DamagedFile(folder / SCORES, f"its {wrong[0]} is no number")
    return scores


def _is_number(value: object) -> bool:
    """Return whether a value can be a score; None says that a run has none of that name."""
    return (
        value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) < LARGEST_COUNT)
    )


@contextmanager
def trusting_times(storage: Storage) -> Iterator[None]:
    """Within the block, take a run for undamaged if an earlier command found it so and no file has changed.

    A change is seen by sizes, times and inodes. Bits that a disk has lost change none of them: commands that
    read a run's records do without this block.
    """
    checked = Checked(storage.root)
    _TRUSTED[storage.root] = checked
    try:
        yield
    finally:
        del _TRUSTED[storage.root]
        checked.save()


def _damage(storage: Storage, config: RunConfig, folder: Path, there: tuple[Stat, ...]) -> str | None:
    seen, why = _CHECKED.get(folder, (None, None))
    if seen == there:
        return why
    trusted = _TRUSTED.get(storage.root)
    if trusted is not None and trusted.has(folder.name, there):
        return None
    why = _damaged_scores(folder, config.run_id) or RunFolder(storage, config).damage()
    times = Times()
    if why is None:
        try:
            times, _ = times_of(folder), parts_of(folder / MADE_WITH)
        except (DamagedFile, UnreadableFile) as error:  # With the right checksum: somebody else wrote it.
            why = str(error)
    _CHECKED[folder] = there, why
    if trusted is not None and why is None:
        trusted.add(folder.name, there)
        trusted.note(folder.name, there, astuple(times))
    return why


_CHECKED: dict[Path, tuple[tuple[Stat, ...], str | None]] = {}
"""Folder -> its files when they were checked, and what was wrong with them."""
_TRUSTED: dict[Path, Checked] = {}
"""Root of a storage -> what earlier commands found, while that is trusted."""


def _damaged_scores(folder: Path, run_id: str) -> str | None:
    try:
        read_scores(folder, run_id)
    except FileNotFoundError:
        return None
    except (DamagedFile, UnreadableFile) as error:
        return str(error)
    return None


def _files(folder: Path) -> tuple[Stat, ...]:
    return tuple([_signature(f"{folder}/{name}") for name in FILES])


def _times(root: Path, folder: Path) -> Times:
    """Return the sums over a run's times, which an earlier command may have read."""
    trusted = _TRUSTED.get(root)
    if trusted is None:
        return times_of(folder)
    there = _files(folder)
    if known := trusted.numbers(folder.name, there):
        return Times(*known)
    times = times_of(folder)
    trusted.note(folder.name, there, astuple(times))
    return times


def _signature(path: str) -> Stat:
    """Return numbers that change with a file."""
    try:
        about = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino


def unfinished(
    runs: Iterable[RunConfig], storage: Storage, until: Mapping[str, int] = MappingProxyType({})
) -> list[RunConfig]:
    """Return the runs that are not finished, nor have reached the round that `until` (as in `Grid`) names."""
    return [
        run
        for run in runs
        if not is_finished(storage, run)
        and (run.run_id not in until or RunFolder(storage, run).rounds_done < until[run.run_id])
    ]


def finished(root: Path, config: RunConfig, scores: Mapping[str, Any] | None = None) -> Outcome:
    """Return the outcome of a run that `is_finished`; without `scores`, they are read from its folder.

    Raises:
        DamagedFile: its files have been damaged since.
    """
    folder = folder_of(root, config)
    if scores is None:
        scores = read_scores(folder, config.run_id)
    return Outcome(config, folder, scores, _times(root, folder))


def failed(root: Path, config: RunConfig, cause: str) -> Outcome:
    """Return the outcome of a run that failed after all retries."""
    folder = folder_of(root, config)
    try:
        times = times_of(folder)
    except (DamagedFile, UnreadableFile) as error:
        times, cause = Times(), f"{cause}; {error}"
    return Outcome(config, folder, None, times, cause)
