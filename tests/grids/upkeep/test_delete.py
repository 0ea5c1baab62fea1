"""`fedgrid delete`: what goes, what stays, and when it is refused."""

import shutil

import pytest

from fedgrid.engine.runtime.leases.driver import NO_KEYS
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.planning.keys import make_launch_keys
from fedgrid.grids.results.grid_folder import GridFolder, list_grids
from fedgrid.grids.trackers.mlflow.mlflow_tracker import MlflowTracker
from fedgrid.grids.trackers.tracker import TrackedGrid, TrackedRun
from tests.helpers.command_line import fedgrid, new_storage
from tests.helpers.small_grid import config, run_seed

pytestmark = pytest.mark.usefixtures("in_mlflow")

FIRST, SECOND = config(seed=1), config(seed=2)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Grid `mine` has two finished runs, `other` one of them. MLflow has both, and the own run of `mine`."""
    root = new_storage(tmp_path_factory.mktemp("made") / "runs")
    storage = Storage.from_text(root)
    for seed in (1, 2):
        run_seed(storage, seed)
    GridFolder(storage, "mine").keep([FIRST, SECOND], "clients: 3\n")
    GridFolder(storage, "other").keep([SECOND], "clients: 3\n")
    tracker = MlflowTracker(TrackedGrid("mine", storage))
    for run in (FIRST, SECOND):
        tracker.opened(TrackedRun.from_config(run, storage))
    return root


@pytest.fixture
def storage(made, tmp_path):
    shutil.copytree(made, tmp_path / "runs")
    return Storage.from_text(tmp_path / "runs")


def delete(storage, *options, **settings):
    return fedgrid("delete", "mine", "--storage", storage.root, *options, **settings)


def test_runs_of_no_other_grid_go_and_mlflow_marks_them_deleted(storage):
    result = delete(storage, "--yes")
    assert (result.code, result.err) == (0, "")
    assert "Deleted mine: 1 run," in result.out
    assert "1 more stay, other grids have them" in result.out
    assert "MLflow: 3 runs marked as deleted" in result.out
    assert not build_folder_path(storage.root, FIRST).exists()
    assert build_folder_path(storage.root, SECOND).exists()
    assert list_grids(storage) == ["other"]
    assert MlflowTracker(TrackedGrid("mine", storage)).runs == {}


def test_folder_that_is_a_link_loses_the_link_alone(storage, tmp_path):
    link = build_folder_path(storage.root, FIRST)
    elsewhere = shutil.move(link, tmp_path / "elsewhere")
    link.symlink_to(elsewhere)
    assert delete(storage, "--yes").code == 0
    assert not link.is_symlink()
    assert (elsewhere / "config.json").exists()


def test_nothing_goes_without_an_answer(storage):
    """The tests have no terminal."""
    result = delete(storage)
    assert (result.code, "add --yes" in result.err) == (2, True)
    assert list_grids(storage) == ["mine", "other"]


HELD = {
    "the grid": ("mine", NO_KEYS),
    "a run of it": ("new", make_launch_keys([FIRST], [FIRST])),
    "a run of it, finished": ("new", make_launch_keys([FIRST], [])),
}


@pytest.mark.parametrize(("grid", "keys"), HELD.values(), ids=HELD)
def test_what_another_driver_needs_is_left_alone(storage, grid, keys):
    with Lease(storage, grid, keys):
        result = delete(storage, "--yes")
    assert result.code == 2
    assert f"is in use: grid {grid}" in result.err
    assert build_folder_path(storage.root, FIRST).exists()


def test_mlflow_that_cannot_be_reached_is_a_warning(storage):
    result = delete(storage, "--yes", MLFLOW_TRACKING_URI="http://127.0.0.1:9")
    assert result.code == 0
    assert "its runs stay in MLflow" in result.err
    assert list_grids(storage) == ["other"]


def test_status_of_all_grids_has_a_row_for_each(storage):
    (storage.root / "grids" / "other" / "runs.jsonl").write_text("damaged\n")
    result = fedgrid("status", "--storage", storage.root)
    mine = result.out.splitlines()[1]
    assert mine.split() == ["mine", "2", "2", "0", "0", "0", "finished"]
    assert "damaged(itisnotJSON)" in "".join(result.out.split())


def test_status_of_an_empty_storage_says_how_to_start(tmp_path):
    assert (
        f"`fedgrid run quickstart --storage {tmp_path}` starts one"
        in fedgrid("status", "--storage", tmp_path).out
    )
