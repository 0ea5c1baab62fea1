"""The state of a run on disk, as safetensors.

After round R there is `state-R.safetensors`, and `state-client-<client>-<round>.safetensors` for each client
that remembers something, named by the round that last changed it and written only then. States share the
files of memories that did not change between them, so a damaged one damages both.
"""

import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from fedgrid.algorithms.contract.base import State
from fedgrid.algorithms.updates.source import Arrays
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.engine.runtime.storage.format import load_manifest, read_errors
from fedgrid.engine.runtime.storage.storage import Content
from fedgrid.manifest import Manifest, open_listed

LISTED_STATES = 2
"""Number of states that a manifest lists. If the newest is damaged, the run continues from the one before."""


def name_state_file(rounds: int) -> str:
    """Build the name of the file of the state after a round, without clients' memories."""
    return f"state-{rounds:06d}.safetensors"


def build_state_files(run_state: RunState) -> dict[str, Content]:
    """Build the files of a state, by name: its tensors, then clients' memories.

    Contents are functions that write, so that no state is in memory twice.
    """
    memories = sorted(
        (f"state-client-{client:06d}-{number:06d}.safetensors", client)
        for client, number in run_state.memory_rounds.items()
    )
    return {
        name_state_file(run_state.rounds_done): lambda path: _save_arrays(_collect_tensors(run_state), path),
        **{name: partial(_save_arrays, run_state.memories[client]) for name, client in memories},
    }


def load_state(folder: Path, rounds_done: int, manifest: Manifest | None = None) -> RunState:
    """Load the state after a round that a manifest lists; None stands for the manifest of the folder.

    Raises:
        OtherVersion: another fedgrid wrote it.
        UnreadableFile: a file of it cannot be read at present.
        DamagedFile: a file of it is missing or damaged.
    """
    manifest = manifest or load_manifest(folder)
    names = manifest.states.get(rounds_done, (name_state_file(rounds_done),))
    files = {name: _load_arrays(folder, manifest, name) for name in names}
    # safetensors gives tensors in an order of its own; models are numbered with zeros in front.
    tensors = dict(sorted(files.pop(name_state_file(rounds_done)).items()))
    memories, memory_rounds = {}, {}
    for name, memory in files.items():
        client, number = map(int, name.removesuffix(".safetensors").split("-")[2:])
        memories[client], memory_rounds[client] = memory, number
    state = State(
        tuple(_select_tensors(tensors, "model/").values()),
        tensors["labels"],
        _select_tensors(tensors, "memory/"),
    )
    return RunState(rounds_done, state, memories, memory_rounds, tensors.get("spent"), tensors.get("best"))


def _save_arrays(arrays: Arrays, path: Path) -> None:
    """Save arrays to a safetensors file.

    Raises:
        OSError: the system's error, from safetensors' own.
    """
    # Of a strided view safetensors writes the wrong bytes, silently.
    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    try:
        save_file(plain, path)  # Not `save`, which copies all models twice.
    except SafetensorError as error:
        # It has the system's number in its text only.
        if (code := re.search(r"os error (\d+)", str(error))) is None:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from error


def _load_arrays(folder: Path, manifest: Manifest, name: str) -> dict[str, np.ndarray]:
    """Load the arrays of a file, after its checksum has been compared."""
    with read_errors(folder / name):
        open_listed(folder, manifest, name).close()
        return load_file(folder / name)


def _collect_tensors(run_state: RunState) -> dict[str, np.ndarray]:
    """Collect the tensors of a state, without clients' memories."""
    state = run_state.state
    return {
        "rounds_done": np.array(run_state.rounds_done, np.int64),
        "labels": state.labels_K,
        **{f"model/{index:06d}": model for index, model in enumerate(state.models)},
        **{f"memory/{name}": array for name, array in state.arrays.items()},
        **({} if run_state.spent_K is None else {"spent": run_state.spent_K}),
        **({} if run_state.best is None else {"best": run_state.best}),
    }


def _select_tensors(tensors: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Select the tensors whose names start with a prefix, and cut that off."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
