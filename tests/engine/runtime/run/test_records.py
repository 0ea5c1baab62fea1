"""Records of runs that go on are in segments, and end as the same bytes as in one file."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.run import records as record_files
from fedgrid.engine.runtime.run.records import Records, read_records
from fedgrid.engine.runtime.run.run_folder import RunFolder
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.times import read_times
from fedgrid.manifest import FileEntry, Manifest, read_manifest
from fedgrid.record_columns import build_schemas
from fedgrid.tracking.records import count_rounds, read_table
from tests.helpers.run_folders import (
    ROUNDS,
    TABLES,
    config,
    make_progress,
    open_folder,
    read_content,
    record,
    save_rounds,
    strip_checksum,
)

LONG = 7
"""Rounds: one file with two, then segments that start with rounds 3, 5 and 7."""


@pytest.fixture
def whole(tmp_path):
    """Return the files of a finished run whose records never were in segments."""
    folder, _ = open_folder(tmp_path / "whole")
    save_rounds(folder, *range(1, ROUNDS + 1))
    folder.finish()
    return read_content(folder.path)


@pytest.fixture
def two_rounds_a_file(monkeypatch):
    monkeypatch.setattr(record_files, "SEGMENT_ROWS", 6)


@pytest.fixture
def one_round_a_file(monkeypatch):
    monkeypatch.setattr(record_files, "SEGMENT_ROWS", 3)


def rounds_in(path):
    return pq.read_table(path)["round"].unique().to_pylist()


def rounds_seen(path):
    """Return the rounds that a reader of a run that goes on sees: engine, grids and tracking."""
    seen = {name: read_table(path, name)["round"].unique().to_pylist() for name in build_schemas()}
    assert read_records(path, "timings", build_schemas()["timings"])["round"].to_pylist() == seen["timings"]
    assert read_times(path).rounds == len(seen["timings"])
    assert count_rounds(path) == len(seen["rounds"])
    return seen["clients"]


def test_a_round_is_written_with_at_most_one_round_more_than_a_segment(tmp_path, two_rounds_a_file):
    folder, _ = open_folder(tmp_path, rounds=LONG + 1)
    save_rounds(folder, *range(1, LONG + 1))
    for name in ("rounds", "clients", "timings"):
        files = read_manifest(folder.path).list_segments(name)
        assert [strip_checksum(file) for file in files] == [
            f"{name}-00000{start}-00000{end}.parquet" for start, end in ((1, 2), (3, 4), (5, 6), (7, 7))
        ]
        assert [rounds_in(folder.path / file) for file in files] == [[1, 2], [3, 4], [5, 6], [7]]
    assert rounds_seen(folder.path) == list(range(1, LONG + 1))


@pytest.mark.parametrize("together", [1, 3])
def test_a_finished_run_has_the_bytes_of_one_without_segments(tmp_path, whole, two_rounds_a_file, together):
    """Whether its rounds are saved one by one or several together."""
    folder, _ = open_folder(tmp_path)
    rounds = [(record(number), make_progress(number)) for number in range(1, ROUNDS + 1)]
    for first in range(0, ROUNDS, together):
        folder.save_rounds(rounds[first : first + together])
    folder.finish()
    assert read_content(folder.path) == whole


def test_joined_row_groups_are_those_of_one_table(tmp_path, monkeypatch):
    monkeypatch.setattr(record_files, "GROUP_ROWS", 5)
    schema = pa.schema({"round": pa.int32(), "name": pa.string()})
    rows = [{"round": number, "name": f"{number % 2}"} for number in range(1, 14)]
    written = Records(tmp_path, {"clients": schema})
    files = {}
    for start in range(0, 13, 3):
        written.begin_files(start + 1)
        for row in rows[start : start + 3]:
            written.add_round(row["round"], {"clients": [row]})
        files |= written.build_newest_files()
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    manifest = Manifest("", 13, files={name: FileEntry.from_bytes(data) for name, data in files.items()})
    expected = tmp_path / "expected"
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), expected, row_group_size=5)
    written.build_joined_files(manifest, 13)["clients.parquet"](tmp_path / "joined")
    assert (tmp_path / "joined").read_bytes() == expected.read_bytes()
    assert pq.read_metadata(expected).num_row_groups == 3


def test_pyarrow_writes_row_groups_of_the_size_that_is_assumed(tmp_path):
    rows = pa.table({"round": pa.nulls(record_files.GROUP_ROWS + 1, pa.int32())})
    pq.write_table(rows, tmp_path / "rows")
    about = pq.read_metadata(tmp_path / "rows")
    assert [about.row_group(number).num_rows for number in range(2)] == [record_files.GROUP_ROWS, 1]


class Killed(BaseException):
    """Stands for `kill -9`."""


def killed_at(patch, last):
    """Kill this process after it has renamed or deleted a file for the `last`th time."""
    count = 0

    def counted(plain):
        def step(*given, **more):
            nonlocal count
            plain(*given, **more)
            count += 1
            if count == last:
                raise Killed

        return step

    patch.setattr(Path, "replace", counted(Path.replace))
    patch.setattr(Path, "unlink", counted(Path.unlink))


def test_a_kill_between_any_two_steps_leaves_the_same_bytes(tmp_path, monkeypatch, whole, one_round_a_file):
    """Four rounds, each in segments of its own; killed in the last two or at the end.

    Round 3 renames four files and two manifests, and deletes the state before the last. Round 4 does so too,
    with its joined tables. The end renames two manifests, and deletes the nine segments.
    """
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    save_rounds(open_folder(tmp_path / "half")[0], 1, 2)
    for last in range(1, 1000):
        root = shutil.copytree(tmp_path / "half", tmp_path / str(last))
        folder, _ = open_folder(root)
        try:
            with monkeypatch.context() as patch:
                killed_at(patch, last)
                save_rounds(folder, 3, 4)
                folder.finish()
            break
        except Killed:
            seen = rounds_seen(folder.path)
            assert seen == list(range(1, max(seen) + 1))
            folder, kept = open_folder(root)
            assert kept.rounds_done == max(seen) >= 2
            save_rounds(folder, *range(kept.rounds_done + 1, ROUNDS + 1))
            folder.finish()
            assert read_content(folder.path) == whole, last
            assert {path.name for path in folder.path.iterdir()} == OF_FINISHED, last
    assert last == 2 * 7 + 11 + 1


OF_FINISHED = {
    *("config.json", "log.txt", "manifest.json", "manifest-before.json", *TABLES),
    *("state-000003.safetensors", "state-000004.safetensors"),
}


def test_rounds_after_an_older_state_are_written_anew(tmp_path, two_rounds_a_file):
    """Round 2 is run again, perhaps by other code; it stays in its file, which was complete."""
    folder, _ = open_folder(tmp_path)
    save_rounds(folder, 1, 2)
    (folder.path / "state-000002.safetensors").write_bytes(b"")
    folder, kept = open_folder(tmp_path)
    assert kept.rounds_done == 1
    other = record(2)
    folder.save_rounds([(replace(other, round={**other.round, "temperature": 0.9}), make_progress(2))])
    save_rounds(folder, 3)
    assert read_table(folder.path, "rounds")["temperature"].to_pylist() == [0.5, 0.9, 0.25]


def test_a_run_that_lacks_a_round_is_not_finished(tmp_path):
    folder, _ = open_folder(tmp_path)
    save_rounds(folder, 1, 2, 3)
    with pytest.raises(RunError, match=f"its records end with round 3 of {ROUNDS}"):
        folder.finish()
    assert not folder.is_done


def test_segments_are_at_the_uri_until_they_are_joined(bucket, machine, whole, one_round_a_file):
    folder = RunFolder(machine("here"), config())
    folder.open()
    save_rounds(folder, 1, 2)
    folder = RunFolder(machine("elsewhere"), config())
    assert folder.open().rounds_done == 2
    save_rounds(folder, 3, 4)
    there = bucket / folder.path.name
    assert rounds_seen(there) == [1, 2, 3, 4]
    folder.finish()
    assert read_content(there) == read_content(folder.path) == whole
    assert {path.name for path in there.iterdir()} == OF_FINISHED


def test_run_whose_first_files_were_not_sent_begins_again(monkeypatch, bucket, machine):
    storage = machine("here")
    with monkeypatch.context() as patch:
        patch.setattr(Storage, "push", lambda *_: None)
        RunFolder(storage, config()).open()
    folder = RunFolder(storage, config())
    assert folder.open() is None
    save_rounds(folder, 1)
    assert read_manifest(bucket / folder.path.name).rounds_done == 1
