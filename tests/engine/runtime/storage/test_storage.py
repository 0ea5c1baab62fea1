"""Storage in a folder, or at a URI of which each machine has a mirror."""

import os
import pickle
import re
from dataclasses import replace
from functools import partialmethod
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.registry import register_implementation

from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.runtime.storage.atomic import PARTIAL
from fedgrid.engine.runtime.storage.remote import Remote
from fedgrid.engine.runtime.storage.storage import GIVE_UP_AFTER, Storage
from fedgrid.manifest import FileEntry


class Shelf(LocalFileSystem):
    """Folders as fsspec sees them, under a scheme that pyarrow does not know: shelf:///PATH."""

    protocol = "shelf"


register_implementation("shelf", Shelf, clobber=True)

SCHEMES = ("local", "shelf")
"""pyarrow's own files, and any others through fsspec; both can be had by several processes."""


@pytest.fixture(params=SCHEMES)
def uri(request, tmp_path):
    return f"{request.param}://{tmp_path / 'bucket' / 'runs'}"


def write(storage, name, text):
    """Write a file to the mirror alone."""
    path = storage.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_path_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Storage.from_text("runs") == Storage.from_text(Path("runs")) == Storage(tmp_path / "runs", None)
    assert Storage.from_text(f"file://{tmp_path}/my%20runs") == Storage(tmp_path / "my runs", None)
    monkeypatch.setenv("HOME", "/home/me")
    assert Storage.from_text("~/runs").root == Path("/home/me/runs")


def test_path_that_is_not_utf_8_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"^--storage .* is not UTF-8, as names must be; rename it$"):
        Storage.from_text(tmp_path / os.fsdecode(b"st\xe9"))


def test_file_uri_of_another_host_is_refused():
    message = "--storage file://host/runs: a file is on this host; write file:///PATH, or PATH"
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        Storage.from_text("file://host/runs")


def test_every_uri_has_its_own_mirror(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path))
    first, second = Storage.from_text("s3://bucket/runs/"), Storage.from_text("s3://bucket/other")
    assert first == Storage.from_text("s3://bucket/runs")
    assert first.root != second.root
    assert first.root.parent == second.root.parent == tmp_path / "storage"
    assert str(first) == "s3://bucket/runs"
    monkeypatch.delenv("FEDGRID_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert Storage.from_text("s3://bucket/runs").root.parent == Path("/cache/fedgrid/storage")


def test_pickled_storage_uses_the_mirror_of_the_receiving_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / "here"))
    sent = pickle.dumps([Storage.from_text("s3://bucket/runs"), Storage.from_text(tmp_path)])
    monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / "there"))
    mirrored, plain = pickle.loads(sent)
    assert mirrored.root.is_relative_to(tmp_path / "there")
    assert plain == Storage.from_text(tmp_path)


def test_a_password_is_not_shown():
    assert str(Storage.from_text("s3://key:secret@bucket/runs")) == "s3://***@bucket/runs"


def test_plain_folder_needs_no_push_or_pull(tmp_path):
    storage = Storage.from_text(tmp_path)
    write(storage, "run/manifest.json", "{}")
    storage.push("run/manifest.json", "run/not-there")
    storage.refresh("run/not-there")
    storage.pull("run")
    storage.pull_marks()
    assert files(tmp_path) == {"run/manifest.json": "{}"}


def test_files_that_are_put_are_here_and_at_the_uri(machine, bucket):
    here = machine("here")
    entries = here.put({"run/a": b"one", "run/b/c": lambda path: path.write_bytes(b"three")})
    assert files(here.root) == files(bucket) == {"run/a": "one", "run/b/c": "three"}
    assert entries == {"run/a": FileEntry.from_bytes(b"one"), "run/b/c": FileEntry.from_bytes(b"three")}


def test_file_that_cannot_be_written_leaves_all_as_they_were(tmp_path):
    storage = Storage.from_text(tmp_path)
    storage.put({"run/a": b"one"})

    def fail(path):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        storage.put({"run/a": b"two", "run/b": fail})
    assert files(tmp_path) == {"run/a": "one"}


def test_what_one_machine_pushes_another_pulls(machine, bucket):
    here = machine("here")
    write(here, "run/rounds.parquet", "one round")
    write(here, "run/figures/a.svg", "a figure")
    write(here, "run/draft", "not pushed")
    here.push("run/rounds.parquet", "run/figures/a.svg")
    assert files(bucket) == {"run/rounds.parquet": "one round", "run/figures/a.svg": "a figure"}
    there = machine("there")
    there.pull("run")
    assert files(there.root) == files(bucket)


def test_pull_makes_a_folder_equal_to_the_uri(machine):
    here, there = machine("here"), machine("there")
    for name in ("run/log.txt", "run/old", "other/log.txt"):
        write(there, name, "of an earlier run")
    write(here, "run/log.txt", "new")
    here.push("run/log.txt")
    there.pull("run")
    assert files(there.root) == {"run/log.txt": "new", "other/log.txt": "of an earlier run"}


def test_pull_leaves_skipped_names_alone(machine):
    here, there = machine("here"), machine("there")
    for name in ("run/state-1", "run/log.txt", "run/figures/a.svg"):
        write(here, name, "new")
        here.push(name)
    write(there, "run/state-1", "old")
    there.pull("run", skip=("state-", "figures/"))
    assert files(there.root) == {"run/state-1": "old", "run/log.txt": "new"}


def test_a_file_of_the_same_size_that_has_changed_is_pulled_again(machine):
    here, there = machine("here"), machine("there")
    for text in ("one", "two"):
        write(here, "run/log.txt", text)
        here.push("run/log.txt")
        there.pull("run")
        assert files(there.root) == {"run/log.txt": text}


def test_a_file_that_has_not_changed_is_not_pulled_again(machine):
    here = machine("here")
    write(here, "run/log.txt", "text")
    here.push("run/log.txt")
    here.pull("run")
    kept = (here.root / "run/log.txt").stat()
    here.pull("run")
    assert (here.root / "run/log.txt").stat().st_ino == kept.st_ino


def test_marks_are_pulled_without_the_records(machine):
    here, there = machine("here"), machine("there")
    marks = {"storage.json", "grids/paper/runs.jsonl", "grids/paper/stop"}
    marks |= {f"run/{name}.json" for name in ("manifest", "failed", "scores", "mlflow", "config")}
    for name in (*marks, "run/rounds.parquet", "run/state-000002.safetensors", "run/figures/manifest.json"):
        write(here, name, name)
        here.push(name)
    there.pull_marks()
    assert set(files(there.root)) == marks


def test_marks_missing_at_the_uri_are_deleted(machine):
    here = machine("here")
    others = {"run/rounds.parquet", "mlartifacts/1/run/config.json", "grids/paper/figures/a.svg"}
    for name in ("run/failed.json", "grids/paper/stop", *others):
        write(here, name, "text")
    here.pull_marks()
    assert set(files(here.root)) == others


LOOKS = {
    "pull_marks": lambda storage: storage.pull_marks(),
    "pull": lambda storage: storage.pull("run"),
    "refresh": lambda storage: storage.refresh("run/config.json", "run/manifest.json"),
}
"""What other processes on this machine do with the mirror that they share."""


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_files_that_are_being_sent_stay_here(machine, monkeypatch, look):
    here = machine("here")

    def send_late(remote, path, name, send=Remote.send):
        look(here)
        send(remote, path, name)

    monkeypatch.setattr(Remote, "send", send_late)
    here.put({"run/config.json": b"new", "run/manifest.json": b"new"})
    assert set(files(here.root)) == {"run/config.json", "run/manifest.json"}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_file_that_is_new_since_the_uri_was_listed_stays_here(machine, monkeypatch, look):
    here = machine("here")

    def put_after(remote, given, find):
        found = find(remote, given)
        here.put({"run/manifest.json": b"new"})
        return found

    for name in ("list_files", "find_files"):
        monkeypatch.setattr(Remote, name, partialmethod(put_after, find=getattr(Remote, name)))
    look(here)
    assert files(here.root) == {"run/manifest.json": "new"}


def test_refresh_fetches_or_deletes_a_single_file(machine):
    here, there = machine("here"), machine("there")
    write(here, "grids/paper/stop", "")
    here.push("grids/paper/stop")
    there.refresh("grids/paper/stop")
    assert files(there.root) == {"grids/paper/stop": ""}
    here.remove("grids/paper/stop")
    assert files(here.root) == {}
    there.refresh("grids/paper/stop")
    assert files(there.root) == {}


def test_removed_link_leaves_its_folder_alone(tmp_path):
    storage = Storage.from_text(tmp_path / "runs")
    write(storage, "elsewhere/log.txt", "text")
    (storage.root / "run").symlink_to(storage.root / "elsewhere")
    storage.remove("run")
    assert files(storage.root) == {"elsewhere/log.txt": "text"}


def test_sizes_at_a_uri_ignore_the_mirror(machine, tmp_path):
    plain, here, there = Storage.from_text(tmp_path / "folder"), machine("here"), machine("there")
    assert plain.list_sizes("cache") == here.list_sizes("cache") == {}
    for name, text in (("cache/a/one", "1"), ("cache/a/b/two", "22"), ("stored", "333"), ("run/empty", "")):
        write(plain, name, text)
        write(here, name, text)
        here.push(name)
    write(there, "cache/a/one", "another length")
    write(there, "cache/a/three", "not pushed")
    for storage in (plain, here, there):
        assert storage.list_sizes("cache") == {"cache/a/one": 1, "cache/a/b/two": 2}
        assert storage.list_sizes("run") == {"run/empty": 0}
        assert storage.list_sizes("cache/a/b") == {"cache/a/b/two": 2}
    there.remove("cache/a", "not-there")
    assert here.list_sizes("cache") == {}
    assert set(files(here.root)) == {"cache/a/one", "cache/a/b/two", "stored", "run/empty"}


def test_partial_files_of_a_killed_process_are_neither_listed_nor_pulled(tmp_path, machine, bucket):
    half = f"cache/log.txt{PARTIAL}1-ab"
    plain, here = Storage.from_text(tmp_path / "folder"), machine("here")
    write(plain, half, "half")
    (bucket / "cache").mkdir(parents=True)
    (bucket / half).write_text("half")
    assert plain.list_sizes("cache") == here.list_sizes("cache") == {}
    here.pull("cache")
    assert files(here.root) == {}


def test_sizes_omit_files_deleted_meanwhile(tmp_path, monkeypatch):
    storage = Storage.from_text(tmp_path)
    write(storage, "cache/gone", "text")
    listed = Storage._list_folder

    def late(self, folder):
        found = listed(self, folder)
        (tmp_path / "cache" / "gone").unlink()
        return found

    monkeypatch.setattr(Storage, "_list_folder", late)
    assert storage.list_sizes("cache") == {}


def test_sizes_of_a_uri_that_cannot_be_read_are_an_error_in_one_line(machine, uri, monkeypatch):
    def refused(*_):
        raise OSError("Access Denied\nRequest 12")

    monkeypatch.setattr(Remote, "list_files", refused)
    message = f"{uri} cannot be read (Access Denied); run the same command again to continue"
    with pytest.raises(RunError, match=f"^{re.escape(message)}$"):
        machine("here").list_sizes("cache")


def test_check_writable_leaves_no_file(machine, bucket, tmp_path):
    machine("here").check_writable()
    assert not any(path.is_file() for path in tmp_path.rglob("*"))
    bucket.mkdir(parents=True, exist_ok=True)
    machine("here").check_writable()
    assert list(bucket.iterdir()) == []
    Storage.from_text(tmp_path / "a" / "b").check_writable()
    assert not (tmp_path / "a").exists()


def test_check_writable_refuses_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / "cache"))
    (tmp_path / "file").write_text("")
    for text in (
        str(tmp_path / "file"),
        str(tmp_path / "file" / "runs"),
        f"local://{tmp_path / 'file' / 'runs'}",
    ):
        message = rf"^--storage {re.escape(text)}(: .* is a file, .* name another| cannot be written to: .*)$"
        with pytest.raises(ConfigError, match=message):
            Storage.from_text(text).check_writable()


def test_an_unknown_scheme_is_named():
    for use in (Storage.check_writable, Storage.pull_marks):
        with pytest.raises(
            ConfigError, match=r"^--storage nfs4://host/runs: cannot be reached \(Protocol .*nfs4"
        ):
            use(Storage.from_text("nfs4://host/runs"))


def test_a_missing_package_is_named():
    register_implementation("absent", "no_such_package.Files", errtxt="Install no_such_package", clobber=True)
    with pytest.raises(
        ConfigError, match=r"^--storage absent://host/runs: cannot be reached \(Install no_such_package\)"
    ):
        Storage.from_text("absent://host/runs").check_writable()


def patient(storage, time, warnings=None):
    """Return the storage as a launched grid uses it."""
    told = warnings if warnings is not None else []
    return replace(storage, patience=replace(storage.with_patience(told.append).patience, clock=time.clock))


def test_launched_grid_waits_for_its_uri(machine, bucket, uri, time):
    warnings = []
    here = patient(machine("here"), time, warnings)
    write(here, "run/log.txt", "text")
    bucket.parent.mkdir()
    bucket.write_text("a file where the folder was")
    time.during_pause = lambda: time.seconds > 1100 and bucket.unlink(missing_ok=True)
    here.push("run/log.txt")
    assert files(bucket) == {"run/log.txt": "text"}
    assert 100 < sum(time.pauses) < GIVE_UP_AFTER
    [line] = warnings
    assert line.startswith(f"{uri} cannot be written")


def test_launched_grid_gives_up_after_five_minutes(machine, bucket, time):
    here = patient(machine("here"), time)
    write(here, "run/log.txt", "text")
    bucket.parent.mkdir()
    bucket.write_text("a file where the folder was")
    with pytest.raises(RunError, match="cannot be written"):
        here.retry_call(lambda: here.push("run/log.txt"))
    assert sum(time.pauses) == pytest.approx(GIVE_UP_AFTER)
    assert GIVE_UP_AFTER == 300


def test_local_disk_errors_are_tried_again(tmp_path, time):
    storage, errors = patient(Storage.from_text(tmp_path), time), [OSError(5, "Input/output error")]

    def look():
        if errors:
            raise errors.pop()
        return "seen"

    assert storage.retry_call(look) == "seen"
    assert len(time.pauses) == 1
    with pytest.raises(RunError, match=rf"^{re.escape(str(tmp_path))}: .*; run the same command again"):
        Storage.from_text(tmp_path).retry_call(lambda: (tmp_path / "missing").read_text())


def test_patience_travels_to_other_machines(tmp_path):
    for storage in (Storage.from_text("s3://bucket/runs"), Storage.from_text(tmp_path)):
        assert pickle.loads(pickle.dumps(storage)).patience.give_up_after == 0
        assert pickle.loads(pickle.dumps(storage.with_patience())).patience.give_up_after == GIVE_UP_AFTER
