"""Named arrays with a description, as bytes: safetensors, whose metadata hold a checksum of all the rest.

The checksum covers the name too: a file under another file's name is as bad as a damaged one. The description
is one entry of the metadata, in JSON: safetensors writes several in an order that changes.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fedgrid.algorithms.updates.source import Arrays

ABOUT, CHECKSUM = "about", "sha256"


class Damaged(Exception):
    """The bytes are not those that were written."""


def encode(arrays: Arrays, about: Mapping[str, Any], name: str) -> bytes:
    """Return arrays and their description (plain JSON) as bytes, for the file of that name."""
    plain = {part: np.asarray(array, order="C") for part, array in arrays.items()}
    return save(plain, {ABOUT: json.dumps({**about, CHECKSUM: _checksum(name, plain, about)})})


def decode(data: bytes, name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays that were encoded under a name, and their description.

    Raises:
        Damaged: they are incomplete, or were encoded under another name.
    """
    about = about_arrays(data)
    try:
        arrays = load(data)
        if about.pop(CHECKSUM) == _checksum(name, arrays, about):
            return arrays, about
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise Damaged from error
    raise Damaged


def about_arrays(data: bytes) -> dict[str, Any]:
    """Return the description of arrays, from their first bytes.

    Raises:
        Damaged: they are not those of `encode`.
    """
    length = int.from_bytes(data[:8], "little")
    try:
        return dict(json.loads(json.loads(data[8 : 8 + length])["__metadata__"][ABOUT]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Damaged from error


def _checksum(name: str, arrays: Arrays, about: Mapping[str, Any]) -> str:
    digest = sha256(json.dumps([name, about], sort_keys=True).encode())
    for part in sorted(arrays):
        array = arrays[part]
        digest.update(f"{part} {array.dtype.str} {array.shape}".encode())
        digest.update(np.asarray(array, order="C").data)
    return digest.hexdigest()
