"""States are files of tensors and of clients' memories, and come back as they were."""

import numpy as np
import pytest

from fedgrid.algorithms.contract.base import State
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.checkpoint import name_state_file
from fedgrid.engine.runtime.storage.format import DamagedFile
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.manifest import Manifest


def vector(*entries):
    return np.array(entries, np.float32)


def progress(rounds_done=1, num_models=2, arrays=None, memories=None):
    """Three clients; two models of two entries, which differ from round to round; memories of this round."""
    models = tuple(vector(rounds_done, model) for model in range(num_models))
    state = State(models, np.array([0, 1, 0]), arrays or {})
    return RunState(rounds_done, state, memories or {}, dict.fromkeys(memories or {}, rounds_done))


def described(kept):
    """Return every array of a progress by name: type, shape and bytes."""
    arrays = {
        "labels": kept.state.labels_K,
        **{f"model {index}": model for index, model in enumerate(kept.state.models)},
        **{f"array {name}": array for name, array in kept.state.arrays.items()},
        **{
            f"client {client} {name}": array
            for client, memory in kept.memories.items()
            for name, array in memory.items()
        },
    }
    places = (kept.rounds_done, kept.memory_rounds)
    return places, {
        name: (array.dtype, array.shape, array.tobytes()) for name, array in sorted(arrays.items())
    }


def save(folder, run_state, before=None):
    """Write the files of a state that `before` does not have; return the manifest with both states."""
    before = before or Manifest("", 9)
    files = checkpoint.build_state_files(run_state)
    entries = Storage(folder).put(
        {name: content for name, content in files.items() if name not in before.files}
    )
    return before.with_files(entries, states={**before.states, run_state.rounds_done: [*files]})


def files(folder):
    return sorted(path.name for path in folder.iterdir())


ARRAYS = {
    "nothing yet": {"temperatures": np.zeros(0)},
    "a switch": {"shot_taken": np.array([True])},
    "a number": {"last_split": np.array(7)},
    "a table": {"cluster_first": np.arange(6, dtype=np.float32).reshape(2, 3)},
    "a transposed table": {"graph": np.arange(6, dtype=np.float32).reshape(2, 3).T},
    "every other entry": {"picked": np.arange(6)[::2]},
    "the ends of float32": {"norms": vector(np.inf, -0.0, np.nan, 1e-45, 3.4e38)},
    "several": {"b": np.arange(3, dtype=np.int32), "a": np.array([1, 2], np.uint8), "c/d": np.zeros((0, 4))},
}


@pytest.mark.parametrize("arrays", ARRAYS.values(), ids=ARRAYS)
def test_progress_round_trips_bit_identically(tmp_path, arrays):
    saved = progress(arrays=arrays, memories={2: {"optimizer": vector(1, 2, 3)}, 0: {"optimizer": vector(4)}})
    assert described(checkpoint.load_state(tmp_path, 1, save(tmp_path, saved))) == described(saved)


def test_loaded_progress_saves_to_the_same_bytes(tmp_path):
    memories = {1: {"optimizer": vector(1)}, 0: ARRAYS["several"]}
    saved = save(tmp_path, progress(arrays=ARRAYS["several"], memories=memories))
    (tmp_path / "again").mkdir()
    assert save(tmp_path / "again", checkpoint.load_state(tmp_path, 1, saved)) == saved
    assert len(saved.files) == 3


def test_models_that_are_strided_views_round_trip(tmp_path):
    """Models may be rows or strided slices of larger arrays, or, from Ray, read-only memory."""
    table = np.arange(8, dtype=np.float32).reshape(2, 4)
    table.setflags(write=False)
    state = State((table[1, :2], table[0, ::2]), np.zeros(3, np.int64))
    saved = RunState(1, state, {0: {"optimizer": table[:, 1]}}, {0: 1})
    assert described(checkpoint.load_state(tmp_path, 1, save(tmp_path, saved))) == described(saved)


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [flip, lambda path: path.unlink()])
def test_damaged_state_is_named(tmp_path, damage):
    saved = save(tmp_path, progress(1))
    damage(tmp_path / name_state_file(1))
    with pytest.raises(DamagedFile, match="state-000001"):
        checkpoint.load_state(tmp_path, 1, saved)


def remembering(before, *clients):
    """Return the progress after one more round, in which these clients' memories changed."""
    number = before.rounds_done + 1
    memories = {client: {"optimizer": vector(client, number), "c": vector(number)} for client in clients}
    return before.advance_round(progress(number).state, memories)


@pytest.fixture
def three_rounds():
    """Clients 0 and 1 train in round 1, client 0 in round 2, nobody in round 3."""
    first = remembering(progress(0), 0, 1)
    second = remembering(first, 0)
    return first, second, remembering(second)


MEMORIES = [
    ["state-client-000000-000001.safetensors", "state-client-000001-000001.safetensors"],
    ["state-client-000000-000002.safetensors", "state-client-000001-000001.safetensors"],
]


class TestClientMemories:
    """A file for each client, written in the rounds that change it."""

    def test_are_files_named_by_client_and_round_and_come_back_with_each_state(self, tmp_path, three_rounds):
        saved = None
        for each in three_rounds:
            saved = save(tmp_path, each, saved)
        assert saved.states == {
            1: [name_state_file(1), *MEMORIES[0]],
            2: [name_state_file(2), *MEMORIES[1]],
            3: [name_state_file(3), *MEMORIES[1]],
        }
        assert files(tmp_path) == sorted(saved.files)
        for number, each in enumerate(three_rounds, start=1):
            assert described(checkpoint.load_state(tmp_path, number, saved)) == described(each)

    def test_one_damaged_damages_the_states_that_need_it(self, tmp_path, three_rounds):
        first, second, _ = three_rounds
        saved = save(tmp_path, second, save(tmp_path, first))
        flip(tmp_path / "state-client-000000-000002.safetensors")
        with pytest.raises(DamagedFile, match="state-client-000000-000002.safetensors"):
            checkpoint.load_state(tmp_path, 2, saved)
        assert described(checkpoint.load_state(tmp_path, 1, saved)) == described(first)
