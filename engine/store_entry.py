"""One entry of the round store as bytes: safetensors, whose metadata hold a checksum of all the rest."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from algorithms.updates import Arrays

CHECKSUM = "sha256"


@dataclass(frozen=True)
class Entry:
    """What is known of a part of a round."""

    arrays: Arrays
    computed_by: str
    """Run id."""
    seconds: float
    """What working it out took, once the clients had trained."""
    cost: float
    """What having it again would take, in seconds: with the training that it needs."""


class Damaged(Exception):
    """The bytes are not those that were written."""


def encode(entry: Entry) -> bytes:
    """Return an entry as bytes."""
    arrays = {name: np.asarray(array, order="C") for name, array in entry.arrays.items()}
    about = {
        "computed_by": entry.computed_by,
        "seconds": repr(entry.seconds),
        "cost": repr(entry.cost),
    }
    return save(arrays, {**about, CHECKSUM: _checksum(arrays, about)})


def decode(data: bytes) -> Entry:
    """Return the entry that was encoded.

    Raises:
        Damaged: if it is not whole.
    """
    about = about_entry(data)
    try:
        arrays = load(data)
        whole = about.pop(CHECKSUM) == _checksum(arrays, about)
        if whole:
            return Entry(arrays, about["computed_by"], float(about["seconds"]), float(about["cost"]))
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise Damaged from error
    raise Damaged


def about_entry(data: bytes) -> dict[str, str]:
    """Return an entry's metadata, from its first bytes.

    Raises:
        Damaged: if they are not an entry's.
    """
    length = int.from_bytes(data[:8], "little")
    try:
        about = json.loads(data[8 : 8 + length])["__metadata__"]
        return {name: str(value) for name, value in about.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged from error


def _checksum(arrays: Arrays, about: Mapping[str, Any]) -> str:
    digest = sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.asarray(array, order="C").data)
    return digest.hexdigest()
