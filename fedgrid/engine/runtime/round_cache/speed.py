"""How fast a storage writes and reads, which decides what is worth an entry of the round cache."""

import os
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from secrets import token_hex
from time import perf_counter

from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.runtime.storage.atomic import PARTIAL
from fedgrid.engine.runtime.storage.storage import Storage

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
