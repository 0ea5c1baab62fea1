"""The files of the round cache: what one run has computed of a round, for every other run that reaches it.

A folder `cache/` beside the runs has a folder per `RunConfig.shared_prefix`, with one file an entry,
named `<round>-<key>-<name>.safetensors`. The key is a digest of the round's inputs, the name says which
result it is. Files may go at any time: one that is missing, damaged or not written changes no number.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from shutil import disk_usage

from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.runtime.round_cache.entry import CacheEntry, StorageSpeed, cost_of, decode, encode
from fedgrid.engine.runtime.round_cache.lock import RoundLock
from fedgrid.engine.runtime.storage.atomic import PARTIAL, disk_errors, is_full
from fedgrid.engine.runtime.storage.clock import Patience
from fedgrid.engine.runtime.storage.sealed_arrays import Damaged
from fedgrid.engine.runtime.storage.storage import Storage

FOLDER = "cache"
ENTRY = ".safetensors"
NAME = re.compile(rf"{FOLDER}/[^/]+/\d+-[^/-]+-[^/]+{re.escape(ENTRY)}")
STATES = ("mean-", "memory-", "update")
"""Entries as large as a model, which only later runs need; the others are statistics."""
EVICTION_SLACK = 0.1
"""Share of the limit that an eviction frees beyond need: finding the cheapest entries reads them all."""
WRITERS = 32
"""Processes that may write at once within the limit: each lists the cache after its share."""
HEADROOM, HEADROOM_SHARE = 1 << 30, 0.05
"""Bytes, and share of a smaller disk, that stay free for the records and states of runs."""
_SHARES: dict[tuple[str, int], int] = {}
"""Storage and limit -> bytes that this process may write before it lists the cache."""


@dataclass(frozen=True)
class StoredFile:
    """A file of the round cache."""

    file: str
    """Relative to the storage's root, with slashes."""
    size: int
    """Bytes."""

    @property
    def shared_prefix(self) -> str:
        """The name of its folder."""
        return self.file.split("/")[1]

    @property
    def round(self) -> int:
        """Its round, counted from 1."""
        return int(self._parts[0])

    @property
    def key(self) -> str:
        """The digest of its round's inputs."""
        return self._parts[1]

    @property
    def is_state(self) -> bool:
        """Whether it is as large as a model; else it is a statistic."""
        return self._parts[2].startswith(STATES)

    @property
    def _parts(self) -> list[str]:
        return self.file.rsplit("/", 1)[1].split("-", 2)


@dataclass(frozen=True)
class CacheOptions:
    """How a storage's round cache is used."""

    limit: int | None = None
    """Bytes that it may take; beyond that the entries that are cheapest to recompute are evicted."""
    takes_rounds: bool = True
    """Whether a run starts with the rounds of a finished one that has fewer (`run.shorter`)."""
    speed: StorageSpeed = StorageSpeed()
    """Of the storage. What is recomputed faster than it is written and read is no entry: not the 85 MB of a
    ResNet-34 that one client trains in half a second on a GPU, but the mean over thirty such clients."""


class CacheFiles:
    """What one run reads and writes of the round cache; problems become `warnings`."""

    def __init__(self, storage: Storage, shared_prefix: str, run_id: str, options: CacheOptions) -> None:
        self.run_id = run_id
        self.warnings: list[str] = []
        self._complained = False
        # A lookup that fails costs one round; waiting for it would cost more.
        self._storage = replace(storage, patience=Patience())
        self._shared_prefix = f"{FOLDER}/{shared_prefix}"
        self.options = options

    @property
    def is_far(self) -> bool:
        """Whether each lookup is a round trip over the network."""
        return self._storage.uri is not None

    def read(self, name: str) -> CacheEntry | None:
        """Return the entry of a name, None on a miss."""
        file = self._file(name)
        path = self._storage.root / file
        try:
            data = self._storage.read(file)
            return None if data is None else decode(data, name)
        except Damaged:
            self.warnings.append(f"{path} is damaged: its round is computed again")
            with suppress(FedgridError):
                drop(self._storage, [StoredFile(file, 0)])
        except (OSError, FedgridError) as error:
            self._complain(f"{path} cannot be read ({error}): its round is computed again")
        return None

    def write(self, name: str, entry: CacheEntry) -> None:
        """Write an entry, if there is room, and unless recomputing it is cheaper than a write and a read."""
        if not self._is_worthwhile(entry):
            return
        file = self._file(name)
        path = self._storage.root / file
        temporary = path.with_name(f"{path.name}{PARTIAL}{token_hex(4)}")
        data = encode(entry, name)
        try:
            if not self._has_room(len(data)):
                return
            try:
                _put(path, temporary, data)
            except OSError as error:
                # Others have filled the disk meanwhile, or it is a quota, which no look at the disk shows.
                if not (is_full(error) and evict(self._storage, len(data), share=EVICTION_SLACK)):
                    raise
                _put(path, temporary, data)
            self._storage.push(file)
        except (OSError, FedgridError) as error:
            self._complain(f"{path} cannot be written ({error}): other runs will compute it again")
        finally:
            # At a URI the mirror's copy is never read, and would fill the disk of every machine.
            for leftover in (temporary, path) if self._storage.uri else (temporary,):
                with suppress(OSError):
                    leftover.unlink()

    def free_disk(self) -> None:
        """Evict entries until the disk has room for the run itself, whose last attempt may have filled it."""
        try:
            if self.options.limit is None or not self._has_room(0):
                make_room(self._storage, self.options.limit, force=True)
        except (OSError, FedgridError) as error:
            self._complain(f"the round cache cannot be trimmed ({error})")

    def give_way(self) -> bool:
        """Evict as much as the headroom, because a write of the run has failed; return whether there was any.

        The disk may say that it has room: a quota does not show in that.
        """
        try:
            return evict(self._storage, _headroom(self._storage))
        except (OSError, FedgridError) as error:
            self._complain(f"the round cache cannot be trimmed ({error})")
            return False

    def take_warnings(self) -> list[str]:
        """Return the warnings since the last call."""
        taken, self.warnings = self.warnings, []
        return taken

    def lock(self, name: str) -> RoundLock:
        """Return the lock of a round; of a storage at a URI it holds among the runs of this machine."""
        return RoundLock(self._storage.root / self._shared_prefix / f"{name}.lock")

    def _has_room(self, size: int) -> bool:
        """Return whether an entry fits, after making room; lists the cache only if its share is used up."""
        if self.options.limit is None:
            return make_room(self._storage, None, size)[0]
        at = str(self._storage), self.options.limit
        if size <= _SHARES.get(at, -1) and _lacking(self._storage, size) <= 0:
            _SHARES[at] -= size
            return True
        fits, free = make_room(self._storage, self.options.limit, size)
        _SHARES[at] = max(0, free - size) // WRITERS
        return fits

    def _is_worthwhile(self, entry: CacheEntry) -> bool:
        size = sum(array.nbytes for array in entry.arrays.values())
        return entry.cost >= self.options.speed.seconds(size)

    def _complain(self, warning: str) -> None:
        """Warn once a run: such a problem mostly concerns all files."""
        if not self._complained:
            self._complained = True
            self.warnings.append(warning)

    def _file(self, name: str) -> str:
        return f"{self._shared_prefix}/{name}{ENTRY}"


def kept(storage: Storage, shared_prefix: str = "") -> list[StoredFile]:
    """Return the entries of the round cache, or of one shared prefix.

    Raises:
        RunError: if the storage cannot be read.
    """
    folder = f"{FOLDER}/{shared_prefix}".rstrip("/")
    return [StoredFile(file, size) for file, size in storage.sizes(folder).items() if NAME.fullmatch(file)]


def drop(storage: Storage, entries: list[StoredFile]) -> None:
    """Delete entries.

    Raises:
        RunError: if the storage cannot be written.
    """
    with disk_errors(storage.root):
        for entry in entries:
            (storage.root / entry.file).unlink(missing_ok=True)
    storage.remove(*(entry.file for entry in entries))


def make_room(storage: Storage, limit: int | None, size: int = 0, *, force: bool = False) -> tuple[bool, int]:
    """Evict what is cheapest to recompute, by the byte, until `size` more bytes fit.

    They fit below the limit, if there is one, and below the disk's headroom. If they cannot, nothing is
    evicted, unless by `force`: then all is, for other files on the disk.

    Returns:
        Whether they fit, and how many bytes are free below the limit before the new ones.

    Raises:
        OSError, RunError: if the storage cannot be read or written.
    """
    lacking = _lacking(storage, size)
    if limit is None and lacking <= 0:
        return True, 0
    entries = kept(storage)
    total = sum(entry.size for entry in entries)
    excess = lacking
    if limit is not None and total + size > limit:
        excess = max(excess, total + size - limit + int(EVICTION_SLACK * (limit - size)))
    fits = excess <= 0 or ((limit is None or size <= limit) and lacking <= total)
    if excess > 0 and (fits or force):
        total -= _drop_cheapest(storage, entries, excess)
    return fits, (limit or 0) - total


def evict(storage: Storage, size: int, share: float = 0.0) -> bool:
    """Evict `size` bytes and a share of the cache, where a write has failed; return whether anything was.

    A round cache at a URI is not on the disk that is full.

    Raises:
        OSError, RunError: if the storage cannot be read or written.
    """
    if storage.uri:
        return False
    entries = kept(storage)
    _drop_cheapest(storage, entries, size + int(share * sum(entry.size for entry in entries)))
    return entries != []


def _drop_cheapest(storage: Storage, entries: list[StoredFile], excess: int) -> int:
    """Delete as many bytes, or all entries; return their size."""
    going: list[StoredFile] = []
    for entry in sorted(entries, key=lambda entry: cost_of(storage, entry.file) / max(1, entry.size)):
        if excess <= 0:
            break
        going.append(entry)
        excess -= entry.size
    drop(storage, going)
    return sum(entry.size for entry in going)


def _put(path: Path, temporary: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not flushed: the checksum tells what a power cut leaves of it.
    temporary.write_bytes(data)
    temporary.replace(path)


def _lacking(storage: Storage, size: int) -> int:
    """Return how many bytes the disk lacks for `size` more bytes and the headroom; a URI lacks none."""
    if storage.uri or not storage.root.exists():
        return 0
    return size + _headroom(storage) - disk_usage(storage.root).free


def _headroom(storage: Storage) -> int:
    return min(HEADROOM, int(HEADROOM_SHARE * disk_usage(storage.root).total))
