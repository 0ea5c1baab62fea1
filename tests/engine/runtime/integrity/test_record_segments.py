"""Records of long runs are in segments, and end as the same bytes as in one file."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.integrity import record_files
from fedgrid.engine.runtime.integrity.record_files import RecordFiles, read_records, segments
from fedgrid.engine.runtime.run.run_folder import RunFolder
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.times import times_of
from fedgrid.parquet_files import run_id_of
from fedgrid.record_columns import schemas
from fedgrid.tracking.records import RecordsError, num_rounds, table
from tests.helpers.run_folders import (
    ROUNDS,
    TABLES,
    aside,
    config,
    content,
    open_folder,
    progress,
    record,
    run_folder,
    save,
)

LONG = 7
"""Rounds: one file with two, then segments that start with rounds 3, 5 and 7."""


@pytest.fixture
def whole(tmp_path):
    """Return the files of a finished run whose records never were in segments."""
    folder, _ = open_folder(tmp_path / "whole")
    save(folder, *range(1, ROUNDS + 1))
    folder.finish()
    return content(folder.path)


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
    seen = {name: table(path, name)["round"].unique().to_pylist() for name in schemas()}
    assert read_records(path, "timings", schemas()["timings"])["round"].to_pylist() == seen["timings"]
    assert times_of(path).rounds == len(seen["timings"])
    assert num_rounds(path) == len(seen["rounds"])
    return seen["clients"]


def test_a_round_is_written_with_at_most_one_round_more_than_a_segment(tmp_path, two_rounds_a_file):
    folder = open_folder(tmp_path)[0]
    save(folder, *range(1, LONG + 1))
    for name in ("rounds", "clients", "timings"):
        files = [f"{name}.parquet", *(f"{name}-00000{start}.parquet" for start in (3, 5, 7))]
        assert [rounds_in(folder.path / file) for file in files] == [[1, 2], [3, 4], [5, 6], [7]]
    assert rounds_seen(folder.path) == list(range(1, LONG + 1))


@pytest.mark.parametrize("together", [1, 3, ROUNDS])
def test_a_finished_run_has_the_bytes_of_one_without_segments(tmp_path, whole, two_rounds_a_file, together):
    """Whether its rounds are saved one by one or several together."""
    folder, _ = open_folder(tmp_path)
    rounds = [(record(number), progress(number)) for number in range(1, ROUNDS + 1)]
    for first in range(0, ROUNDS, together):
        folder.save(rounds[first : first + together])
    assert segments(folder.path) == [f"{name}-000003.parquet" for name in sorted(schemas())]
    folder.finish()
    assert content(folder.path) == whole


def test_joined_row_groups_are_those_of_one_table(tmp_path, monkeypatch):
    monkeypatch.setattr(record_files, "GROUP_ROWS", 5)
    schema = pa.schema({"round": pa.int32(), "name": pa.string()})
    rows = [{"round": number, "name": f"{number % 2}"} for number in range(1, 14)]
    parts = [pa.Table.from_pylist(rows[start : start + 3], schema=schema) for start in range(0, 13, 3)]
    for start, part in zip((1, 4, 7, 10, 13), parts, strict=True):
        name = record_files.name_of("clients", start)
        pq.write_table(
            record_files.stamped(part, run_id_of(tmp_path)), tmp_path / name, write_page_checksum=True
        )
    expected = tmp_path / "expected"
    every = record_files.stamped(pa.Table.from_pylist(rows, schema=schema), run_id_of(tmp_path))
    pq.write_table(every, expected, write_page_checksum=True, row_group_size=5)
    written, gone = RecordFiles(tmp_path, {"clients": schema}).join(13)
    assert (written, len(gone)) == (["clients.parquet"], 4)
    assert (tmp_path / "clients.parquet").read_bytes() == expected.read_bytes()
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
    """Four rounds, the last three in segments; killed in the last two or at the end.

    Each of the two renames five files and deletes two of an old state. The end renames three tables, deletes
    nine segments and renames two marks: 28 steps, and from the second table on `clients` is joined.
    """
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    save(open_folder(tmp_path / "half")[0], 1, 2)
    joined = 0
    for last in range(1, 1000):
        root = shutil.copytree(tmp_path / "half", tmp_path / str(last))
        folder, _ = open_folder(root)
        try:
            with monkeypatch.context() as patch:
                killed_at(patch, last)
                save(folder, 3, 4)
                folder.finish()
            break
        except Killed:
            seen = rounds_seen(folder.path)
            assert seen == list(range(1, max(seen) + 1))
            joined += rounds_in(folder.path / "clients.parquet") == [1, 2, 3, 4]
            folder, kept = open_folder(root)
            assert kept.rounds_done >= 2
            save(folder, *range(kept.rounds_done + 1, ROUNDS + 1))
            if not folder.is_done:
                folder.finish()
            assert content(folder.path) == whole, last
    assert (last, joined) == (28 + 1, 13)


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:100])])
@pytest.mark.parametrize("name", TABLES)
def test_damaged_segment_restarts_the_run(tmp_path, whole, two_rounds_a_file, name, damage):
    folder, _ = open_folder(tmp_path)
    save(folder, 1, 2, 3)
    segment = folder.path / name.replace(".", "-000003.")
    damage(segment)
    there = segment.exists()
    folder, kept = open_folder(tmp_path)
    assert kept is None or kept.rounds_done == 2
    assert there == (segment.name in aside(folder.path))
    save(folder, *range(1 if kept is None else 3, ROUNDS + 1))
    folder.finish()
    assert content(folder.path) == whole


def test_rounds_after_an_older_state_are_written_anew(tmp_path, two_rounds_a_file):
    """Round 2 is run again, perhaps by other code; it stays in its file, which was complete."""
    folder, _ = open_folder(tmp_path)
    save(folder, 1, 2)
    (folder.path / "state-000002.safetensors").write_bytes(b"")
    folder, kept = open_folder(tmp_path)
    assert kept.rounds_done == 1
    other = record(2)
    folder.save([(replace(other, round={**other.round, "temperature": 0.9}), progress(2))])
    save(folder, 3)
    assert table(folder.path, "rounds")["temperature"].to_pylist() == [0.5, 0.9, 0.25]


def test_a_run_that_lacks_a_round_is_not_joined(tmp_path, one_round_a_file):
    folder, _ = open_folder(tmp_path)
    save(folder, 1, 2, 3)
    with pytest.raises(RunError, match=f"its records end with round 3 of {ROUNDS}"):
        folder.finish()
    assert rounds_in(folder.path / "clients.parquet") == [1]
    assert not folder.is_done


def test_segments_are_at_the_uri_until_they_are_joined(tmp_path, monkeypatch, whole, one_round_a_file):
    monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / "here"))
    storage = Storage.of(f"local://{tmp_path / 'bucket'}")
    folder = RunFolder(storage, config())
    folder.open()
    save(folder, 1, 2)
    monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / "elsewhere"))
    folder = RunFolder(Storage.of(storage.uri), config())
    assert folder.open().rounds_done == 2
    save(folder, 3, 4)
    there = tmp_path / "bucket" / folder.path.name
    assert rounds_seen(there) == [1, 2, 3, 4]
    folder.finish()
    assert content(there) == content(folder.path) == whole


def test_reader_of_a_folder_without_records_names_the_file(tmp_path):
    with pytest.raises(RecordsError, match=r"no rounds\.parquet in "):
        table(tmp_path, "rounds")
    assert num_rounds(run_folder(tmp_path).path) == 0
