"""`done.json`, the mark of a finished run: it lists the checksums of the run's files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fedgrid.engine.runtime.integrity.files import checksum, read_checksums
from fedgrid.engine.runtime.integrity.made_with import MADE_WITH
from fedgrid.engine.runtime.storage.format import DamagedFile, UnreadableFile, seal, unseal

if TYPE_CHECKING:
    from fedgrid.engine.federation.configuration.run_config import RunConfig

DONE, CONFIG = "done.json", "config.json"
ROUNDS, CLIENTS, TIMES = "rounds.parquet", "clients.parquet", "timings.parquet"
LISTED = (CONFIG, MADE_WITH, ROUNDS, CLIENTS)
"""Files that it lists, if they are there: those with the same bytes whenever the run is repeated."""
TIMES_CHECKSUM = "timings.sha256"
"""The checksum of a finished run's times, in the format of sha256sum. It is no part of the mark, which
has the same bytes whenever the run is repeated."""

OF_ROUNDS = (ROUNDS, CLIENTS, TIMES, TIMES_CHECKSUM, MADE_WITH)
"""Files that a run which starts over writes anew."""


def mark_of(folder: Path, config: RunConfig) -> str:
    """Return the text of the mark of a run whose files lie in `folder`."""
    there = [name for name in LISTED if (folder / name).exists()]
    files = {name: checksum(folder / name) for name in there}
    return seal({"run_id": config.run_id, "rounds": config.training.rounds, "files": files}, indent=2)


def times_mark_of(folder: Path) -> str:
    """Return the text of the checksum of the times in `folder`."""
    return f"{checksum(folder / TIMES)}  {TIMES}\n"


def checksums(folder: Path, config: RunConfig) -> dict[str, str]:
    """Return file -> checksum as the mark has them, and the checksum of the times.

    Raises:
        FileNotFoundError: there is no mark.
        NewerFormat: a newer fedgrid wrote it.
        DamagedFile: it is not this run's mark as it was written.
    """
    found = unseal(folder / DONE)
    listed = found.get("files")
    named = {"run_id": config.run_id, "rounds": config.training.rounds, "files": listed}
    if found != named or not isinstance(listed, dict):
        raise DamagedFile(folder / DONE, "it belongs to another run")
    return listed | _of_times(folder)


def check(path: Path, listed: Mapping[str, str]) -> None:
    """Check a file, if the mark lists it.

    Raises:
        DamagedFile: it is missing, cannot be read, or has other bytes.
    """
    try:
        same = path.name not in listed or checksum(path) == listed[path.name]
    except FileNotFoundError as error:
        raise DamagedFile(path, "it is missing") from error
    if not same:
        raise DamagedFile(path, "its bytes differ from those of the finished run")


def damage(folder: Path, config: RunConfig, *, everything: bool) -> str | None:
    """Return in one line what is wrong with a finished run's files, None if nothing is.

    Args:
        everything: whether all files must be there; else those that are there are checked.

    Raises:
        NewerFormat: a newer fedgrid wrote them.
    """
    try:
        listed = checksums(folder, config)
        for name in listed:
            if everything or (folder / name).exists():
                check(folder / name, listed)
    except (DamagedFile, UnreadableFile) as error:
        return str(error)
    return None


def _of_times(folder: Path) -> dict[str, str]:
    """Return the checksum of the times by their name, nothing where there are none."""
    path = folder / TIMES_CHECKSUM
    try:
        listed = read_checksums(path)
    except FileNotFoundError:
        if (folder / TIMES).exists():
            raise DamagedFile(path, "it is missing") from None
        return {}
    if list(listed) != [TIMES]:
        raise DamagedFile(path, f"it does not name {TIMES}")
    return listed
