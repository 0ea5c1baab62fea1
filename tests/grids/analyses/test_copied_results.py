"""Results of another run that were copied are not believed."""

import shutil
from pathlib import Path

import pytest
from rich.console import Console

from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.analyses import report
from fedgrid.grids.analyses.analysis import AnalysisSettings
from fedgrid.grids.analyses.command import analyse
from fedgrid.grids.analyses.report import describe_runs
from fedgrid.grids.cli.actions.analyses import find_analysis
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.explained import GRID, RUNS, finished_grid
from tests.helpers.small_grid import NOWHERE

PLUGIN = Path(__file__).parents[3] / "docs" / "spread.py"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A grid of two runs that were analysed."""
    storage = finished_grid(tmp_path_factory.mktemp("made"))
    active.use([PLUGIN])
    how = dict(in_process=True, as_json=True)
    analyse(find_analysis("spread"), GRID, storage, NOWHERE, AnalysisSettings(), Console(quiet=True), **how)
    yield storage
    active.use()


@pytest.fixture
def storage(made, tmp_path):
    shutil.copytree(made.root, tmp_path / "runs")
    return Storage(tmp_path / "runs")


def asked(storage):
    return report.selected_jobs(find_analysis("spread"), GridFolder(storage, GRID), RUNS)


def mark_of(storage, run):
    [path] = folder_of(storage.root, run).glob("analyses/spread-*[0-9a-f].json")
    return path


def results(storage):
    """Return which runs have results; damaged ones are said, a line each."""
    jobs = asked(storage)
    there, missing = report.find_results(find_analysis("spread"), jobs, describe_runs(RUNS, storage), storage)
    assert len(there) + len(missing) == len(jobs)
    return [any(result.job == job for result in there) for job in jobs]


def test_results_of_another_run_are_not_believed_where_the_states_are_gone(storage):
    for run in RUNS:
        for path in folder_of(storage.root, run).glob("state-*.safetensors"):
            path.unlink()
    assert results(storage) == [True, True]
    shutil.copy(mark_of(storage, RUNS[1]), mark_of(storage, RUNS[0]))
    assert results(storage) == [False, True]
