"""A run's folder has the same bytes after interruptions, damaged files and concurrent writers."""

import json
import os
import re
import resource
from dataclasses import replace
from errno import EIO, ENOSPC
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from fedgrid.engine.federation.errors import ConfigError, RunError, StorageError
from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.runtime.run.failure import Failure
from fedgrid.engine.runtime.storage import atomic
from fedgrid.engine.runtime.storage.format import unseal_file
from fedgrid.manifest import MANIFEST, PREVIOUS_MANIFEST, FileEntry, read_manifest
from fedgrid.record_columns import build_schemas
from tests.helpers.manifests import list_files
from tests.helpers.run_folders import (
    ROUNDS,
    TABLES,
    config,
    find_records,
    list_damaged,
    make_progress,
    open_folder,
    read_content,
    record,
    run_folder,
    save_rounds,
)


@pytest.fixture
def uninterrupted(tmp_path):
    folder, kept = open_folder(tmp_path / "uninterrupted")
    assert kept is None
    save_rounds(folder, *range(1, ROUNDS + 1))
    return read_content(folder.path)


def test_files_of_a_run_folder(uninterrupted):
    assert sorted(uninterrupted) == [
        "clients.parquet",
        "config.json",
        "manifest",
        "rounds.parquet",
        "state-000003.safetensors",
        "state-000004.safetensors",
        "timings.parquet",
    ]
    assert json.loads(uninterrupted["config.json"]) == {"format": FORMAT, **config().model_dump(mode="json")}


def test_records_have_one_row_per_round_and_per_client(tmp_path):
    folder, _ = open_folder(tmp_path)
    save_rounds(folder, 1, 2)
    rounds, clients, timings = (
        pq.read_table(path).to_pylist() for path in find_records(folder.path).values()
    )
    assert [row["round"] for row in rounds] == [row["round"] for row in timings] == [1, 2]
    assert [(row["round"], row["client"]) for row in clients] == [(n, c) for n in (1, 2) for c in range(3)]
    assert (rounds[0]["mean_norm"], rounds[1]["mean_norm"]) == (None, 0.1)
    assert clients[0]["local_own_recall"] is None
    assert clients[3]["local_own_recall"] == pytest.approx([2 / 3, np.nan], nan_ok=True)
    assert clients[2]["update_norm"] == np.inf
    assert timings[0]["peak_memory_mb"] == 300.0


def test_a_run_resumed_after_each_round_leaves_the_same_bytes(tmp_path, uninterrupted):
    folder, _ = open_folder(tmp_path / "resumed")
    for number in range(1, ROUNDS + 1):
        save_rounds(folder, number)
        folder, kept = open_folder(tmp_path / "resumed")
        assert kept.rounds_done == number
    assert read_content(folder.path) == uninterrupted


EARLIER = {
    "rounds": ["silhouette", "bytes_up"],
    "clients": ["part", "placed", "personalised_loss"],
    "timings": ["computed_by", "reached_clients", "trained_clients", "waited_seconds", "uncached_seconds"],
}
"""Columns that an earlier version might not have recorded."""


def test_resumed_run_has_nulls_in_columns_that_an_earlier_version_did_not_record(tmp_path):
    folder, _ = open_folder(tmp_path)
    save_rounds(folder, 1, 2)
    for name, path in find_records(folder.path).items():
        pq.write_table(pq.read_table(path).drop_columns(EARLIER[name]), path)
    list_files(folder.path)
    folder, kept = open_folder(tmp_path)
    assert kept.rounds_done == 2
    save_rounds(folder, 3)
    now = find_records(folder.path)
    clients = pq.read_table(now["clients"]).to_pylist()
    assert [row["part"] for row in clients[3:]] == [None] * 3 + ["trained", "trained", "excluded"]
    rounds = pq.read_table(now["rounds"])
    assert rounds["bytes_up"].to_pylist() == [None, None, 10]
    assert rounds.schema.equals(build_schemas()["rounds"])


def remove(path):
    path.unlink()


def flip(path):
    """Flip a bit of a table's numbers, which only a checksum reveals."""
    whole = bytearray(path.read_bytes())
    whole[30] ^= 1
    path.write_bytes(whole)


STATE = "state-{:06d}.safetensors".format
DAMAGED = {
    "the newest state": (3, [STATE(3)], 2, {STATE(3)}),
    **{f"{table} of a run that goes on": (3, [table], 2, {STATE(3), table}) for table in build_schemas()},
    **{
        f"{table} of a finished run": (ROUNDS, [table], 0, {MANIFEST, *build_schemas(), STATE(3), STATE(4)})
        for table in build_schemas()
    },
    "the manifest": (2, [MANIFEST], 1, {MANIFEST}),
    "the manifest of a finished run": (ROUNDS, [MANIFEST], ROUNDS, {MANIFEST}),
    "both manifests": (2, [MANIFEST, PREVIOUS_MANIFEST], 0, {MANIFEST, *build_schemas(), STATE(1), STATE(2)}),
}
"""Rounds that were saved, what is damaged, rounds that are left, and what is set aside if it is there."""


@pytest.mark.parametrize("damage", [remove, flip])
@pytest.mark.parametrize(("rounds", "names", "left", "set_aside"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_file_costs_the_rounds_that_need_it(
    tmp_path, uninterrupted, rounds, names, left, set_aside, damage
):
    folder, _ = open_folder(tmp_path)
    save_rounds(folder, *range(1, rounds + 1))
    if rounds == ROUNDS:
        folder.finish()
    paths = [find_records(folder.path).get(name, folder.path / name) for name in names]
    for path in paths:
        damage(path)
    assert (folder.find_damage() is None) == (names == [STATE(3)]), "of states only the sizes are compared"
    folder, kept = open_folder(tmp_path)
    assert (kept.rounds_done if kept else 0) == left
    found = {re.sub(r"(-0.*)?\.parquet", "", name) for name in list_damaged(folder.path)}
    assert found == set_aside - (set(names) if damage is remove else set())
    log = (folder.path / "log.txt").read_text()
    assert log.count(f"warning: {paths[0]} is damaged (") == 1
    save_rounds(folder, *range(left + 1, ROUNDS + 1))
    assert read_content(folder.path) == uninterrupted


@pytest.mark.parametrize("name", ["clients", "timings", "state-000003.safetensors", MANIFEST])
def test_file_that_the_disk_does_not_give_is_not_taken_for_damaged(tmp_path, monkeypatch, name):
    """Once the disk is mended, the run continues from its last round."""
    folder, _ = open_folder(tmp_path)
    save_rounds(folder, 1, 2, 3)
    before = read_content(folder.path)
    name = find_records(folder.path).get(name, folder.path / name).name

    def failing(path, *given, plain=Path.open, **options):
        if path.name == name:
            raise OSError(EIO, os.strerror(EIO))
        return plain(path, *given, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", failing)
        with pytest.raises(StorageError, match=f"^{re.escape(str(folder.path / name))} cannot be read: Inp"):
            open_folder(tmp_path)
    assert (read_content(folder.path), list_damaged(folder.path)) == (before, [])
    assert open_folder(tmp_path)[1].rounds_done == 3


def test_run_with_only_damaged_states_is_refused(tmp_path):
    folder, _ = open_folder(tmp_path)
    save_rounds(folder, 1, 2)
    for number in (1, 2):
        flip(folder.path / f"state-{number:06d}.safetensors")
    with pytest.raises(RunError, match=f"move {re.escape(str(folder.path))} away") as refusal:
        open_folder(tmp_path)
    for number in (1, 2):
        assert f"{folder.path}/state-{number:06d}.safetensors is damaged (" in str(refusal.value)


def test_finished_run_whose_states_were_deleted_restarts_if_its_records_are_damaged(tmp_path):
    folder, _ = open_folder(tmp_path)
    save_rounds(folder, 1, 2, 3, 4)
    folder.finish()
    for state in folder.path.glob("state-*"):
        state.unlink()
    flip(folder.path / "rounds.parquet")
    assert open_folder(tmp_path)[1] is None


@pytest.mark.parametrize("name", ["done.json", "state-000002.sha256"])
def test_run_of_the_first_layout_is_refused_in_one_line_and_left_alone(tmp_path, name):
    folder = run_folder(tmp_path)
    folder.path.mkdir()
    (folder.path / name).write_text("")
    for refuse in (folder.open, folder.load_manifest):
        with pytest.raises(ConfigError, match=r"layout 1; this one reads layout 2.*--storage[^\n]*$"):
            refuse()
    assert [path.name for path in folder.path.iterdir()] == [name]


def test_memories_are_written_when_they_change_and_go_with_the_last_state_that_needs_them(tmp_path):
    """Client 0 trains in rounds 1 and 2, client 1 in round 1."""
    folder, _ = open_folder(tmp_path)
    state = make_progress(0)
    for number, clients in ((1, (0, 1)), (2, (0,)), (3, ())):
        memories = {client: {"c": np.full(2, number)} for client in clients}
        state = state.advance_round(make_progress(number).state, memories)
        folder.save_rounds([(record(number), state)])
        if number == 1:
            inode = (folder.path / "state-client-000001-000001.safetensors").stat().st_ino
    names = [path.name for path in folder.path.glob("state-client-*")]
    assert sorted(names) == [
        "state-client-000000-000002.safetensors",
        "state-client-000001-000001.safetensors",
    ]
    assert (folder.path / "state-client-000001-000001.safetensors").stat().st_ino == inode
    flip(folder.path / "state-client-000000-000002.safetensors")
    with pytest.raises(RunError, match="every state is damaged"):
        open_folder(tmp_path)


def test_round_that_another_process_stores_meanwhile_is_skipped(tmp_path, monkeypatch, uninterrupted):
    """The faster writer stores round 3 between the slower one's files and its manifest."""
    slow, _ = open_folder(tmp_path)
    save_rounds(slow, 1, 2)
    fast, _ = open_folder(tmp_path)
    put = slow._put_files

    def put_late(files):
        entries = put(files)
        save_rounds(fast, 3)
        return entries

    with monkeypatch.context() as patch:
        patch.setattr(slow, "_put_files", put_late)
        save_rounds(slow, 3)
    assert read_manifest(slow.path).rounds_done == 3
    save_rounds(slow, 4)
    assert read_content(slow.path) == uninterrupted


def test_a_folder_of_another_configuration_is_refused_and_left_alone(tmp_path):
    folder, _ = open_folder(tmp_path)
    save_rounds(folder, 1)
    config_file = folder.path / "config.json"
    config_file.write_text(config_file.read_text().replace("digits", "mnist"))
    before = read_content(folder.path)
    message = f"{config_file} is damaged, or of another fedgrid; update fedgrid, or move {folder.path} away"
    for refuse in (folder.check_config, folder.open):
        with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
            refuse()
    assert read_content(folder.path) == before


def test_a_run_is_done_once_it_is_marked(tmp_path):
    folder, _ = open_folder(tmp_path)
    save_rounds(folder, 1, 2, 3, 4)
    assert not folder.is_done
    folder.finish()
    assert folder.is_done
    mark = read_manifest(folder.path)
    names = ["config.json", *TABLES, *(f"state-{number:06d}.safetensors" for number in (3, 4))]
    assert sorted(mark.files) == sorted(names)
    for name in names:
        data = (folder.path / name).read_bytes()
        assert mark.files[name] == FileEntry.from_bytes(data)
    assert (mark.run_id, mark.rounds, mark.rounds_done) == (config().run_id, ROUNDS, ROUNDS)


def test_rounds_done_are_those_of_the_manifest(tmp_path):
    folder = run_folder(tmp_path)
    assert folder.rounds_done == 0
    folder.open()
    assert run_folder(tmp_path).rounds_done == 0
    save_rounds(folder, 1, 2, 3)
    assert run_folder(tmp_path).rounds_done == 3
    save_rounds(folder, 4)
    folder.finish()
    for state in folder.path.glob("state-*"):
        state.unlink()
    assert run_folder(tmp_path).rounds_done == ROUNDS


def test_failure_mark_stays_until_the_run_is_opened(tmp_path):
    folder = run_folder(tmp_path)
    assert folder.read_failure() is None
    folder.mark_failed("client 2, round 1: out of memory", 3)
    assert unseal_file(folder.path / "failed.json") == {
        "run_id": config().run_id,
        "cause": "client 2, round 1: out of memory",
        "attempts": 3,
    }
    assert run_folder(tmp_path).read_failure() == Failure("client 2, round 1: out of memory", 3)
    folder.open()
    assert folder.read_failure() is None


def test_a_damaged_mark_of_failure_still_says_failed(tmp_path):
    folder, _ = open_folder(tmp_path)
    (folder.path / "failed.json").write_text("{")
    assert folder.read_failure() == Failure("failed.json is damaged; see log.txt", 0)


def test_warnings_are_in_the_log(tmp_path):
    folder, _ = open_folder(tmp_path)
    save_rounds(folder, 1)
    log = (folder.path / "log.txt").read_text()
    assert log.endswith("warning: round 1: client 2 left out, its update is NaN or infinite\n")


def test_partial_files_are_deleted_and_not_taken_for_states(tmp_path):
    folder = run_folder(tmp_path)
    folder.path.mkdir()
    for name in ("state-000009.safetensors", "rounds.parquet", "config.json"):
        (folder.path / f"{name}{atomic.PARTIAL}99-abcdef01").write_bytes(b"half")
    assert folder.open() is None
    assert {path.name for path in folder.path.iterdir()} == {"config.json", MANIFEST, PREVIOUS_MANIFEST}


def full_from(monkeypatch, count):
    """Make the disk full at the `count`-th flushed file and at all later ones."""
    flush, calls = atomic.flush_to_disk, iter(range(100))

    def flush_until_full(path):
        if next(calls) >= count:
            raise OSError(ENOSPC, "No space left on device", str(path))
        flush(path)

    monkeypatch.setattr(atomic, "flush_to_disk", flush_until_full)


@pytest.mark.parametrize("count", range(6))
def test_full_disk_is_named_and_the_run_continues_from_the_last_state(
    tmp_path, monkeypatch, uninterrupted, count
):
    folder, _ = open_folder(tmp_path)
    save_rounds(folder, 1, 2)
    message = f"the disk of {folder.path} is full; free some space"
    with monkeypatch.context() as patch:
        full_from(patch, count)
        with pytest.raises(RunError, match=f"^{re.escape(message)}"):
            save_rounds(folder, 3)
    assert not list(folder.path.glob(f"*{atomic.PARTIAL}*"))
    folder, kept = open_folder(tmp_path)
    assert kept.rounds_done == 2
    save_rounds(folder, 3, 4)
    assert read_content(folder.path) == uninterrupted


def test_other_disk_errors_are_reported_in_one_line(tmp_path):
    """A limit of 3,000 bytes on the size of a file stops only the state."""
    folder, _ = open_folder(tmp_path)
    big = make_progress(1)
    big = replace(big, state=replace(big.state, models=(np.zeros(10_000, np.float32),)))
    small = replace(record(1), clients=[], warnings=())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, before[1]))
    try:
        with pytest.raises(RunError) as error:
            folder.save_rounds([(small, big)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(error.value).startswith(f"{folder.path} cannot be written: File too large; ")
    assert "\n" not in str(error.value)
    assert not list(folder.path.glob(f"*{atomic.PARTIAL}*"))
