"""A grid's name belongs to one file: another one of that name is refused unless the user names the grid."""

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.source import check_source

TEXT = "clients: 3\nalgorithm: fedavg\nseed: {seed}\n"


@pytest.fixture
def storage(tmp_path):
    return Storage.of(tmp_path / "runs")


@pytest.fixture
def launch(tmp_path, storage):
    """Return a function that launches a file in a folder, as far as its name goes."""

    def launch(folder, seed=0, name=None, file="exp.yaml"):
        (tmp_path / folder).mkdir(exist_ok=True)
        path = tmp_path / folder / file
        path.write_text(TEXT.format(seed=seed))
        grid = load_grid(str(path), {}, [], tmp_path, name=name)
        check_source(grid, storage)
        GridFolder(storage, grid.name).keep(grid.runs, grid.text, grid.source)
        return grid

    return launch


def test_edited_file_is_the_same_grid(launch):
    launch("o1")
    assert launch("o1", seed=1).name == "exp"


def test_copied_file_is_the_same_grid(launch):
    """As on a cluster, or after the folder was moved."""
    launch("o1")
    assert launch("o2").name == "exp"


def test_two_files_of_one_name_are_refused(launch, storage, tmp_path):
    launch("o1")
    before = (GridFolder(storage, "exp").path / "preset.yaml").read_text()
    with pytest.raises(ConfigError) as error:
        launch("o2", seed=1)
    words = (
        str(tmp_path / "o1" / "exp.yaml"),
        str(tmp_path / "o2" / "exp.yaml"),
        "--name OTHER",
        "--name exp",
    )
    assert all(word in str(error.value) for word in words)
    assert (GridFolder(storage, "exp").path / "preset.yaml").read_text() == before


def test_named_grid_is_taken_as_named(launch):
    launch("o1")
    assert launch("o2", seed=1, name="other").name == "other"
    assert launch("o2", seed=1, name="exp").name == "exp"


def test_file_that_was_sent_to_a_cluster_has_its_place_at_home(launch, monkeypatch, tmp_path):
    monkeypatch.setenv("FEDGRID_SOURCE", "/home/me/exp.yaml")
    launch("job1")
    assert launch("job2", seed=1).source == "/home/me/exp.yaml"


def test_file_does_not_take_the_name_of_a_preset(launch):
    with pytest.raises(ConfigError, match="the preset paper: .*--name"):
        launch("o1", file="paper.yaml")
    assert launch("o1", name="my-paper", file="paper.yaml").name == "my-paper"


def test_file_does_not_take_the_name_of_runs_by_options(launch, storage, tmp_path):
    grid = load_grid(None, {"clients": 3}, [], tmp_path)
    check_source(grid, storage)
    GridFolder(storage, grid.name).keep(grid.runs, grid.text, grid.source)
    other = load_grid(None, {"clients": 4}, [], tmp_path)
    check_source(other, storage)
    with pytest.raises(ConfigError, match="comes from options"):
        launch("o1", file="runs.yaml")
