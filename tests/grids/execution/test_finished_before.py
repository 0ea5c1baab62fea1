"""A grid of which nothing is left to run."""

from types import SimpleNamespace

import pytest
from rich.console import Console

import fedgrid.grids.execution.launch
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.run import launch_remaining
from fedgrid.grids.execution.watch import LaunchResult
from fedgrid.grids.planning.options import LaunchOptions
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.small_grid import NOWHERE, config

RUNS = (config(seed=1), config(seed=2))


@pytest.fixture
def launched(tmp_path, monkeypatch):
    """Return a function that launches a finished grid and returns what was started."""

    def nothing_left(name):
        started = []
        monkeypatch.setattr(
            fedgrid.grids.execution.launch, "launch", lambda grid, *_: started.append(grid.name)
        )
        trackers = SimpleNamespace(lacking=lambda runs: [])
        options = LaunchOptions(NOWHERE, in_process=True)
        grid, storage = Grid(name, RUNS, ""), Storage.of(tmp_path)
        result = launch_remaining(grid, (), RUNS, storage, options, trackers, Console())
        return started, result

    GridFolder(Storage.of(tmp_path), "first").keep(RUNS, "")
    return nothing_left


def test_nothing_is_started(launched):
    assert launched("first") == ([], LaunchResult())


def test_a_grid_whose_runs_another_has_finished_is_written_down(launched):
    """By a launch that runs nothing: `status` and `report` know it then."""
    started, _ = launched("second")
    assert started == ["second"]
