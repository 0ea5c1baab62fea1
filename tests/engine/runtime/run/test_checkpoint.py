"""Checkpoints are complete or missing, and there is always an older one."""

import re
from contextlib import suppress
from shutil import copyfile

import numpy as np
import pytest

from fedgrid.algorithms.contract.base import State
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.engine.runtime.integrity.mark import state_names
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.storage import atomic as files_module
from fedgrid.engine.runtime.storage.format import DamagedFile


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


def newest(folder):
    """Return the newest undamaged progress."""
    for number in checkpoint.stored_rounds(folder):
        with suppress(DamagedFile):
            return checkpoint.load(folder, number)
    return None


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
    checkpoint.save(tmp_path, saved, {})
    assert described(newest(tmp_path)) == described(saved)


def test_many_models_keep_their_order(tmp_path):
    saved = progress(num_models=12)
    checkpoint.save(tmp_path, saved, {})
    assert [model[1] for model in newest(tmp_path).state.models] == list(range(12))


def test_loaded_progress_saves_to_the_same_bytes(tmp_path):
    memories = {1: {"optimizer": vector(1)}, 0: ARRAYS["several"]}
    checkpoint.save(tmp_path, progress(arrays=ARRAYS["several"], memories=memories), {})
    again = tmp_path / "again" / tmp_path.name
    again.mkdir(parents=True)
    checkpoint.save(again, newest(tmp_path), {})
    saved = [path for path in tmp_path.iterdir() if path.is_file()]
    assert len(saved) == len(files(again)) == 4
    for path in saved:
        assert (again / path.name).read_bytes() == path.read_bytes()


def test_models_that_are_strided_views_round_trip(tmp_path):
    """Models may be rows or strided slices of larger arrays, or, from Ray, read-only memory."""
    table = np.arange(8, dtype=np.float32).reshape(2, 4)
    table.setflags(write=False)
    state = State((table[1, :2], table[0, ::2]), np.zeros(3, np.int64))
    saved = RunState(1, state, {0: {"optimizer": table[:, 1]}}, {0: 1})
    checkpoint.save(tmp_path, saved, {})
    assert described(newest(tmp_path)) == described(saved)


def test_a_new_folder_has_no_progress(tmp_path):
    assert newest(tmp_path) is None


def test_a_state_without_memories_is_two_files(tmp_path):
    checkpoint.save(tmp_path, progress(10), {})
    assert files(tmp_path) == ["state-000010.safetensors", "state-000010.sha256"]
    assert state_names(10) == ("state-000010.safetensors", "state-000010.sha256")


def give_up(folder, number):
    for name in checkpoint.files_of(folder, [number]):
        (folder / name).unlink()


def test_stored_rounds_are_newest_first(tmp_path):
    for rounds_done in (8, 10, 9):
        checkpoint.save(tmp_path, progress(rounds_done), {})
    assert checkpoint.stored_rounds(tmp_path) == [10, 9, 8]


def test_a_dropped_state_leaves_nothing(tmp_path):
    for rounds_done in (1, 2):
        checkpoint.save(tmp_path, progress(rounds_done), {})
    assert sorted(checkpoint.drop(tmp_path, 1)) == sorted(state_names(1))
    checkpoint.drop(tmp_path, 1)
    assert files(tmp_path) == ["state-000002.safetensors", "state-000002.sha256"]


def test_state_without_checksums_is_deleted_only_if_it_is_old(tmp_path):
    """A crash after the first deletion of `drop`; a newer one may still be under way."""
    memories = {1: {"optimizer": vector(1)}}
    for number in (1, 2, 3):
        checkpoint.save(tmp_path, progress(number, memories=memories), {})
    for number in (1, 3):
        (tmp_path / state_names(number)[1]).unlink()
    left = ["state-000001.safetensors", "state-client-000001-000001.safetensors"]
    assert checkpoint.drop(tmp_path, 1) == left
    assert checkpoint.load(tmp_path, 2) is not None
    assert (tmp_path / "state-000003.safetensors").exists()


def test_the_checksum_is_what_sha256sum_checks(tmp_path):
    checkpoint.save(tmp_path, progress(1), {})
    text = (tmp_path / "state-000001.sha256").read_text()
    assert re.fullmatch(r"[0-9a-f]{64}  state-000001\.safetensors\n", text)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def empty(path):
    path.write_bytes(b"")


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def losechecksum(path):
    path.with_suffix(".sha256").unlink()


def emptychecksum(path):
    path.with_suffix(".sha256").write_bytes(b"")


DAMAGES = (truncate, empty, flip, losechecksum, emptychecksum)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_newest_state_falls_back_to_the_one_before(tmp_path, damage):
    for rounds_done in (1, 2):
        checkpoint.save(tmp_path, progress(rounds_done), {})
    damage(tmp_path / "state-000002.safetensors")
    assert described(newest(tmp_path)) == described(progress(1))


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_repeated_round_replaces_the_damaged_state(tmp_path, damage):
    for rounds_done in (1, 2):
        checkpoint.save(tmp_path, progress(rounds_done), {})
    damage(tmp_path / "state-000002.safetensors")
    checkpoint.save(tmp_path, progress(2), {})
    assert newest(tmp_path).rounds_done == 2


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_state_is_named(tmp_path, damage):
    checkpoint.save(tmp_path, progress(1), {})
    damage(tmp_path / "state-000001.safetensors")
    with pytest.raises(DamagedFile, match="state-000001"):
        checkpoint.load(tmp_path, 1)


def test_copies_of_a_state_under_other_names_are_none(tmp_path):
    checkpoint.save(tmp_path, progress(1), {})
    for name in ("state-000001 (copy).sha256", "state-1.sha256", "state-.sha256", "state-00000\u0663.sha256"):
        copyfile(tmp_path / "state-000001.sha256", tmp_path / name)
    assert checkpoint.stored_rounds(tmp_path) == [1]


class Killed(BaseException):
    """Stands for `kill -9`: nothing catches it, nothing is cleaned up."""


def kill_before_call(monkeypatch, owner, name, count):
    """Raise `Killed` in the `count`-th call of `owner.name`, from 0."""
    original, calls = getattr(owner, name), iter(range(1000))

    def counted(*args, **options):
        if next(calls) == count:
            raise Killed
        return original(*args, **options)

    monkeypatch.setattr(owner, name, counted)


STEPS = [
    (checkpoint, "save_file", 0),
    (checkpoint, "checksum", 0),
    (checkpoint.Path, "write_text", 0),
    (files_module, "flush", 0),
    (files_module, "flush", 1),
    (checkpoint.Path, "replace", 0),
    (checkpoint.Path, "replace", 1),
    (checkpoint, "flush", 0),
]


@pytest.mark.parametrize(("owner", "name", "count"), STEPS)
def test_a_kill_at_any_step_of_writing_loses_one_round_at_most(tmp_path, monkeypatch, owner, name, count):
    for rounds_done in (1, 2):
        checkpoint.save(tmp_path, progress(rounds_done), {})
    with monkeypatch.context() as patch:
        kill_before_call(patch, owner, name, count)
        with pytest.raises(Killed):
            checkpoint.save(tmp_path, progress(3), {})
    assert newest(tmp_path).rounds_done in (2, 3)
    for rounds_done in (3, 4):
        checkpoint.save(tmp_path, progress(rounds_done), {})
        assert described(newest(tmp_path)) == described(progress(rounds_done))


def remembering(before, *clients):
    """Return the progress after one more round, in which these clients' memories changed."""
    number = before.rounds_done + 1
    memories = {client: {"optimizer": vector(client, number), "c": vector(number)} for client in clients}
    return before.after_round(progress(number).state, memories)


def memory_files(folder):
    return [name for name in files(folder) if name.startswith("state-client-")]


@pytest.fixture
def three_rounds():
    """Clients 0 and 1 train in round 1, client 0 in round 2, nobody in round 3."""
    first = remembering(progress(0), 0, 1)
    second = remembering(first, 0)
    return first, second, remembering(second)


class TestClientMemories:
    """A file for each client, written in the rounds that change it."""

    def test_are_files_named_by_client_and_round(self, tmp_path, three_rounds):
        written = [checkpoint.save(tmp_path, each, {}) for each in three_rounds]
        assert written == [
            [
                "state-client-000000-000001.safetensors",
                "state-client-000001-000001.safetensors",
                *state_names(1),
            ],
            ["state-client-000000-000002.safetensors", *state_names(2)],
            [*state_names(3)],
        ]
        assert files(tmp_path) == sorted(name for names in written for name in names)

    def test_come_back_with_each_state(self, tmp_path, three_rounds):
        for each in three_rounds:
            checkpoint.save(tmp_path, each, {})
        for number, each in enumerate(three_rounds, start=1):
            assert described(checkpoint.load(tmp_path, number)) == described(each)

    def test_are_not_written_again_unless_they_changed(self, tmp_path, three_rounds):
        first, *later = three_rounds
        checkpoint.save(tmp_path, first, {})
        path = tmp_path / "state-client-000001-000001.safetensors"
        before = path.stat()
        for each in later:
            checkpoint.save(tmp_path, each, {})
        after = path.stat()
        assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)

    def test_are_not_written_again_after_a_resume(self, tmp_path, three_rounds):
        checkpoint.save(tmp_path, three_rounds[0], {})
        inode = (tmp_path / "state-client-000001-000001.safetensors").stat().st_ino
        written = checkpoint.save(tmp_path, remembering(newest(tmp_path), 0), {})
        assert written == ["state-client-000000-000002.safetensors", *state_names(2)]
        assert (tmp_path / "state-client-000001-000001.safetensors").stat().st_ino == inode

    def test_have_their_checksums_beside_the_states(self, tmp_path, three_rounds):
        for each in three_rounds:
            checkpoint.save(tmp_path, each, {})
        named = [line.split()[1] for line in (tmp_path / "state-000003.sha256").read_text().splitlines()]
        assert named == [
            "state-000003.safetensors",
            "state-client-000000-000002.safetensors",
            "state-client-000001-000001.safetensors",
        ]

    @pytest.mark.parametrize("damage", [truncate, empty, flip, lambda path: path.unlink()])
    def test_with_one_damaged_the_state_before_is_used(self, tmp_path, three_rounds, damage):
        first, second, _ = three_rounds
        for each in (first, second):
            checkpoint.save(tmp_path, each, {})
        damage(tmp_path / "state-client-000000-000002.safetensors")
        with pytest.raises(DamagedFile, match="state-client-000000-000002.safetensors"):
            checkpoint.load(tmp_path, 2)
        assert described(newest(tmp_path)) == described(first)

    def test_after_damage_the_repeated_round_writes_them_again(self, tmp_path, three_rounds):
        """What is dropped first, as a run's folder does when it is opened."""
        first, second, _ = three_rounds
        for each in (first, second):
            checkpoint.save(tmp_path, each, {})
        flip(tmp_path / "state-client-000000-000002.safetensors")
        give_up(tmp_path, 2)
        assert "state-client-000000-000002.safetensors" not in files(tmp_path)
        checkpoint.save(tmp_path, second, {})
        assert described(newest(tmp_path)) == described(second)

    def test_are_dropped_with_the_last_state_that_needs_them(self, tmp_path, three_rounds):
        for each in three_rounds:
            checkpoint.save(tmp_path, each, {})
        assert sorted(checkpoint.drop(tmp_path, 1)) == [
            "state-000001.safetensors",
            "state-000001.sha256",
            "state-client-000000-000001.safetensors",
        ]
        kept = ["state-client-000000-000002.safetensors", "state-client-000001-000001.safetensors"]
        assert memory_files(tmp_path) == kept
        checkpoint.drop(tmp_path, 2)
        assert memory_files(tmp_path) == kept
        checkpoint.drop(tmp_path, 3)
        assert files(tmp_path) == []

    def test_are_dropped_with_a_newer_state_that_is_given_up(self, tmp_path, three_rounds):
        for each in three_rounds[:2]:
            checkpoint.save(tmp_path, each, {})
        give_up(tmp_path, 2)
        assert memory_files(tmp_path) == [
            "state-client-000000-000001.safetensors",
            "state-client-000001-000001.safetensors",
        ]
        assert described(newest(tmp_path)) == described(three_rounds[0])

    @pytest.mark.parametrize(("owner", "name", "count"), [*STEPS, (checkpoint, "save_file", 1)])
    def test_a_kill_at_any_step_of_writing_keeps_the_round_before(
        self, tmp_path, monkeypatch, three_rounds, owner, name, count
    ):
        first, second, third = three_rounds
        checkpoint.save(tmp_path, first, {})
        with monkeypatch.context() as patch:
            kill_before_call(patch, owner, name, count)
            with pytest.raises(Killed):
                checkpoint.save(tmp_path, second, {})
        assert newest(tmp_path).rounds_done in (1, 2)
        assert described(checkpoint.load(tmp_path, 1)) == described(first)
        for each in (second, third):
            checkpoint.save(tmp_path, each, {})
            assert described(newest(tmp_path)) == described(each)
