"""Trained encoders as files of a storage: `encoders/<id>/encoder.safetensors` (`storage.sealed_arrays`)."""

from pathlib import Path
from typing import Any

from fedgrid.engine.federation.encoders.encoder import Encoder
from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.runtime.storage import sealed_arrays
from fedgrid.engine.runtime.storage.atomic import disk_errors, write_bytes
from fedgrid.engine.runtime.storage.format import METADATA, DamagedFile, check_format
from fedgrid.engine.runtime.storage.storage import Storage

FOLDER, FILE = "encoders", "encoder.safetensors"
KEPT = ("kind", "shape", "bytes_down", "bytes_up", "losses", "batch_statistics")
"""Fields of an encoder that are written beside its arrays."""


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
    """Store an encoder; `settings` say to a reader of the file how it was trained.

    Raises:
        RunError: it cannot be written.
    """
    about = {key: value for key, value in vars(encoder).items() if key in KEPT}
    data = sealed_arrays.encode(encoder.arrays, {**about, "settings": settings, METADATA: FORMAT}, encoder.id)
    path = storage.root / name_of(encoder.id)
    with disk_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, data)
    storage.push(name_of(encoder.id))


def name_of(encoder_id: str) -> str:
    """Return the name of an encoder's file in a storage."""
    return f"{FOLDER}/{encoder_id}/{FILE}"


def _decoded(data: bytes, path: Path, encoder_id: str) -> Encoder:
    try:
        arrays, about = sealed_arrays.decode(data, encoder_id)
    except sealed_arrays.Damaged as error:
        raise DamagedFile(path, "it is not this encoder") from error
    check_format(about[METADATA], path)
    lists = {key: tuple(about[key]) for key in ("shape", "losses")}
    return Encoder(**{key: about[key] for key in KEPT} | lists, arrays=arrays, id=encoder_id)
