"""A run is what its manifest lists; readers meet its writer at any moment, and damage is named."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedgrid.manifest import (
    CONFIG,
    MANIFEST,
    BadRun,
    FileEntry,
    Manifest,
    ProvenancePart,
    open_listed,
    read_manifest,
    read_segment,
    read_segments,
)
from fedgrid.sealed_json import OtherLayout


def segment(folder, first, last):
    """Write rounds `first` to `last` of the table `rounds`; return the file's name and entry."""
    name = f"rounds-{first:06d}-{last:06d}-0123abcd.parquet"
    pq.write_table(pa.table({"round": range(first, last + 1)}), folder / name)
    return name, FileEntry.from_bytes((folder / name).read_bytes())


@pytest.fixture
def folder(tmp_path):
    """The folder of a run `x1` after round 3."""
    folder = tmp_path / "run-x1"
    folder.mkdir()
    (folder / CONFIG).write_text("{}")
    files = dict([segment(folder, 1, 3)]) | {CONFIG: FileEntry.from_bytes(b"{}")}
    (folder / MANIFEST).write_text(Manifest("x1", 5, 3, files=files).to_text())
    return folder


def rounds_of(folder, read=read_segment):
    rows = read_segments(folder, "rounds", lambda manifest, name: read(folder, manifest, name, list_all))
    return rows["round"].to_pylist()


def list_all(schema):
    return schema.names


def test_what_is_written_is_read(folder):
    manifest = replace(
        read_manifest(folder), states={2: ["a"], 3: ["b", "c"]}, made_with=(ProvenancePart(1, {"code": "x"}),)
    )
    assert Manifest.from_text(manifest.to_text()) == manifest
    assert rounds_of(folder) == [1, 2, 3]


def test_reader_whose_file_is_replaced_meanwhile_reads_the_new_one(folder):
    """The writer goes on by two rounds between the reader's looks at the manifest and at the file."""
    before = read_manifest(folder)

    def read(where, manifest, name, choose):
        if manifest == before:
            (folder / name).unlink()
            later = dict([segment(folder, 1, 5)])
            (folder / MANIFEST).write_text(replace(before, rounds_done=5, files=later).to_text())
        return read_segment(where, manifest, name, choose)

    assert rounds_of(folder, read) == [1, 2, 3, 4, 5]


def test_needed_are_all_files_but_those_of_older_states():
    entry = FileEntry(0, "")
    files = dict.fromkeys(("config.json", "old", "shared", "new"), entry)
    manifest = Manifest("x1", 5, 2, states={1: ["old", "shared"], 2: ["new", "shared"]}, files=files)
    assert manifest.list_needed_files() == {"config.json", "shared", "new"}
    assert Manifest("x1", 5).list_needed_files() == set()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda path: path.unlink(), "it is missing"),
        (lambda path: path.write_bytes(b"[]"), "its bytes differ"),
        (lambda path: path.write_bytes(b"{}\n"), "it has 3 bytes, not 2"),
    ],
)
def test_damaged_file_is_named(folder, change, why):
    change(folder / CONFIG)
    with pytest.raises(BadRun, match=why) as error:
        open_listed(folder, read_manifest(folder), CONFIG)
    assert error.value.path == folder / CONFIG


def test_file_that_is_not_listed_is_not_read(folder):
    (folder / "log.txt").write_text("")
    with pytest.raises(BadRun, match="does not list it"):
        open_listed(folder, read_manifest(folder), "log.txt")


def test_no_manifest_is_no_run_but_damage_beside_files_of_one(folder):
    (folder / MANIFEST).unlink()
    with pytest.raises(BadRun, match="it is missing"):
        read_manifest(folder)
    for path in folder.glob("*.parquet"):
        path.unlink()
    with pytest.raises(FileNotFoundError):
        read_manifest(folder)
    (folder / "done.json").touch()
    with pytest.raises(OtherLayout):
        read_manifest(folder)


def test_manifest_of_another_run_is_damage(folder):
    with pytest.raises(BadRun, match="it is of run x1, not x2"):
        read_manifest(folder.rename(folder.with_name("run-x2")))
