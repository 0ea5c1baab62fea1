"""The mark of a finished run, `done.json`: the sizes and checksums of its files, and the check of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrid.engine.runtime.integrity.made_with import MADE_WITH
from fedgrid.engine.runtime.storage.format import (
    DamagedFile,
    UnreadableFile,
    check_run,
    read_errors,
    seal,
    unseal,
)
from fedgrid.record_columns import DONE

if TYPE_CHECKING:
    from fedgrid.engine.federation.configuration.run_config import RunConfig

from fedgrid.engine.runtime.integrity.files import checksum, read_checksums

CONFIG = "config.json"
ROUNDS, CLIENTS, TIMES = "rounds.parquet", "clients.parquet", "timings.parquet"
LISTED = (CONFIG, MADE_WITH, ROUNDS, CLIENTS)
"""Files that it lists, if they are there: those with the same bytes whenever the run is repeated. The last
state is another."""
TIMES_CHECKSUM = "timings.sha256"
"""The checksum of a finished run's times, in the format of sha256sum. It is no part of the mark, which
has the same bytes whenever the run is repeated."""

OF_ROUNDS = (ROUNDS, CLIENTS, TIMES, TIMES_CHECKSUM, MADE_WITH)
"""Files that a run which starts over writes anew."""
BYTES, SHA256 = "bytes", "sha256"
TENSORS = re.compile(r"state-(\d+|client-\d+-\d+)\.safetensors")
"""Files of a state, which its checksums may name."""

Listed = Mapping[str, Mapping[str, Any]]
"""File -> its `SHA256`, and its `BYTES`, which the checksum of the times does not say."""


def state_names(rounds: int) -> tuple[str, str]:
    """Return the files of the state after a round without clients' memories: its tensors, and checksums."""
    return f"state-{rounds:06d}.safetensors", f"state-{rounds:06d}.sha256"


def last_round(folder: Path, config: RunConfig) -> int:
    """Return the last round of a run: of one that has stopped early, what its mark says."""
    rounds = config.training.rounds
    if config.training.stop_after is None:
        return rounds
    try:
        marked = unseal(folder / DONE).get("rounds")
    except (FileNotFoundError, DamagedFile, UnreadableFile):
        return rounds
    return marked if isinstance(marked, int) and 0 < marked < rounds else rounds


def mark_of(folder: Path, config: RunConfig, rounds: int) -> str:
    """Return the text of the mark of a run with so many rounds whose files lie in `folder`."""
    *_, state = state_names(rounds)
    names = [name for name in (*LISTED, state) if (folder / name).exists()]
    sums = {name: checksum(folder / name) for name in names}
    if state in sums:
        sums |= read_checksums(folder / state)
    files = {name: {BYTES: (folder / name).stat().st_size, SHA256: digest} for name, digest in sums.items()}
    return seal({"run_id": config.run_id, "rounds": rounds, "files": files}, indent=2)


def times_mark_of(folder: Path) -> str:
    """Return the text of the checksum of the times in `folder`."""
    return f"{checksum(folder / TIMES)}  {TIMES}\n"


def listed_files(folder: Path, config: RunConfig) -> Listed:
    """Return what the mark lists, and the times.

    Raises:
        FileNotFoundError: there is no mark.
        NewerFormat: a newer fedgrid wrote it.
        DamagedFile: it is not this run's mark as it was written.
    """
    mark = unseal(folder / DONE)
    check_run(folder / DONE, mark.get("run_id"), config.run_id)
    listed, rounds = mark.get("files"), last_round(folder, config)
    named = {"run_id": config.run_id, "rounds": rounds, "files": listed}
    *_, state = state_names(rounds)
    # A bundle's mark is read here before it is believed, and names are joined to paths.
    if (
        mark != named
        or not isinstance(listed, dict)
        or not all(name in (*LISTED, state) or TENSORS.fullmatch(name) for name in listed)
        or not all(map(_is_entry, listed.values()))
    ):
        raise DamagedFile(folder / DONE, "it does not list the files of this run")
    return {**listed, **_of_times(folder)}


def check(path: Path, listed: Listed) -> None:
    """Check a file, if the mark lists it; first its size, for which nothing is read.

    Raises:
        DamagedFile: it is missing, cannot be read, or has other bytes.
    """
    entry = listed.get(path.name)
    if entry is None:
        return
    try:
        _check_size(path, entry)
        same = checksum(path) == entry[SHA256]
    except FileNotFoundError as error:
        raise DamagedFile(path, "it is missing") from error
    if not same:
        raise DamagedFile(path, "its bytes differ from those of the finished run")


def damage(folder: Path, config: RunConfig, *, everything: bool) -> str | None:
    """Return in one line what is wrong with a finished run's files, None if nothing is.

    Unless `everything` must be there, those files are checked that are. A state may be missing, which only
    further work on its models needs, and of its tensors, which are large, only the sizes are compared: who
    reads them compares their checksums.

    Raises:
        NewerFormat: a newer fedgrid wrote them.
    """
    try:
        listed = listed_files(folder, config)
        for name, entry in listed.items():
            path, is_state = folder / name, name.startswith("state-")
            if (is_state or not everything) and not path.exists():
                continue
            if is_state and path.suffix == ".safetensors":
                _check_size(path, entry)
            else:
                check(path, listed)
    except (DamagedFile, UnreadableFile) as error:
        return str(error)
    return None


def _is_entry(value: object) -> bool:
    return isinstance(value, dict) and set(value) == {BYTES, SHA256} and isinstance(value[BYTES], int)


def _check_size(path: Path, entry: Mapping[str, Any]) -> None:
    with read_errors(path):
        size = path.stat().st_size
    if size != entry.get(BYTES, size):
        raise DamagedFile(path, f"it has {size:,} bytes, not {entry[BYTES]:,}")


def _of_times(folder: Path) -> Listed:
    path = folder / TIMES_CHECKSUM
    try:
        listed = read_checksums(path)
    except FileNotFoundError:
        if (folder / TIMES).exists():
            raise DamagedFile(path, "it is missing") from None
        return {}
    if list(listed) != [TIMES]:
        raise DamagedFile(path, f"it does not name {TIMES}")
    return {name: {SHA256: digest} for name, digest in listed.items()}
