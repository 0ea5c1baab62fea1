"""The files of the round cache: what one run has computed of a round, for every other run that reaches it.

A folder `cache/` next to the runs has a folder per `RunConfig.shared_prefix`, with one file an entry, named
`<round>-<key>-<name>.safetensors` (`storage.sealed_arrays`). The key is a digest of the round's inputs, the
name says which result it is. Files may go at any time: one that is missing, damaged or not written changes no
number.
"""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from shutil import disk_usage

from fedgrid.algorithms.updates.source import Arrays
from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.runtime.round_cache.key import ArrayDigests
from fedgrid.engine.runtime.round_cache.lock import RoundLock
from fedgrid.engine.runtime.storage import sealed_arrays
from fedgrid.engine.runtime.storage.atomic import is_disk_full
from fedgrid.engine.runtime.storage.clock import Patience
from fedgrid.engine.runtime.storage.storage import Storage

FOLDER = "cache"
ENTRY = ".safetensors"
NAME = re.compile(rf"{FOLDER}/[^/]+/\d+-[^/-]+-[^/]+{re.escape(ENTRY)}")
"""Names of entries: folder, round, key and result."""
STATES = ("mean-", "memory-", "update")
"""Starts of the names of entries as large as a model, which only later runs need; the others are
statistics."""
HEADROOM = 1 << 30
"""Bytes that stay free on the disk for the records and states of runs."""
HEADROOM_SHARE = 0.05
"""Share of a smaller disk that stays free in their place."""


@dataclass(frozen=True)
class StoredFile:
    """A file of the round cache."""

    file: str
    """Its name, relative to the storage's root, with slashes."""
    size: int
    """Its bytes."""
    written: int = field(default=0, compare=False)
    """When it was written, in nanoseconds, by the clock of the storage."""

    @property
    def shared_prefix(self) -> str:
        """The name of its folder."""
        return self.file.split("/")[1]

    @property
    def round(self) -> int:
        """Its round, from 1."""
        return int(self._name_parts[0])

    @property
    def key(self) -> str:
        """The digest of its round's inputs."""
        return self._name_parts[1]

    @property
    def is_state(self) -> bool:
        """Whether it is as large as a model; else it is a statistic."""
        return self._name_parts[2].startswith(STATES)

    @property
    def _name_parts(self) -> list[str]:
        """Round, key and result in its name."""
        return self.file.rsplit("/", 1)[1].split("-", 2)


@dataclass(frozen=True)
class CacheEntry:
    """Cached arrays of a round."""

    arrays: Arrays
    computed_by: str
    """Id of the run that computed them."""
    seconds: float
    """Seconds that they took to compute, after the clients had trained."""
    cost: float
    """Seconds that it would take to recompute them, with the training that they need."""
    updates: str = ""
    """A digest of the bits of the updates that they are computed from; empty if from none."""


def encode_entry(entry: CacheEntry, name: str) -> bytes:
    """Encode an entry as bytes, for the file of that name."""
    about = {key: value for key, value in vars(entry).items() if key != "arrays"}
    return sealed_arrays.encode_arrays(entry.arrays, about, name)


def decode_entry(data: bytes, name: str) -> CacheEntry:
    """Decode the entry that was encoded under a name.

    Raises:
        sealed_arrays.Damaged: it is incomplete, or was encoded under another name.
    """
    arrays, about = sealed_arrays.decode_arrays(data, name)
    return CacheEntry(arrays, **about)


@dataclass(frozen=True)
class CacheOptions:
    """The user's choices for a storage's round cache."""

    limit: int | None = None
    """Bytes that it may take; beyond that the oldest entries are evicted; None: as the disk allows."""
    takes_rounds: bool = True
    """Whether a run starts with the rounds of a finished one that has fewer (`run.shorter_runs`)."""


class RoundCache:
    """One run's view of the round cache; problems become `warnings`.

    A problem of the cache never ends a run: what cannot be read is computed, what cannot be written is
    computed by other runs again.
    """

    def __init__(
        self, storage: Storage, shared_prefix: str, run_id: str, options: CacheOptions, setup: str = ""
    ) -> None:
        """Open the cache for a run.

        Args:
            storage: Where the cache is.
            shared_prefix: Name of the folder of the runs that may share rounds with this one.
            run_id: Id of the run.
            options: The user's choices.
            setup: Digest of the run's setup (`key.digest_setup`).
        """
        self.run_id = run_id
        self.options = options
        self.setup = setup
        self.digests = ArrayDigests()
        self.warnings: list[str] = []
        """Warnings since the last `take_warnings`."""
        self._complained = False
        # A lookup that fails costs one round; waiting for it would cost more.
        self._storage = replace(storage, patience=Patience())
        self._shared_prefix = f"{FOLDER}/{shared_prefix}"
        self._thread = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None

    @property
    def is_far(self) -> bool:
        """Whether each lookup is a round trip over the network."""
        return self._storage.uri is not None

    def read(self, name: str) -> CacheEntry | None:
        """Read the entry of a name, None on a miss."""
        file = self._name_file(name)
        path = self._storage.root / file
        try:
            data = self._storage.read(file)
            return None if data is None else decode_entry(data, name)
        except sealed_arrays.DamagedArrays:
            self.warnings.append(f"{path} is damaged: its round is computed again")
            with suppress(FedgridError):
                self._storage.remove(file)
        except (OSError, FedgridError) as error:
            self._warn_once(f"{path} cannot be read ({error}): its round is computed again")
        return None

    def write(self, name: str, entry: CacheEntry) -> None:
        """Write an entry, if there is room."""
        file, data = self._name_file(name), encode_entry(entry, name)
        path = self._storage.root / file
        try:
            if not make_room(self._storage, self.options.limit, len(data)):
                return
            try:
                self._put_unflushed(file, data)
            except OSError as error:
                # Others have filled the disk meanwhile, or it is a quota, which the free space does not show.
                if not (is_disk_full(error) and evict_entries(self._storage, len(data))):
                    raise
                self._put_unflushed(file, data)
        except (OSError, FedgridError) as error:
            self._warn_once(f"{path} cannot be written ({error}): other runs will compute it again")
        finally:
            if self.is_far:  # The mirror's copy is never read, and would fill the disk of every machine.
                with suppress(OSError):
                    path.unlink()

    def _put_unflushed(self, file: str, data: bytes) -> None:
        """Write a file without flushing it."""
        # Not flushed: the checksum shows whether a power cut has left all of it.
        self._storage.put({file: data}, is_flushed=False)

    def write_later(self, write: Callable[[], None]) -> None:
        """Queue a write in a thread, while the next round trains, and wait for the one queued before."""
        # At most two rounds' entries are in memory: the next is queued first, so that the thread never idles.
        before, self._writing = self._writing, self._thread.submit(write)
        if before is not None:
            before.result()

    def wait_for_writes(self) -> None:
        """Wait until everything is written."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def free_disk(self) -> None:
        """Evict entries until the disk has room for the run itself, whose last attempt may have filled it."""
        try:
            make_room(self._storage, self.options.limit)
        except (OSError, FedgridError) as error:
            self._warn_once(f"the round cache cannot be trimmed ({error})")

    def evict_headroom(self) -> bool:
        """Evict as much as the headroom, because a write of the run has failed; return whether there was any.

        The disk may say that it has room: a quota does not show in that.
        """
        try:
            return evict_entries(self._storage, _compute_headroom(self._storage))
        except (OSError, FedgridError) as error:
            self._warn_once(f"the round cache cannot be trimmed ({error})")
            return False

    def take_warnings(self) -> list[str]:
        """Return the warnings since the last call."""
        taken, self.warnings = self.warnings, []
        return taken

    def make_lock(self, name: str) -> RoundLock:
        """Make the lock of a round; with a storage at a URI it holds among the runs of this machine."""
        return RoundLock(self._storage.root / self._shared_prefix / f"{name}.lock")

    def _warn_once(self, warning: str) -> None:
        """Warn once a run: such a problem mostly concerns all files."""
        if not self._complained:
            self._complained = True
            self.warnings.append(warning)

    def _name_file(self, name: str) -> str:
        """Build the name of an entry's file in the storage."""
        return f"{self._shared_prefix}/{name}{ENTRY}"


def list_entries(storage: Storage, shared_prefix: str = "") -> list[StoredFile]:
    """List the entries of the round cache, or of one shared prefix.

    Raises:
        RunError: if the storage cannot be read.
    """
    folder = f"{FOLDER}/{shared_prefix}".rstrip("/")
    listed = storage.list_files(folder).items()
    return [StoredFile(file, *facts) for file, facts in listed if NAME.fullmatch(file)]


def delete_entries(storage: Storage, entries: Sequence[StoredFile]) -> None:
    """Delete entries.

    Raises:
        RunError: if the storage cannot be written.
    """
    storage.remove(*(entry.file for entry in entries))


def make_room(storage: Storage, limit: int | None, size: int = 0) -> bool:
    """Evict the oldest entries until `size` more bytes fit, if need be all; return whether they do.

    They fit below the limit, if there is one, and below the disk's headroom: other files on the disk come
    first. What is larger than the limit evicts nothing.

    Raises:
        OSError, RunError: if the storage cannot be read or written.
    """
    lacking = _count_lacking_bytes(storage, size)
    # The usual case lists no files.
    if limit is None and lacking <= 0:
        return True
    if limit is not None and size > limit:
        return False
    entries = list_entries(storage)
    total = sum(entry.size for entry in entries)
    excess = lacking if limit is None else max(lacking, total + size - limit)
    _delete_oldest(storage, entries, excess)
    return excess <= total


def evict_entries(storage: Storage, size: int) -> bool:
    """Evict so many bytes, where a write has failed; return whether anything was evicted.

    A round cache at a URI is not on the disk that is full.

    Raises:
        OSError, RunError: if the storage cannot be read or written.
    """
    if storage.uri:
        return False
    entries = list_entries(storage)
    _delete_oldest(storage, entries, size)
    return entries != []


def _delete_oldest(storage: Storage, entries: list[StoredFile], excess: int) -> None:
    """Delete as many bytes, or all entries."""
    going: list[StoredFile] = []
    for entry in sorted(entries, key=lambda entry: (entry.written, entry.file)):
        if excess <= 0:
            break
        going.append(entry)
        excess -= entry.size
    delete_entries(storage, going)


def _count_lacking_bytes(storage: Storage, size: int) -> int:
    """Count the bytes that the disk lacks for `size` more bytes and the headroom; a URI lacks none."""
    if storage.uri or not storage.root.exists():
        return 0
    return size + _compute_headroom(storage) - disk_usage(storage.root).free


def _compute_headroom(storage: Storage) -> int:
    """Compute the bytes of the storage's disk that stay free."""
    return min(HEADROOM, int(HEADROOM_SHARE * disk_usage(storage.root).total))
