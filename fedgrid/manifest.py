"""The manifest of a run: how far the run is, and the size and the checksum of each of its files.

A run's folder is read by its `manifest.json` alone; what the manifest does not list does not count. Files are
written first and never changed, the manifest is replaced last. So at whatever instant a process is killed,
the manifest and the files that it lists are those of one round. `manifest-before.json` is the manifest that
was replaced last, whose records and last state are still there, in case the disk damages the newer one.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeAlias

import pyarrow as pa

from fedgrid.parquet_files import BadTable, read_parquet, run_id_of
from fedgrid.sealed_json import BadFile, OtherLayout, seal, unseal_text

MANIFEST, BEFORE = "manifest.json", "manifest-before.json"
CONFIG = "config.json"
ROUNDS, CLIENTS, TIMES = "rounds.parquet", "clients.parquet", "timings.parquet"
"""The records of a finished run."""
SEGMENT = re.compile(r"(rounds|clients|timings)-(\d{6,})-(\d{6,})-[0-9a-f]{8}\.parquet")
"""Records of a run that is not finished: table, first round, last round, and part of the checksum."""
STATE = re.compile(r"state-.+\.safetensors")
BYTES, SHA256 = "bytes", "sha256"
FROM_ROUND, CODE = "from_round", "code"
FORMER = ("done.json", "state-*.sha256")
"""What marks the rounds of a run in a storage of the first layout."""


class BadRun(BadFile):
    """A file of a run is missing, or is not what was written."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(why)
        self.path = path


@dataclass(frozen=True)
class FileEntry:
    """What the manifest says of a file."""

    size: int
    """Bytes."""
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Return the entry of a file with these bytes."""
        return cls(len(data), sha256(data).hexdigest())

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """Return the entry of a file as it is now."""
        with path.open("rb") as file:
            return cls(path.stat().st_size, file_digest(file, "sha256").hexdigest())


@dataclass(frozen=True)
class Part:
    """Rounds of a run that were made with the same."""

    from_round: int
    """Counted from 1."""
    made_with: Mapping[str, str]
    """Name -> digest, version or model (`integrity.made_with`); `code` is always there."""

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the part that a manifest lists so.

        Raises:
            KeyError, TypeError, ValueError: it is none.
        """
        start = values[FROM_ROUND]
        made_with = {name: value for name, value in values.items() if name != FROM_ROUND}
        is_round = type(start) is int and start >= 1
        if not is_round or CODE not in made_with or {type(value) for value in made_with.values()} != {str}:
            raise ValueError("no part")
        return cls(start, made_with)

    def as_json(self) -> dict[str, Any]:
        """Return the part as a manifest lists it."""
        return {FROM_ROUND: self.from_round, **self.made_with}


Parts: TypeAlias = tuple[Part, ...]


@dataclass(frozen=True)
class Manifest:
    """What a run's manifest says."""

    run_id: str
    rounds: int
    """How many its configuration asks for."""
    rounds_done: int = 0
    is_finished: bool = False
    made_with: Parts = ()
    states: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """Round -> the files of the state after it: its tensors, then memories of clients."""
    files: Mapping[str, FileEntry] = field(default_factory=dict)
    """Every file of the run, but the log, scores, results of analyses, and what other programs note."""

    def segments(self, table: str) -> list[str]:
        """Return the files with the records of a table, in the order of their rounds."""
        if (whole := f"{table}.parquet") in self.files:
            return [whole]
        segments = filter(None, map(SEGMENT.fullmatch, self.files))
        return sorted(segment[0] for segment in segments if segment[1] == table)

    def needed(self) -> set[str]:
        """Return the files without which a run cannot go on from it: all but older states."""
        numbers = sorted(self.states)
        older = {name for number in numbers[:-1] for name in self.states[number]}
        return set(self.files) - older.difference(*(self.states[number] for number in numbers[-1:]))

    def text(self) -> str:
        """Return the content of the file."""
        return seal(
            {
                "run_id": self.run_id,
                "rounds": self.rounds,
                "rounds_done": self.rounds_done,
                "finished": self.is_finished,
                "made_with": [part.as_json() for part in self.made_with],
                "states": {str(number): list(self.states[number]) for number in sorted(self.states)},
                "files": {
                    name: {BYTES: self.files[name].size, SHA256: self.files[name].sha256}
                    for name in sorted(self.files)
                },
            },
            indent=1,
        )

    @classmethod
    def of_text(cls, text: str | bytes) -> Self:
        """Return what a manifest with this content says.

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
                tuple(map(Part.of_json, values["made_with"])),
                {int(number): names for number, names in values["states"].items()},
                {name: FileEntry(entry[BYTES], entry[SHA256]) for name, entry in values["files"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadFile("it is no manifest") from error

    def with_files(self, files: Mapping[str, FileEntry], **changes: Any) -> Self:
        """Return this manifest with further files, and with those fields changed."""
        return replace(self, files={**self.files, **files}, **changes)


def is_of_rounds(name: str) -> bool:
    """Return whether a file of this name in a run's folder is one of its records and states."""
    return bool(name in (ROUNDS, CLIENTS, TIMES) or SEGMENT.fullmatch(name) or STATE.fullmatch(name))


def read_manifest(folder: Path, name: str = MANIFEST) -> Manifest:
    """Return the manifest of the run in a folder, or that of before.

    Raises:
        FileNotFoundError: there is none, and nothing that a run has written.
        OSError: the disk does not give it.
        OtherLayout: the run is of a storage with another layout.
        BadRun: it is not what was written, is another run's, or is missing beside files of a run.
    """
    path = folder / name
    try:
        manifest = Manifest.of_text(path.read_bytes())
    except FileNotFoundError:
        if name == MANIFEST:
            _check_empty(folder)
        raise
    except OSError as error:
        if error.errno is None:
            raise BadRun(path, str(error)) from error
        error.filename = str(path)
        raise
    except OtherLayout:
        raise
    except BadFile as error:
        raise BadRun(path, str(error)) from error
    if manifest.run_id != run_id_of(folder):
        raise BadRun(path, f"it is of run {manifest.run_id}, not {run_id_of(folder)}")
    return manifest


def _check_empty(folder: Path) -> None:
    """Check that a folder without a manifest has no rounds of a run.

    Raises:
        OtherLayout, BadRun: it has.
    """
    if any(next(folder.glob(pattern), None) for pattern in FORMER):
        raise OtherLayout("layout 1")
    if any(next(folder.glob(pattern), None) for pattern in ("*.parquet", "state-*.safetensors", BEFORE)):
        raise BadRun(folder / MANIFEST, "it is missing")


def open_listed(folder: Path, manifest: Manifest, name: str) -> BinaryIO:
    """Open a file of a run, whose bytes are those that the manifest lists.

    Raises:
        OSError: the disk does not give it.
        BadRun: it is missing, or has other bytes.
    """
    path, entry = folder / name, manifest.files.get(name)
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
        check_size(path, entry)
        if file_digest(file, "sha256").hexdigest() != entry.sha256:
            raise BadRun(path, "its bytes differ from those that were written")
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def check_size(path: Path, entry: FileEntry) -> None:
    """Check the size of a file, which costs no reading.

    Raises:
        BadRun: it is missing, or has another one.
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
    """Return the columns of a file of records that `choose` returns, given its schema.

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
    """Return the records of a run, None without any.

    `read` returns the rows of a file that the manifest lists. If the next round is written meanwhile, all are
    read again.

    Raises:
        FileNotFoundError, OSError, OtherLayout, BadRun: as `read_manifest` and `read`.
    """
    while True:
        manifest = read_manifest(folder)
        try:
            tables = [read(manifest, name) for name in manifest.segments(table)]
            return pa.concat_tables(tables) if tables else None
        except BadRun:
            if read_manifest(folder) == manifest:
                raise
