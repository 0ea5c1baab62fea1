"""Trained encoders as files of a storage: `encoders/<id>/encoder.safetensors`.

The file's metadata say what the encoder is, in JSON, with a checksum of that and of the arrays. They are one
entry: safetensors writes several in an order that changes.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fedgrid.engine.encoders.encoder import Encoder
from fedgrid.engine.format import FORMAT, METADATA, DamagedFile, check_format
from fedgrid.engine.storage.atomic import disk_errors, set_aside, write_bytes
from fedgrid.engine.storage.storage import Storage

FOLDER, FILE = "encoders", "encoder.safetensors"
ABOUT, CHECKSUM = "about", "sha256"


def load_encoder(storage: Storage, encoder_id: str) -> Encoder | None:
    """Return a kept encoder, None if there is none of this id.

    Raises:
        DamagedFile: its bytes are not those that were written.
        NewerFormat: a newer fedgrid wrote it.
        RunError, OSError: the storage cannot be read.
    """
    path = storage.root / name_of(encoder_id)
    data = storage.read(name_of(encoder_id))
    return None if data is None else _decoded(data, path, encoder_id)


def write(storage: Storage, encoder: Encoder, settings: dict[str, Any]) -> None:
    """Keep an encoder; `settings` is how it was asked for, for who reads the file.

    Raises:
        RunError: it cannot be written.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in encoder.arrays.items()}
    about = {
        "id": encoder.id,
        "kind": encoder.kind,
        "shape": list(encoder.shape),
        "bytes_down": encoder.bytes_down,
        "bytes_up": encoder.bytes_up,
        "losses": list(encoder.losses),
        "batch_statistics": encoder.batch_statistics,
        "settings": settings,
        METADATA: FORMAT,
    }
    metadata = {ABOUT: json.dumps({**about, CHECKSUM: _checksum(about, arrays)})}
    path = storage.root / name_of(encoder.id)
    with disk_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, save(arrays, metadata))
    storage.push(name_of(encoder.id))


def move_aside(storage: Storage, encoder_id: str) -> None:
    """Move a damaged encoder into a folder `damaged-<number>` beside it."""
    folder = storage.root / FOLDER / encoder_id
    with disk_errors(folder):
        moved = set_aside(folder, [FILE])
    storage.push(*(f"{FOLDER}/{encoder_id}/{new}" for _, new in moved))
    storage.remove(name_of(encoder_id))


def name_of(encoder_id: str) -> str:
    """Return the name of an encoder's file in a storage."""
    return f"{FOLDER}/{encoder_id}/{FILE}"


def _decoded(data: bytes, path: Path, encoder_id: str) -> Encoder:
    try:
        length = int.from_bytes(data[:8], "little")
        about = json.loads(json.loads(data[8 : 8 + length])["__metadata__"][ABOUT])
        check_format(about.get(METADATA), path)
        arrays = load(data)
        if about.pop(CHECKSUM) != _checksum(about, arrays):
            raise DamagedFile(path, "its checksum is another one")
        if about["id"] != encoder_id:
            raise DamagedFile(path, f"it is encoder {about['id']}")
        return Encoder(
            kind=about["kind"],
            shape=tuple(about["shape"]),
            arrays=arrays,
            id=encoder_id,
            bytes_down=about["bytes_down"],
            bytes_up=about["bytes_up"],
            losses=tuple(about["losses"]),
            batch_statistics=about["batch_statistics"],
        )
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFile(path, "it is no encoder") from error


def _checksum(about: dict[str, Any], arrays: dict[str, Any]) -> str:
    digest = sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
