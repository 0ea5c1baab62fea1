"""A run's progress on disk: written aside, flushed, renamed; tensors as safetensors, with a checksum."""

import os
from hashlib import sha256
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from algorithms.base import State
from engine.errors import RunError
from engine.federation import Progress

KEEP = 2
"""States kept: should the newest be damaged, the one before is used and its round repeated."""


def save(folder: Path, progress: Progress) -> None:
    """Write `state-<round>.safetensors` and its checksum, then drop all but the last `KEEP`."""
    path = _path(folder, progress.rounds_done)
    aside = path.with_suffix(".writing")
    save_file(_tensors(progress), aside)
    digest = _checksum(aside)
    _flush(aside)
    write_text(path.with_suffix(".sha256"), f"{digest}  {path.name}\n")
    aside.replace(path)
    _flush(folder)
    for old in sorted(folder.glob("state-*.safetensors"))[:-KEEP]:
        old.unlink()
        old.with_suffix(".sha256").unlink(missing_ok=True)


def load(folder: Path) -> Progress | None:
    """Return the newest undamaged progress, or None if there is none at all.

    Raises:
        RunError: if there are states, but each of them is damaged.
    """
    paths = sorted(folder.glob("state-*.safetensors"), reverse=True)
    for path in paths:
        if _is_whole(path):
            return _progress(path)
    if paths:
        raise RunError(
            f"every state in {folder} is damaged ({', '.join(path.name for path in paths)}); "
            "delete the folder to start this run again"
        )
    return None


def write_text(path: Path, text: str) -> None:
    """Write a small file so that it is either the old one or the new one, whole."""
    aside = path.with_name(path.name + ".writing")
    aside.write_text(text)
    _flush(aside)
    aside.replace(path)


def _path(folder: Path, rounds_done: int) -> Path:
    return folder / f"state-{rounds_done:06d}.safetensors"


def _tensors(progress: Progress) -> dict[str, np.ndarray]:
    state = progress.state
    tensors = {
        "rounds_done": np.array(progress.rounds_done, np.int64),
        "labels": state.labels_K,
        **{f"model/{index:06d}": model for index, model in enumerate(state.models)},
        **{f"memory/{name}": array for name, array in state.memory.items()},
        **{f"client/{client:06d}": memory for client, memory in progress.memories.items()},
    }
    # safetensors writes a strided view's bytes in the wrong order, without a word.
    return {name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}


def _progress(path: Path) -> Progress:
    tensors = dict(sorted(load_file(path).items()))

    def part(prefix: str) -> dict[str, np.ndarray]:
        return {
            name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)
        }

    state = State(tuple(part("model/").values()), tensors["labels"], part("memory/"))
    memories = {int(client): memory for client, memory in part("client/").items()}
    return Progress(int(tensors["rounds_done"]), state, memories)


def _is_whole(path: Path) -> bool:
    try:
        expected = path.with_suffix(".sha256").read_text().split()[0]
        return _checksum(path) == expected
    except (OSError, IndexError, SafetensorError):
        return False


def _checksum(path: Path) -> str:
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
