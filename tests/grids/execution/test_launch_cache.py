"""The round cache in a launch: rounds are shared, states are deleted; `--fresh` and `--no-cache`."""

import os

import pyarrow.parquet as pq
import pytest

from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.round_cache.files import list_entries
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.launch import delete_leftovers
from tests.helpers.cached_rounds import list_prefixes_with_states, list_prefixes_with_statistics
from tests.helpers.command_line import fedgrid, new_storage

SMALL = (
    *("run", "--in-process", "--clients", "3", "training.rounds=2"),
    *("--algorithm", "fedavg", "--algorithm", "ocfl-kmeans"),
)


@pytest.fixture
def storage(tmp_path):
    return Storage.from_text(new_storage(tmp_path / "runs"))


@pytest.fixture
def run(storage):
    """Return a function that runs two algorithms on one shared prefix."""

    def launched(*options):
        result = fedgrid(*SMALL, *options, "--storage", storage.root)
        assert (result.code, result.err) == (0, "")

    return launched


def trained(storage):
    """Return, by algorithm, how many clients each run trained itself in its first round."""
    return {
        path.parent.name.split("-")[-3]: pq.read_table(path)["trained_clients"][0].as_py()
        for path in storage.root.glob("*/timings.parquet")
    }


def test_runs_share_rounds_and_states_are_deleted_at_the_end(storage, run):
    run()
    assert trained(storage) == {"fedavg": 0, "ocfl_kmeans": 3}, "the run that diverges first starts first"
    assert list_prefixes_with_states(storage) == set()
    assert len(list_prefixes_with_statistics(storage)) == 1


def test_fresh_computes_all_rounds_again(storage, run):
    run()
    before = {entry.file: (storage.root / entry.file).stat().st_mtime_ns for entry in list_entries(storage)}
    run("--fresh")
    assert trained(storage) == {"fedavg": 0, "ocfl_kmeans": 3}, "the run that diverges first starts first"
    after = {entry.file: (storage.root / entry.file).stat().st_mtime_ns for entry in list_entries(storage)}
    assert before.keys() == after.keys()
    assert all(after[file] > before[file] for file in before)


def test_half_written_files_are_deleted_where_no_other_driver_may_be_at_them(storage):
    names = ("grids/mine/stop", "grids/theirs/stop", "cache/shared_prefix/000001-abc-reports.safetensors")
    leftovers = [storage.root / f"{name}.writing-1" for name in names]
    for leftover in leftovers:
        leftover.parent.mkdir(parents=True)
        leftover.touch()
        os.utime(leftover, (0, 0))
    with Lease(storage, "mine") as lease:
        with Lease(storage, "theirs"):
            delete_leftovers(storage, "mine", lease)
            assert [leftover.exists() for leftover in leftovers] == [False, True, True]
        delete_leftovers(storage, "mine", lease)
        assert [leftover.exists() for leftover in leftovers] == [False, False, False]


def test_without_a_store_each_run_computes_its_rounds(storage, run):
    run("--no-cache")
    assert trained(storage) == {"fedavg": 3, "ocfl_kmeans": 3}
    assert list_entries(storage) == []
    assert not (storage.root / "cache").exists()


def test_limit_below_the_smallest_entry_keeps_nothing(storage, run):
    run("--cache-limit", "1B")
    assert list_entries(storage) == []
    assert trained(storage) == {"fedavg": 3, "ocfl_kmeans": 3}
