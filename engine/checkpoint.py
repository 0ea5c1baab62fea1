"""Checkpoints of a run: tensors as safetensors with a checksum, replaced atomically."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load_file, save_file

from fedgrid.algorithms.contract.base import State
from fedgrid.algorithms.contract.updates import Vector
from fedgrid.engine.storage.atomic import flush, replacing

KEEP = 2
"""Number of stored states. If the newest is damaged, the run continues from the one before."""


@dataclass(frozen=True)
class Progress:
    """The state of a run between two rounds: everything that a checkpoint stores."""

    rounds_done: int
    state: State
    memories: Mapping[int, Vector]
    """Client -> its optimizer's state; empty unless `training.keep_optimizer_state` is set."""


def names(rounds_done: int) -> tuple[str, str]:
    """Return the names of a state's two files in the order of writing; the second one makes it valid."""
    return f"state-{rounds_done:06d}.safetensors", f"state-{rounds_done:06d}.sha256"


def save(folder: Path, progress: Progress, tables: Mapping[str, pa.Table]) -> list[str]:
    """Write the records, as Parquet by file name, then `state-<round>.safetensors` and its checksum.

    Returns the names of these files, in that order.
    """
    written = [*tables, *names(progress.rounds_done)]
    with replacing(*(folder / name for name in written)) as temporaries:
        *records, state, checksum = temporaries
        for path, table in zip(records, tables.values(), strict=True):
            pq.write_table(table, path, write_page_checksum=True)
        save_file(_tensors(progress), state)
        checksum.write_text(f"{_checksum(state)}  {names(progress.rounds_done)[0]}\n")
    flush(folder)
    return written


def stored_rounds(folder: Path) -> list[int]:
    """Return the rounds that have a state with a checksum, damaged or not, newest first."""
    return sorted(
        (int(path.stem.removeprefix("state-")) for path in folder.glob("state-*.sha256")), reverse=True
    )


def load(folder: Path, rounds_done: int) -> Progress | None:
    """Return the progress after a round, None if its state is damaged or missing."""
    state, checksum = (folder / name for name in names(rounds_done))
    try:
        if checksum.read_text().split()[0] != _checksum(state):
            return None
    except (OSError, UnicodeDecodeError, IndexError):
        return None
    return _progress(state)


def drop(folder: Path, rounds_done: int) -> None:
    """Delete the state after a round."""
    for name in names(rounds_done):
        (folder / name).unlink(missing_ok=True)


def _tensors(progress: Progress) -> dict[str, np.ndarray]:
    state = progress.state
    tensors = {
        "rounds_done": np.array(progress.rounds_done, np.int64),
        "labels": state.labels_K,
        **{f"model/{index:06d}": model for index, model in enumerate(state.models)},
        **{f"memory/{name}": array for name, array in state.memory.items()},
        **{f"client/{client:06d}": memory for client, memory in progress.memories.items()},
    }
    # safetensors silently writes the bytes of a strided view in the wrong order.
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


def _checksum(path: Path) -> str:
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
