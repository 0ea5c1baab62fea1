"""A grid of which nothing is left to run."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from rich.console import Console

from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.launch import launch_grid
from fedgrid.grids.execution.watch import LaunchResult
from fedgrid.grids.planning.options import LaunchOptions
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.small_grid import NOWHERE, config

RUNS = (config(seed=1), config(seed=2))


@pytest.fixture
def launch_finished(tmp_path):
    """Return a function that launches a grid whose runs are finished, with trackers that have them."""

    def launch_finished(name):
        trackers = SimpleNamespace(
            find_lacking_runs=lambda runs: [],
            start_processes=nullcontext,
            follow_runs=lambda runs, forgotten: nullcontext(),
            set_end=lambda *counts, stopped: None,
        )
        options = LaunchOptions(NOWHERE, in_process=True)
        return launch_grid(
            Grid(name, RUNS, ""), (), RUNS, Storage.from_text(tmp_path), options, trackers, Console()
        )

    GridFolder(Storage.from_text(tmp_path), "first").keep(RUNS, "")
    return launch_finished


def test_nothing_is_started(launch_finished, monkeypatch):
    monkeypatch.setattr("fedgrid.grids.execution.launch.Lease", None)
    assert launch_finished("first") == LaunchResult()


def test_a_grid_whose_runs_another_has_finished_is_written_down(launch_finished, tmp_path):
    """By a launch that runs nothing: `status` and `report` know it then."""
    result = launch_finished("second")
    assert (result.failures, result.stopped) == ((), False)
    assert GridFolder(Storage.from_text(tmp_path), "second").read_definition().runs == RUNS
