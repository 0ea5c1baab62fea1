"""One entry of the round cache, its bytes (`runtime.storage.sealed_arrays`), and whether it is worth them.

That depends on how fast the storage writes and reads.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from secrets import token_hex
from time import perf_counter

from fedgrid.algorithms.updates.source import Arrays
from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.runtime.storage import sealed_arrays
from fedgrid.engine.runtime.storage.atomic import PARTIAL
from fedgrid.engine.runtime.storage.storage import Storage


@dataclass(frozen=True)
class CacheEntry:
    """Cached arrays of a round."""

    arrays: Arrays
    computed_by: str
    """Run id."""
    seconds: float
    """The time it took to compute, after the clients had trained."""
    cost: float
    """The time it would take to recompute, in seconds, with the training that it needs."""
    updates: str = ""
    """Stands for the bits of the updates that it is computed from; empty if it is from none."""


def encode(entry: CacheEntry, name: str) -> bytes:
    """Return an entry as bytes, for the file of that name."""
    about = {key: value for key, value in vars(entry).items() if key != "arrays"}
    return sealed_arrays.encode(entry.arrays, about, name)


def decode(data: bytes, name: str) -> CacheEntry:
    """Return the entry that was encoded under a name.

    Raises:
        Damaged: if it is incomplete, or was encoded under another name.
    """
    arrays, about = sealed_arrays.decode(data, name)
    return CacheEntry(arrays, **about)


def cost_of(storage: Storage, file: str) -> float:
    """Return the seconds that recomputing the entry in a file takes, 0 if that cannot be read."""
    try:
        return float(sealed_arrays.about_arrays(storage.read(file, 1 << 16) or b"")["cost"])
    except (OSError, FedgridError, sealed_arrays.Damaged, ValueError, KeyError, TypeError):
        return 0.0


PROBE = 8 << 20
"""Bytes that are written and read to measure a storage."""


@dataclass(frozen=True)
class StorageSpeed:
    """How long it takes to write and read a file; by default no time at all."""

    bytes_per_second: float = inf
    round_trip: float = 0.0
    """Seconds for a file of no bytes."""

    def seconds(self, size: int) -> float:
        """Return the seconds that one write and one read of `size` bytes take."""
        return self.round_trip + size / self.bytes_per_second


def measure(storage: Storage, folder: str) -> StorageSpeed:
    """Write and read files below a folder of the storage, and return its speed.

    The files are not flushed, as the cache's are not. A storage that fails has no speed of its own: the run
    that writes there says what is wrong.
    """
    try:
        round_trip = _seconds(storage, folder, b"")
        seconds = _seconds(storage, folder, os.urandom(PROBE))
    except (OSError, FedgridError):
        return StorageSpeed()
    return StorageSpeed(PROBE / max(seconds - round_trip, 1e-6), round_trip)


def _seconds(storage: Storage, folder: str, data: bytes) -> float:
    """Return how long it takes to write and read a file of these bytes, which is deleted again."""
    name = f"{folder}/speed{PARTIAL}{token_hex(4)}"
    path = storage.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        start = perf_counter()
        path.write_bytes(data)
        storage.push(name)
        storage.read(name)
        return perf_counter() - start
    finally:
        with suppress(OSError):
            path.unlink()
        storage.remove(name)
