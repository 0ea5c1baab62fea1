"""What is worth an entry of the round cache: what takes longer to compute than to write and read."""

import numpy as np
import pytest

from fedgrid.engine.runtime.round_cache import entry as cache_entry
from fedgrid.engine.runtime.round_cache.entry import CacheEntry, StorageSpeed, measure
from fedgrid.engine.runtime.round_cache.files import CacheFiles, CacheOptions, kept
from fedgrid.engine.runtime.storage.storage import Storage

SLOW = StorageSpeed(bytes_per_second=1000.0, round_trip=0.25)


def test_seconds_are_the_round_trip_and_the_bytes():
    assert SLOW.seconds(500) == 0.75
    assert StorageSpeed().seconds(1 << 40) == 0.0


@pytest.mark.parametrize(("cost", "is_written"), [(0.74, False), (0.75, True)])
def test_entry_is_written_from_the_cost_of_a_write_and_a_read_on(tmp_path, cost, is_written):
    """500 bytes."""
    storage = Storage.of(tmp_path)
    entry = CacheEntry({"values": np.zeros(125, np.float32)}, "one", 0.0, cost)
    CacheFiles(storage, "shared_prefix", "one", CacheOptions(speed=SLOW)).write("000001-ab-reports", entry)
    assert len(kept(storage)) == is_written


def test_speed_is_of_a_large_file_less_an_empty_one(tmp_path, monkeypatch):
    """An empty file takes 0.5 s, one of 8 MiB 2.5 s: 4 MiB a second and a round trip of 0.5 s."""
    times = iter([10.0, 10.5, 20.0, 22.5])
    monkeypatch.setattr(cache_entry, "perf_counter", lambda: next(times))
    assert measure(Storage.of(tmp_path), "cache") == StorageSpeed(4 << 20, 0.5)


@pytest.mark.parametrize("uri", [False, True])
def test_nothing_is_left_of_a_measurement(tmp_path, monkeypatch, uri):
    monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / "mirror"))
    storage = Storage.of(f"local://{tmp_path}/bucket" if uri else tmp_path / "runs")
    assert measure(storage, "cache").bytes_per_second < float("inf")
    assert list(tmp_path.rglob("speed*")) == []


def test_storage_that_cannot_be_written_has_the_default(tmp_path):
    (tmp_path / "runs").write_text("a file where the folder was")
    assert measure(Storage.of(tmp_path / "runs"), "cache") == StorageSpeed()
