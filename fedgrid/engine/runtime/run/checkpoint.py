"""A run's state on disk: written aside, flushed, renamed; tensors as safetensors, with checksums.

After round R there is `state-R.safetensors`, `state-client-<client>-<round>.safetensors` for each client that
remembers something, named by the round that last changed it and written only then, and `state-R.sha256` with
the checksums of all of these, in the format of sha256sum. The state counts once that last file is there.
States share the files of memories that did not change between them, so a damaged one damages both.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from fedgrid.algorithms.contract.base import State
from fedgrid.algorithms.updates.source import Arrays
from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.engine.runtime.integrity.files import checksum, read_checksums, stamped
from fedgrid.engine.runtime.integrity.mark import TENSORS, state_names
from fedgrid.engine.runtime.storage.atomic import flush, replacing
from fedgrid.engine.runtime.storage.format import METADATA, DamagedFile, check_format, check_run, read_errors
from fedgrid.parquet_files import run_id_of

KEEP = 2
"""Number of stored states. If the newest is damaged, the run continues from the one before."""
STATE = re.compile(r"state-(\d{6,})\.sha256", re.ASCII)
MEMORY = re.compile(r"state-client-(\d+)-(\d+)\.safetensors")
"""Those of `TENSORS` with a client's memory: the client, and the round that last changed it."""


def save(folder: Path, run_state: RunState, tables: Mapping[str, pa.Table]) -> list[str]:
    """Write the records as Parquet by file name, memories that changed, then the state and its checksums.

    Returns the names of these files, in that order.
    """
    memories = {_memory_name(client, number): client for client, number in run_state.memory_rounds.items()}
    # Files that a stored state names are there: `RunFolder` drops the states after the one it loads.
    stored = {
        name: line for number in stored_rounds(folder) for name, line in _checksums(folder, number).items()
    }
    new = [name for name in memories if name not in stored]
    state_name, checksum_name = state_names(run_state.rounds_done)
    run_id = run_id_of(folder)
    written = [*tables, *new, state_name, checksum_name]
    with replacing(*(folder / name for name in written)) as temporaries:
        paths = dict(zip(written, temporaries, strict=True))
        for name, table in tables.items():
            pq.write_table(stamped(table, run_id), paths[name], write_page_checksum=True)
        for name in new:
            _save(run_state.memories[memories[name]], paths[name], run_id)
        _save(_tensors(run_state), paths[state_name], run_id)
        checksums = {name: checksum(paths[name]) for name in (state_name, *new)}
        lines = {name: checksums.get(name) or stored[name] for name in (state_name, *sorted(memories))}
        paths[checksum_name].write_text("".join(f"{digest}  {name}\n" for name, digest in lines.items()))
    flush(folder)
    return written


def stored_rounds(folder: Path) -> list[int]:
    """Return the rounds after which there is a state with checksums, whole or not, newest first."""
    names = (STATE.fullmatch(path.name) for path in folder.glob("state-*.sha256"))
    return sorted((int(name[1]) for name in names if name), reverse=True)


def load(folder: Path, rounds_done: int) -> RunState:
    """Return the state after a round.

    Raises:
        NewerFormat: a newer fedgrid wrote it.
        UnreadableFile: a file of it cannot be read at present.
        DamagedFile: a file of it is missing, damaged or another run's.
    """
    state_name, path = state_names(rounds_done)[0], folder / state_names(rounds_done)[1]
    try:
        checksums = read_checksums(path)
        if state_name not in checksums:
            raise DamagedFile(path, "it does not list the files of this state")
        for path, digest in ((folder / name, digest) for name, digest in checksums.items()):
            if checksum(path) != digest:
                raise DamagedFile(path, "its checksum differs")
    except FileNotFoundError as error:
        raise DamagedFile(path, "it is missing") from error
    tensors = dict(sorted(_load(folder / state_name).items()))
    memories, memory_rounds = {}, {}
    for name in checksums:
        if memory := MEMORY.fullmatch(name):
            client = int(memory[1])
            memory_rounds[client] = int(memory[2])
            memories[client] = _load(folder / name)
    state = State(tuple(_part(tensors, "model/").values()), tensors["labels"], _part(tensors, "memory/"))
    return RunState(rounds_done, state, memories, memory_rounds, tensors.get("spent"), tensors.get("best"))


def drop(folder: Path, until: int) -> list[str]:
    """Delete the states up to a round, and files of these rounds that no other state needs.

    Returns their names; some of the files may be gone already, or left by a crash of an earlier call.
    """
    old = [number for number in stored_rounds(folder) if number <= until]
    states = [path.name for path in folder.glob("state-*.safetensors") if TENSORS.fullmatch(path.name)]
    left = [name for name in states if int(name.removesuffix(".safetensors").rpartition("-")[2]) <= until]
    needed = _needed(folder, old)
    gone = dict.fromkeys(name for name in (*files_of(folder, old), *sorted(left)) if name not in needed)
    # The checksums first: without them what is left is no state.
    for name in sorted(gone, key=lambda name: not name.endswith(".sha256")):
        (folder / name).unlink(missing_ok=True)
    return list(gone)


def files_of(folder: Path, rounds: Iterable[int]) -> list[str]:
    """Return the names of the files of states that no other state needs, whether they are there or not."""
    going = sorted(set(rounds))
    needed = _needed(folder, going)
    of_them = (name for number in going for name in (*_checksums(folder, number), *state_names(number)))
    return [name for name in dict.fromkeys(of_them) if name not in needed]


def _needed(folder: Path, going: Sequence[int]) -> set[str]:
    staying = set(stored_rounds(folder)).difference(going)
    return {name for number in staying for name in _checksums(folder, number)}


def _save(arrays: Arrays, path: Path, run_id: str) -> None:
    # Of a strided view safetensors writes the wrong bytes, silently.
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    # One entry: safetensors writes several in an order that changes.
    save_file(contiguous, path, metadata={METADATA: f"{FORMAT} {run_id}"})


def _load(path: Path) -> dict[str, np.ndarray]:
    with read_errors(path):
        with safe_open(path, "numpy") as file:
            version, _, run_id = (file.metadata() or {}).get(METADATA, "").partition(" ")
        check_format(version or None, path)
        check_run(path, run_id, run_id_of(path.parent))
        return load_file(path)


def _memory_name(client: int, number: int) -> str:
    return f"state-client-{client:06d}-{number:06d}.safetensors"


def _checksums(folder: Path, rounds_done: int) -> dict[str, str]:
    """Return file name -> checksum of a state, empty if they are missing or damaged."""
    try:
        return read_checksums(folder / state_names(rounds_done)[1])
    except (FileNotFoundError, DamagedFile):
        return {}


def _tensors(run_state: RunState) -> dict[str, np.ndarray]:
    state = run_state.state
    return {
        "rounds_done": np.array(run_state.rounds_done, np.int64),
        "labels": state.labels_K,
        **{f"model/{index:06d}": model for index, model in enumerate(state.models)},
        **{f"memory/{name}": array for name, array in state.arrays.items()},
        **({} if run_state.spent_K is None else {"spent": run_state.spent_K}),
        **({} if run_state.best is None else {"best": run_state.best}),
    }


def _part(tensors: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
