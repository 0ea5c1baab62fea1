"""One entry of the round cache, and its bytes (`runtime.storage.sealed_arrays`)."""

from dataclasses import dataclass

from fedgrid.algorithms.updates.source import Arrays
from fedgrid.engine.runtime.storage import sealed_arrays


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
