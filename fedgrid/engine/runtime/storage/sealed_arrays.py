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

ABOUT = "about"
"""Key of the description in the metadata of the file."""
CHECKSUM = "sha256"
"""Key of the checksum in the description."""


class DamagedArrays(Exception):
    """The bytes are not those that were written."""


def encode_arrays(arrays: Arrays, about: Mapping[str, Any], name: str) -> bytes:
    """Encode arrays and their description (plain JSON) as bytes, for the file of that name."""
    # safetensors writes the memory of an array as it lies there: of a strided view that would be wrong bytes.
    plain = {part: np.asarray(array, order="C") for part, array in arrays.items()}
    return save(plain, {ABOUT: json.dumps({**about, CHECKSUM: _compute_checksum(name, plain, about)})})


def decode_arrays(data: bytes, name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Decode the arrays that were encoded under a name, and their description.

    Raises:
        Damaged: they are incomplete, or were encoded under another name.
    """
    about = read_description(data)
    try:
        arrays = load(data)
        if about.pop(CHECKSUM) == _compute_checksum(name, arrays, about):
            return arrays, about
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise DamagedArrays from error
    raise DamagedArrays


def read_description(data: bytes) -> dict[str, Any]:
    """Read the description of arrays from their first bytes, without the arrays.

    Raises:
        Damaged: they are not those of `encode_arrays`.
    """
    # safetensors' header: eight bytes with its length, then JSON whose `__metadata__` are texts.
    length = int.from_bytes(data[:8], "little")
    try:
        return dict(json.loads(json.loads(data[8 : 8 + length])["__metadata__"][ABOUT]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedArrays from error


def _compute_checksum(name: str, arrays: Arrays, about: Mapping[str, Any]) -> str:
    """Compute the checksum of name, description, and all arrays with their types and shapes."""
    digest = sha256(json.dumps([name, about], sort_keys=True).encode())
    for part in sorted(arrays):
        array = arrays[part]
        digest.update(f"{part} {array.dtype.str} {array.shape}".encode())
        digest.update(np.asarray(array, order="C").data)
    return digest.hexdigest()
