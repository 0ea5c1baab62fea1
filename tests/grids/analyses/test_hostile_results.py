"""Results that somebody else wrote, with right checksums: nothing outside is read, no other job believed."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.format import CHECKSUM, VERSION, seal
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.analyses import report
from fedgrid.grids.analyses.analysis import AnalysisSettings, Job, JobResult
from fedgrid.grids.analyses.command import How, analyse
from fedgrid.grids.analyses.report import describe_runs
from fedgrid.grids.attack.analysis import ATTACK
from fedgrid.grids.attack.show import COLUMNS
from fedgrid.grids.cli.actions.analyses import find_analysis
from fedgrid.grids.epsilons.analysis import Epsilons
from fedgrid.grids.explain.analysis import EXPLAIN
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.explained import GRID, RUNS, finished_grid
from tests.helpers.small_grid import NOWHERE

PLUGIN = Path(__file__).parents[3] / "docs" / "spread.py"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A grid of two runs that were analysed."""
    storage = finished_grid(tmp_path_factory.mktemp("made"))
    active.use([PLUGIN])
    how = How(in_process=True, as_json=True)
    analyse(find_analysis("spread"), GRID, storage, NOWHERE, AnalysisSettings(), Console(quiet=True), how=how)
    yield storage
    active.use()


@pytest.fixture
def storage(made, tmp_path):
    shutil.copytree(made.root, tmp_path / "runs")
    return Storage(tmp_path / "runs")


def changed(path, change):
    """Write a sealed file anew, after `change` was called with its values."""
    values = json.loads(path.read_text())
    del values[CHECKSUM], values[VERSION]
    change(values)
    path.write_text(seal(values))


def asked(storage):
    return report.asked_jobs(find_analysis("spread"), GridFolder(storage, GRID), RUNS)


def mark_of(storage, run):
    [path] = folder_of(storage.root, run).glob("analyses/spread-*[0-9a-f].json")
    return path


def results(storage):
    """Return which runs have results; damaged ones are said, a line each."""
    jobs = asked(storage)
    there, missing = report.find_results(find_analysis("spread"), jobs, describe_runs(RUNS, storage), storage)
    assert len(there) + len(missing) == len(jobs)
    return [any(result.job == job for result in there) for job in jobs]


def test_results_are_found(storage):
    assert results(storage) == [True, True]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("key", "../../../outside/secret"),
        ("key", "a/b"),
        ("key", None),
        ("round", "1"),
        ("round", -1),
        ("settings", []),
        ("settings", {"unknown": 1}),
    ],
)
def test_entry_that_cannot_be_is_refused(storage, key, value):
    def change(values):
        for slots in values["spread"].values():
            slots[""][key] = value

    changed(GridFolder(storage, GRID).path / report.FILE, change)
    with pytest.raises(RunError, match=r"analyses.json is damaged .* move it away, and repeat"):
        asked(storage)


@pytest.mark.parametrize("end", ["/../../../../outside/secret", "/x", ""])
def test_mark_that_names_a_file_elsewhere_is_no_result(storage, end, capsys):
    changed(mark_of(storage, RUNS[0]), lambda values: values["files"].update({end: "0" * 64}))
    assert results(storage) == [False, True]
    assert "spread-" in capsys.readouterr().err


def test_results_of_another_run_are_not_believed_where_the_states_are_gone(storage):
    for run in RUNS:
        for path in folder_of(storage.root, run).glob("state-*.sha256"):
            path.unlink()
    assert results(storage) == [True, True]
    shutil.copy(mark_of(storage, RUNS[1]), mark_of(storage, RUNS[0]))
    assert results(storage) == [False, True]


@pytest.mark.parametrize(
    ("analysis", "about"),
    [
        (EXPLAIN, {"shape": [1, 8, 0]}),
        (EXPLAIN, {}),
        (ATTACK, {"rows": [{"of": []}]}),
        (ATTACK, {}),
        (Epsilons(), {"epsilon_1": "x"}),
    ],
)
def test_results_of_other_types_do_not_count(analysis, about, tmp_path):
    job = Job(RUNS[0], AnalysisSettings(), "key", 1)
    (tmp_path / "a.parquet").write_bytes(b"")
    files = {".parquet": tmp_path / "a.parquet", ".yaml": tmp_path / "a.yaml"}
    assert not analysis.is_whole(
        JobResult(job, describe_runs(RUNS, Storage(tmp_path))[RUNS[0].run_id], about, files)
    )


def test_number_that_no_float_holds_does_not_count(storage):
    job = asked(storage)[0]
    run = describe_runs(RUNS, storage)[job.config.run_id]
    spread = find_analysis("spread")
    assert spread.is_whole(JobResult(job, run, {"distance": 10**300}, {}))
    assert not spread.is_whole(JobResult(job, run, {"distance": 10**400}, {}))


@pytest.mark.parametrize("rows", [[], [{}], [{"of": "model", "auc": "x"}], [{"clients": -1, "auc": True}]])
def test_rows_without_a_number_have_no_mean(rows):
    assert all(np.isnan(mean(rows)) or mean(rows) == 1 for mean in COLUMNS["membership"].values())


def test_results_of_other_settings_are_not_believed(storage):
    changed(mark_of(storage, RUNS[0]), lambda values: values.update(settings={"other": 1}))
    assert results(storage) == [False, True]
