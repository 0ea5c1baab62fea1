"""States of a shared prefix are evicted as soon as no unfinished run of any grid needs them."""

from pathlib import Path

import pytest

import fedgrid.grids.round_cache.retention
from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.run.run_folder import RunFolder, build_folder_path
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.round_cache.retention import Retention
from tests.helpers.cached_rounds import list_prefixes_with_states, list_prefixes_with_statistics, store_rounds
from tests.helpers.finished_runs import mark_finished
from tests.helpers.manifests import list_files
from tests.helpers.small_grid import config

fedavg, OCFL = config(seed=1), config(seed=1, algorithm="ocfl-kmeans")
"""They have the same shared prefix."""
ALONE = config(seed=2)


@pytest.fixture
def storage(tmp_path):
    storage = Storage.from_text(tmp_path / "runs")
    store_rounds(storage, fedavg, ALONE)
    return storage


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def retention(storage, warnings):
    """Return a function that makes a Retention for a launch of these runs."""

    def prepared(*runs, grows=False):
        folder = GridFolder(storage, "mine")
        folder.keep(runs, "")
        return Retention(folder, storage, warnings.append, grows=grows)

    return prepared


def finish(storage, run):
    """Write the files by which retention recognises a finished run."""
    mark_finished(storage.root, run)


def test_states_are_evicted_with_the_last_run_of_a_shared_prefix_and_statistics_stay(storage, retention):
    launch = retention(fedavg, OCFL, ALONE)
    launch.begin_launch()
    launch.finish_run(fedavg)
    assert list_prefixes_with_states(storage) == {fedavg.shared_prefix, ALONE.shared_prefix}
    launch.finish_run(OCFL)
    assert list_prefixes_with_states(storage) == {ALONE.shared_prefix}
    assert list_prefixes_with_statistics(storage) == {fedavg.shared_prefix, ALONE.shared_prefix}


def test_unfinished_run_outside_the_launch_keeps_the_states(storage, retention):
    """As with `fedgrid retry`, which leaves waiting runs alone."""
    RunFolder(storage, OCFL).mark_failed("out of memory", 3)
    launch = retention(fedavg, OCFL, ALONE)
    launch.begin_launch()
    launch.finish_run(fedavg)
    assert fedavg.shared_prefix in list_prefixes_with_states(storage)


def test_begin_evicts_what_earlier_launches_left(storage, retention):
    finish(storage, fedavg)
    finish(storage, OCFL)
    retention(fedavg, OCFL, ALONE).begin_launch()
    assert list_prefixes_with_states(storage) == {ALONE.shared_prefix}


def test_begin_evicts_what_a_deleted_grid_left(storage, retention):
    """ALONE is of no grid any more."""
    retention(fedavg).begin_launch()
    assert list_prefixes_with_states(storage) == {fedavg.shared_prefix}


def test_states_that_a_run_of_another_grid_needs_stay(storage, retention):
    """Another driver is training it, or it was interrupted."""
    GridFolder(storage, "theirs").keep([OCFL], "")
    launch = retention(fedavg, ALONE)
    launch.begin_launch()
    for run in (fedavg, ALONE):
        finish(storage, run)
        launch.finish_run(run)
    assert list_prefixes_with_states(storage) == {fedavg.shared_prefix}
    finish(storage, OCFL)
    launch.begin_launch()
    assert list_prefixes_with_states(storage) == set()


def test_growing_grid_evicts_nothing_before_it_is_concluded(storage, retention):
    finish(storage, fedavg)
    launch = retention(fedavg, ALONE, grows=True)
    launch.begin_launch()
    launch.finish_run(ALONE)
    assert list_prefixes_with_states(storage) == {fedavg.shared_prefix, ALONE.shared_prefix}
    launch.conclude_launch(until={})
    assert list_prefixes_with_states(storage) == {ALONE.shared_prefix}


def test_run_stopped_early_counts_as_finished_when_a_growing_grid_is_concluded(storage, retention):
    folder = build_folder_path(storage.root, ALONE)
    folder.mkdir(parents=True)
    list_files(folder, rounds_done=2)
    launch = retention(ALONE, grows=True)
    launch.begin_launch()
    assert ALONE.shared_prefix in list_prefixes_with_states(storage)
    launch.conclude_launch(until={ALONE.run_id: 2})
    assert list_prefixes_with_states(storage) == set()


@pytest.mark.parametrize("error", [OSError("read-only"), RunError("s3://bucket cannot be read")])
def test_storage_that_cannot_delete_gives_one_warning(storage, retention, warnings, monkeypatch, error):
    def refuse(*_):
        raise error

    launch = retention(fedavg, ALONE)
    launch.begin_launch()
    monkeypatch.setattr(fedgrid.grids.round_cache.retention, "delete_entries", refuse)
    launch.finish_run(fedavg)
    launch.finish_run(ALONE)
    assert len(warnings) == 1
    assert str(error) in warnings[0]


def test_states_are_evicted_from_a_uri_too(tmp_path, warnings, monkeypatch):
    monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / "cache"))
    storage = Storage.from_text(f"local://{tmp_path}/remote")
    store_rounds(storage, fedavg)
    folder = GridFolder(storage, "mine")
    folder.keep([fedavg], "")
    launch = Retention(folder, storage, warnings.append)
    launch.begin_launch()
    launch.finish_run(fedavg)
    assert warnings == []
    assert [path.name for path in Path(tmp_path / "remote/cache").rglob("*.safetensors")] == [
        "000001-abc-reports.safetensors"
    ]
