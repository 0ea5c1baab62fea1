"""The manifest of a run: how far the run is, and the size and the checksum of each of its files.

A run's folder is read by its `manifest.json` alone; a file that the manifest does not list does not count.
Files are written first and never changed, and the manifest is replaced last. So at whatever instant a process
is killed, the manifest and the files that it lists are those of one round. `manifest-before.json` is the
previous manifest, whose records and last state are still there, in case the disk damages the newer one.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeAlias

import pyarrow as pa

from fedgrid.parquet_files import BadTable, parse_run_id, read_parquet
from fedgrid.sealed_json import BadFile, OtherLayout, seal_values, unseal_text

MANIFEST, PREVIOUS_MANIFEST = "manifest.json", "manifest-before.json"
"""Names of the current manifest and of the previous one."""
CONFIG = "config.json"
"""Name of the file with the run's configuration."""
ROUNDS, CLIENTS, TIMES = "rounds.parquet", "clients.parquet", "timings.parquet"
"""Names of the records of a finished run."""
SEGMENT = re.compile(r"(rounds|clients|timings)-(\d{6,})-(\d{6,})-[0-9a-f]{8}\.parquet")
"""Names of records of a run that is not finished: table, first round, last round, and part of the
checksum."""
STATE = re.compile(r"state-.+\.safetensors")
"""Names of the files of a state: tensors of models and arrays, or memories of clients."""
BYTES, SHA256 = "bytes", "sha256"
"""Keys of a file's entry."""
FROM_ROUND, CODE = "from_round", "code"
"""Keys of a part of a run."""
FORMER_PATTERNS = ("done.json", "state-*.sha256")
"""Patterns of files that mark the rounds of a run in a storage of the first layout."""


class BadRun(BadFile):
    """A file of a run is missing, or its bytes are not those that were written."""

    def __init__(self, path: Path, why: str) -> None:
        """Take the path of the file, and what is wrong with it."""
        super().__init__(why)
        self.path = path


@dataclass(frozen=True)
class FileEntry:
    """Size and checksum of a file, as the manifest lists them."""

    size: int
    """Size in bytes."""
    sha256: str
    """Checksum of the bytes, in hexadecimal digits."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Build the entry of a file with these bytes."""
        return cls(len(data), sha256(data).hexdigest())

    @classmethod
    def from_path(cls, path: Path) -> Self:
        """Build the entry of a file as it is now; reads it once."""
        with path.open("rb") as file:
            return cls(path.stat().st_size, file_digest(file, "sha256").hexdigest())


@dataclass(frozen=True)
class ProvenancePart:
    """Rounds of a run that were computed by the same code, versions and machine model."""

    from_round: int
    """First of the rounds, counted from 1."""
    made_with: Mapping[str, str]
    """Name -> digest, version or model (`integrity.made_with`); `code` is always there."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read the part from its entry in a manifest.

        Raises:
            KeyError, TypeError, ValueError: the entry is damaged.
        """
        start = values[FROM_ROUND]
        made_with = {name: value for name, value in values.items() if name != FROM_ROUND}
        # `type` and not `isinstance`: true would count as round 1.
        is_round = type(start) is int and start >= 1
        if not is_round or CODE not in made_with or {type(value) for value in made_with.values()} != {str}:
            raise ValueError("no part")
        return cls(start, made_with)

    def to_json(self) -> dict[str, Any]:
        """Convert the part to its entry in a manifest."""
        return {FROM_ROUND: self.from_round, **self.made_with}


Parts: TypeAlias = tuple[ProvenancePart, ...]


@dataclass(frozen=True)
class Manifest:
    """Content of a run's manifest."""

    run_id: str
    """Id of the run."""
    rounds: int
    """Number of rounds of the run's configuration."""
    rounds_done: int = 0
    """Number of rounds whose records and state are listed."""
    is_finished: bool = False
    """Whether the run is finished."""
    made_with: Parts = ()
    """Parts of the run, by code and versions, in the order of their rounds."""
    states: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """Round -> the files of the state after it: its tensors, then memories of clients."""
    files: Mapping[str, FileEntry] = field(default_factory=dict)
    """Name -> entry of every file of the run, but the log, scores, results of analyses, and notes of other
    programs."""

    def list_segments(self, table: str) -> list[str]:
        """List the files with the records of a table, in the order of their rounds."""
        # A finished run has one file for each table, next to which no segments are listed.
        if (whole := f"{table}.parquet") in self.files:
            return [whole]
        segments = filter(None, map(SEGMENT.fullmatch, self.files))
        return sorted(segment[0] for segment in segments if segment[1] == table)

    def list_needed_files(self) -> set[str]:
        """List the files without which a run cannot go on from this manifest: all but older states."""
        # A memory of a client may be in several states: it is needed if the last one has it.
        numbers = sorted(self.states)
        older = {name for number in numbers[:-1] for name in self.states[number]}
        return set(self.files) - older.difference(*(self.states[number] for number in numbers[-1:]))

    def to_text(self) -> str:
        """Format the content of the file, sealed by a checksum of its own."""
        # Sorted, so that equal manifests have equal bytes.
        return seal_values(
            {
                "run_id": self.run_id,
                "rounds": self.rounds,
                "rounds_done": self.rounds_done,
                "finished": self.is_finished,
                "made_with": [part.to_json() for part in self.made_with],
                "states": {str(number): list(self.states[number]) for number in sorted(self.states)},
                "files": {
                    name: {BYTES: self.files[name].size, SHA256: self.files[name].sha256}
                    for name in sorted(self.files)
                },
            },
            indent=1,
        )

    @classmethod
    def from_text(cls, text: str | bytes) -> Self:
        """Read a manifest from the content of its file.

        Raises:
            BadFile: it is not what was written.
        """
        values = unseal_text(text)
        try:
            return cls(
                values["run_id"],
                values["rounds"],
                values["rounds_done"],
                values["finished"],
                tuple(map(ProvenancePart.from_json, values["made_with"])),
                {int(number): names for number, names in values["states"].items()},
                {name: FileEntry(entry[BYTES], entry[SHA256]) for name, entry in values["files"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadFile("it is no manifest") from error

    def with_files(self, files: Mapping[str, FileEntry], **changes: Any) -> Self:
        """Copy the manifest with further files, and with these fields changed."""
        return replace(self, files={**self.files, **files}, **changes)


def is_round_file(name: str) -> bool:
    """Check whether a file of this name in a run's folder is one of its records and states."""
    return bool(name in (ROUNDS, CLIENTS, TIMES) or SEGMENT.fullmatch(name) or STATE.fullmatch(name))


def read_manifest(folder: Path, name: str = MANIFEST) -> Manifest:
    """Read the manifest of the run in a folder, or with its `name` the previous one.

    Raises:
        FileNotFoundError: there is none, and nothing that a run has written.
        OSError: the disk does not give it.
        OtherLayout: the run is of a storage with another layout.
        BadRun: it is not what was written, is another run's, or is missing although the folder has files of a
            run.
    """
    path = folder / name
    try:
        manifest = Manifest.from_text(path.read_bytes())
    except FileNotFoundError:
        if name == MANIFEST:
            _check_empty(folder)
        raise
    except OSError as error:
        # Errors without a number are not the disk's.
        if error.errno is None:
            raise BadRun(path, str(error)) from error
        error.filename = str(path)
        raise
    except OtherLayout:
        raise
    except BadFile as error:
        raise BadRun(path, str(error)) from error
    if manifest.run_id != parse_run_id(folder):
        raise BadRun(path, f"it is of run {manifest.run_id}, not {parse_run_id(folder)}")
    return manifest


def _check_empty(folder: Path) -> None:
    """Check that a folder without a manifest has no rounds of a run.

    Raises:
        OtherLayout, BadRun: it has.
    """
    # In this order: a run of the first layout has tables, too.
    if any(next(folder.glob(pattern), None) for pattern in FORMER_PATTERNS):
        raise OtherLayout("layout 1")
    if any(
        next(folder.glob(pattern), None)
        for pattern in ("*.parquet", "state-*.safetensors", PREVIOUS_MANIFEST)
    ):
        raise BadRun(folder / MANIFEST, "it is missing")


def open_listed(folder: Path, manifest: Manifest, name: str) -> BinaryIO:
    """Open a file of a run, after a check that its bytes are those that the manifest lists.

    Raises:
        OSError: the disk does not give it.
        BadRun: it is missing, or has other bytes.
    """
    path = folder / name
    entry = manifest.files.get(name)
    if entry is None:
        raise BadRun(path, f"{MANIFEST} does not list it")
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise BadRun(path, "it is missing") from error
    except OSError as error:
        error.filename = str(path)
        raise
    try:
        # The size first: most damage shows without reading the whole file.
        check_size(path, entry)
        if file_digest(file, "sha256").hexdigest() != entry.sha256:
            raise BadRun(path, "its bytes differ from those that were written")
        file.seek(0)
    # The caller gets no handle to close.
    except BaseException:
        file.close()
        raise
    return file


def check_size(path: Path, entry: FileEntry) -> None:
    """Check the size of a file against its entry, which costs no reading.

    Raises:
        BadRun: it is missing, or has another size.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise BadRun(path, "it is missing") from error
    if size != entry.size:
        raise BadRun(path, f"it has {size:,} bytes, not {entry.size:,}")


def read_segment(
    folder: Path, manifest: Manifest, name: str, choose: Callable[[pa.Schema], Sequence[str]]
) -> pa.Table:
    """Read columns of a file of records, after a check of its bytes.

    Args:
        folder: folder of the run.
        manifest: its manifest.
        name: name of the file.
        choose: function from the file's schema to the columns to read.

    Raises:
        OSError, BadRun: as `open_listed`; or it is no table, though it has the bytes that were written.
    """
    with open_listed(folder, manifest, name) as file:
        try:
            return read_parquet(file, choose)
        except BadTable as error:
            raise BadRun(folder / name, str(error)) from error
        except OSError as error:
            error.filename = str(folder / name)
            raise


def read_segments(folder: Path, table: str, read: Callable[[Manifest, str], pa.Table]) -> pa.Table | None:
    """Read all records of a table of a run; None without any.

    If a driver writes the next round meanwhile, all are read once more.

    Args:
        folder: folder of the run.
        table: name of the table, such as `rounds`.
        read: function that reads the rows of a file that the manifest lists.

    Raises:
        FileNotFoundError, OSError, OtherLayout, BadRun: as `read_manifest` and `read`.
    """
    while True:
        manifest = read_manifest(folder)
        try:
            tables = [read(manifest, name) for name in manifest.list_segments(table)]
            return pa.concat_tables(tables) if tables else None
        except BadRun:
            # A newer manifest replaces segments by longer ones, so a file may have gone while it was read.
            # Damage stays.
            if read_manifest(folder) == manifest:
                raise
