"""The round cache: one run takes what another has computed, and no fault of the cache stops a run."""

import os
from errno import EDQUOT, ENOSPC
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fedgrid.engine.runtime.round_cache import files as module
from fedgrid.engine.runtime.round_cache.files import (
    FOLDER,
    CacheEntry,
    CacheOptions,
    RoundCache,
    StoredFile,
    delete_entries,
    list_entries,
    make_room,
)
from fedgrid.engine.runtime.storage.storage import Storage

SHARED_PREFIX = "digits-15-nonoverlapping-balanced-s0-1f3870be274f"
NAME = "000003-ab12-reports"


@pytest.fixture
def storage(tmp_path):
    return Storage.from_text(tmp_path / "runs")


def cache(storage, run_id="one", shared_prefix=SHARED_PREFIX, limit=None):
    return RoundCache(storage, shared_prefix, run_id, CacheOptions(limit))


def entry(*values, run_id="one", cost=1.0):
    return CacheEntry({"values": np.array(values or (1.0, 2.0), np.float32)}, run_id, 0.5, cost)


def path_of(storage, name=NAME, shared_prefix=SHARED_PREFIX):
    return storage.root / FOLDER / shared_prefix / f"{name}.safetensors"


def names(storage):
    """Return the names of the entries that are kept."""
    return {one.file.rsplit("/", 1)[1].removesuffix(".safetensors") for one in list_entries(storage)}


def total(storage):
    return sum(one.size for one in list_entries(storage))


@pytest.fixture
def disk(monkeypatch):
    """Return a disk of 2 MB that is empty; the test says how much of it is free."""
    disk = SimpleNamespace(total=2_000_000, free=2_000_000)
    monkeypatch.setattr(module, "disk_usage", lambda _: disk)
    return disk


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


class TestSharing:
    def test_what_one_run_writes_another_reads(self, storage):
        cache(storage, "one").write(NAME, entry(1.0, np.nan, -0.0, run_id="one", cost=7.5))
        reader = cache(storage, "two")
        found = reader.read(NAME)
        assert found.arrays["values"].tobytes() == np.float32([1.0, np.nan, -0.0]).tobytes()
        assert (found.computed_by, found.seconds, found.cost) == ("one", 0.5, 7.5)
        assert reader.warnings == []

    def test_what_nobody_has_written_is_nothing(self, storage):
        run = cache(storage)
        assert run.read(NAME) is None
        run.write(NAME, entry())
        for other in ("000003-ab12-products", "000003-ab13-reports", "000004-ab12-reports"):
            assert run.read(other) is None
        assert run.warnings == []


class TestWhatCanBeWrong:
    @pytest.mark.parametrize(
        "harm",
        [lambda data: b"", lambda data: data[:-1], lambda data: data[:-1] + b"\xff", lambda data: b"x" * 99],
    )
    def test_a_damaged_entry_is_told_once_and_written_anew(self, storage, harm):
        run, path = cache(storage), path_of(storage)
        run.write(NAME, entry())
        path.write_bytes(harm(path.read_bytes()))
        assert run.read(NAME) is None
        assert run.read(NAME) is None
        assert not path.exists()
        (warning,) = run.take_warnings()
        assert str(path) in warning
        assert "damaged" in warning
        assert run.take_warnings() == []
        run.write(NAME, entry(5.0))
        assert run.read(NAME).arrays["values"].tolist() == [5.0]

    @pytest.mark.parametrize("blocked", ["cache", f"cache/{SHARED_PREFIX}"])
    def test_where_nothing_can_be_kept_the_run_goes_on(self, storage, blocked):
        """A file is where a folder should be."""
        storage.root.mkdir()
        (storage.root / blocked).parent.mkdir(exist_ok=True)
        (storage.root / blocked).write_text("a file")
        run = cache(storage)
        run.write(NAME, entry())
        assert run.read(NAME) is None
        claim = run.make_lock("000003-ab12")
        assert claim.try_take()
        claim.release()
        assert run.warnings
        assert all(str(path_of(storage)) in warning for warning in run.warnings)
        assert (storage.root / blocked).read_text() == "a file"

    def test_a_folder_in_place_of_an_entry_stops_nobody(self, storage):
        run, path = cache(storage), path_of(storage)
        path.mkdir(parents=True)
        run.write(NAME, entry())
        assert run.read(NAME) is None
        assert [str(path) in warning for warning in run.warnings] == [True]
        assert files(storage.root) == []


class TestKept:
    @pytest.mark.parametrize(
        ("name", "is_state"),
        [
            ("mean-1f3870be274f", True),
            ("memory-000003", True),
            ("reports", False),
            ("tests-1f38", False),
            ("products-state-1f38", False),
            ("manhattan-parameters-1f38", False),
        ],
    )
    def test_means_and_memories_are_as_large_as_a_model(self, name, is_state):
        one = StoredFile(f"cache/{SHARED_PREFIX}/1234567-ab12-{name}.safetensors", 100)
        assert one.is_state == is_state
        assert one.round == 1234567

    def test_all_entries_are_listed_or_those_of_a_shared_prefix(self, storage):
        for shared_prefix in ("mnist-s1", "mnist-s10"):
            for number in (1, 2):
                cache(storage, shared_prefix=shared_prefix).write(f"00000{number}-ab-reports", entry())
        assert {(one.shared_prefix, one.round) for one in list_entries(storage)} == {
            (shared_prefix, number) for shared_prefix in ("mnist-s1", "mnist-s10") for number in (1, 2)
        }
        assert {one.shared_prefix for one in list_entries(storage, "mnist-s1")} == {"mnist-s1"}
        assert list_entries(storage, "mnist-s") == []

    def test_what_is_no_entry_is_not_listed(self, storage):
        run = cache(storage)
        run.write(NAME, entry())
        claim = run.make_lock("000003-ab12")
        claim.try_take()
        folder = path_of(storage).parent
        for other in (
            "notes.txt",
            "mine.safetensors",
            "000001.safetensors",
            "1-a.safetensors",
            "x-a-b.safetensors",
        ):
            (folder / other).write_text("")
        (folder.parent / "000001-ab-reports.safetensors").write_text("")
        (storage.root / "run" / SHARED_PREFIX).mkdir(parents=True)
        (storage.root / "run" / SHARED_PREFIX / f"{NAME}.safetensors").write_text("")
        assert names(storage) == {NAME}
        claim.release()

    def test_what_is_dropped_is_gone_and_the_rest_stays(self, storage):
        run = cache(storage)
        for name in ("000001-ab-reports", "000001-ab-mean-1f", "000002-cd-reports"):
            run.write(name, entry())
        delete_entries(storage, [one for one in list_entries(storage) if one.is_state])
        assert names(storage) == {"000001-ab-reports", "000002-cd-reports"}
        assert run.read("000001-ab-mean-1f") is None


def keep(run, count, size=1000):
    """Write so many entries, `size` bytes of values each, as rounds 1, 2, ..., one a second."""
    for number in range(1, count + 1):
        run.write(name := f"{number:06d}-ab-reports", entry(*np.zeros(size // 4)))
        path = run._storage.root / run._name_file(name)
        os.utime(path, ns=(0, number * 10**9))


def limit_writes(monkeypatch, storage, quota, number):
    """Let writes of entries fail where all of them together would take more than `quota` bytes."""
    real = Path.write_bytes

    def write_bytes(path, data):
        if total(storage) + len(data) > quota:
            raise OSError(number, os.strerror(number))
        return real(path, data)

    monkeypatch.setattr(type(storage.root), "write_bytes", write_bytes)


def rounds(storage):
    return {one.round for one in list_entries(storage)}


class TestLimit:
    def test_it_is_never_passed(self, storage):
        run = cache(storage, limit=10_000)
        random = np.random.default_rng(0)
        for number in range(1, 60):
            run.write(f"{number:06d}-ab-reports", entry(*np.zeros(int(random.integers(1, 1500)))))
            assert total(storage) <= 10_000
            assert number in rounds(storage)
        assert run.warnings == []

    def test_where_it_is_enough_nothing_goes(self, storage):
        keep(cache(storage), 10)
        exactly = total(storage)
        delete_entries(storage, list_entries(storage))
        keep(cache(storage, limit=exactly), 10)
        assert rounds(storage) == set(range(1, 11))
        assert make_room(storage, exactly)
        assert rounds(storage) == set(range(1, 11))

    def test_the_oldest_go_first_until_a_new_one_fits(self, storage):
        """Five alike, written as 1 to 5: the sixth is half as large again, and takes the places of two."""
        keep(cache(storage), 5)
        run = cache(storage, limit=total(storage))
        run.write("000006-ab-reports", entry(*np.zeros(375)))
        assert rounds(storage) == {3, 4, 5, 6}

    def test_entry_that_is_written_again_is_the_newest(self, storage):
        keep(cache(storage), 3)
        run = cache(storage, limit=total(storage))
        for number in (1, 4):
            os.utime(path_of(storage, "000003-ab-reports"))
            run.write(f"{number:06d}-ab-reports", entry(*np.zeros(250)))
        assert rounds(storage) == {1, 3, 4}

    def test_what_is_larger_than_it_is_not_kept_and_drops_nothing(self, storage):
        keep(cache(storage), 2)
        run = cache(storage, limit=total(storage))
        run.write(NAME, entry(*np.zeros(5000)))
        assert names(storage) == {"000001-ab-reports", "000002-ab-reports"}
        assert run.read(NAME) is None
        assert run.warnings == []

    def test_cache_leaves_the_last_bytes_of_the_disk_to_the_runs(self, storage, disk):
        """A twentieth of the disk stays free: 100 kB of 2 MB."""
        run = cache(storage)
        storage.root.mkdir()
        disk.free = disk.total // 20 + 100
        run.write(NAME, entry(*np.zeros(1000)))
        assert rounds(storage) == set()
        disk.free = disk.total
        run.write(NAME, entry(*np.zeros(1000)))
        assert rounds(storage) == {3}
        assert run.warnings == []

    def test_cache_evicts_the_oldest_where_the_disk_fills(self, storage, disk):
        run = cache(storage)
        keep(run, 2)
        [size, _] = [one.size for one in list_entries(storage)]
        disk.free = disk.total // 20
        run.write("000003-ab-reports", entry(*np.zeros(250)))
        assert rounds(storage) == {2, 3}
        disk.free = disk.total // 20 - size
        run.free_disk()
        assert rounds(storage) == {3}

    @pytest.mark.parametrize("number", [ENOSPC, EDQUOT])
    def test_entry_takes_the_place_of_older_ones_at_a_quota(self, storage, monkeypatch, number):
        """Three entries fit into the quota, of which no look at the disk knows."""
        run = cache(storage)
        keep(run, 3)
        limit_writes(monkeypatch, storage, total(storage) + 100, number)
        run.write("000004-ab-reports", entry(*np.zeros(250)))
        assert rounds(storage) == {2, 3, 4}
        assert run.warnings == []

    def test_entry_larger_than_a_quota_is_warned_of(self, storage, monkeypatch):
        run = cache(storage)
        keep(run, 1)
        limit_writes(monkeypatch, storage, total(storage), EDQUOT)
        run.write("000002-ab-reports", entry(*np.zeros(5000)))
        assert ["Disk quota exceeded" in warning for warning in run.warnings] == [True]
        assert files(storage.root) == []

    def test_cache_gives_way_to_a_write_of_the_run_that_failed(self, storage, disk):
        """By the headroom, a twentieth of 40 kB, although the disk says that it has room."""
        run = cache(storage)
        disk.total, disk.free = 40_000, 40_000
        keep(run, 4)
        assert run.evict_headroom()
        assert rounds(storage) == {3, 4}
        assert run.evict_headroom()
        assert not run.evict_headroom()
        assert run.warnings == []


class TestAtURI:
    def test_what_one_machine_writes_another_reads(self, machine, bucket):
        here, there = machine("here"), machine("there")
        cache(here).write(NAME, entry(4.0))
        assert files(bucket) == [f"cache/{SHARED_PREFIX}/{NAME}.safetensors"]
        reader = cache(there, "two")
        assert reader.read(NAME).arrays["values"].tolist() == [4.0]
        assert reader.read(NAME).computed_by == "one"
        assert reader.warnings == []

    def test_the_limit_is_of_what_all_have_written(self, machine):
        here, there = machine("here"), machine("there")
        for number in (1, 2, 3):
            cache(here).write(f"{number:06d}-ab-reports", entry(*np.zeros(250)))
        limit = total(here)
        cache(there, limit=limit).write("000009-ab-reports", entry(*np.zeros(250)))
        assert total(here) <= limit
        assert 9 in rounds(here)

    def test_where_it_cannot_be_reached_the_run_goes_on(self, machine, bucket):
        bucket.parent.mkdir()
        bucket.write_text("a file where the folder was")
        run = cache(machine("here"))
        run.write(NAME, entry())
        run.read(NAME)
        assert run.warnings
        assert all(NAME in warning and "\n" not in warning for warning in run.warnings)
