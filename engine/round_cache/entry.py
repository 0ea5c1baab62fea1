"""One entry of the round cache as bytes: safetensors, whose metadata hold a checksum of all the rest.

The checksum covers the entry's name too: an entry in the place of another one is as bad as a damaged one.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fedgrid.algorithms.contract.source import Arrays
from fedgrid.engine.format import FORMAT, METADATA

CHECKSUM = "sha256"


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


class Damaged(Exception):
    """The bytes are not those that were written."""


def encode(entry: CacheEntry, name: str) -> bytes:
    """Return an entry as bytes, for the file of that name."""
    arrays = {part: np.asarray(array, order="C") for part, array in entry.arrays.items()}
    about = {
        "computed_by": entry.computed_by,
        "seconds": repr(entry.seconds),
        "cost": repr(entry.cost),
        "updates": entry.updates,
        METADATA: str(FORMAT),
    }
    return save(arrays, {**about, CHECKSUM: _checksum(name, arrays, about)})


def decode(data: bytes, name: str) -> CacheEntry:
    """Return the entry that was encoded under a name.

    Raises:
        Damaged: if it is incomplete, or was encoded under another name.
    """
    about = about_entry(data)
    try:
        arrays = load(data)
        whole = about.pop(CHECKSUM) == _checksum(name, arrays, about)
        if whole:
            times = float(about["seconds"]), float(about["cost"])
            return CacheEntry(arrays, about["computed_by"], *times, about["updates"])
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise Damaged from error
    raise Damaged


def about_entry(data: bytes) -> dict[str, str]:
    """Return an entry's metadata, from its first bytes.

    Raises:
        Damaged: if they are not those of an entry.
    """
    length = int.from_bytes(data[:8], "little")
    try:
        about = json.loads(data[8 : 8 + length])["__metadata__"]
        return {name: str(value) for name, value in about.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged from error


def _checksum(name: str, arrays: Arrays, about: Mapping[str, Any]) -> str:
    digest = sha256(json.dumps([name, about], sort_keys=True).encode())
    for part in sorted(arrays):
        array = arrays[part]
        digest.update(f"{part} {array.dtype.str} {array.shape}".encode())
        digest.update(np.asarray(array, order="C").data)
    return digest.hexdigest()
