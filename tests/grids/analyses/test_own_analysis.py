"""A plugin's own analysis: computed, resumed, in MLflow and in the report, as those of the package are."""

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from mlflow.tracking import MlflowClient
from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.leases.storage_id import claim_storage_id
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.plugins.plugin import read_source
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.analyses.analysis import AnalysisSettings, Context
from fedgrid.grids.analyses.command import AnalysisEnd, analyse_runs
from fedgrid.grids.analyses.execute import _task
from fedgrid.grids.analyses.report import build_sections, describe_runs, find_results, read_selected_jobs
from fedgrid.grids.cli.actions.analyses import find_analysis, list_analyses, read_options
from fedgrid.grids.following.session import TrackerSession
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.trackers.mlflow.mlflow_tracker import MlflowTracker
from fedgrid.grids.trackers.mlflow.store import default_uri
from fedgrid.grids.trackers.tracker import TrackedGrid
from tests.helpers.command_line import fedgrid, new_storage
from tests.helpers.explained import GRID, RUNS
from tests.helpers.small_grid import NOWHERE

pytestmark = pytest.mark.usefixtures("in_mlflow")

PLUGIN = Path(__file__).parents[3] / "docs" / "spread.py"


@pytest.fixture(autouse=True)
def plugin():
    """The plugin is in use."""
    active.use_plugins([PLUGIN])
    yield
    active.use_plugins()


def run(storage, **options):
    how = {"in_process": True, "as_json": True, **options}
    own, console = find_analysis("spread"), Console(quiet=True)
    return analyse_runs(own, GRID, storage, NOWHERE, AnalysisSettings(), console, **how)


def test_command_computes_resumes_and_logs_a_number_of_each_run(finished, tmp_path):
    root = new_storage(tmp_path / "runs")
    shutil.copytree(finished.root, root, dirs_exist_ok=True)
    claim_storage_id(Storage(root))
    TrackerSession(MlflowTracker, TrackedGrid(GRID, Storage(root))).update_run(RUNS[1])
    command = ("analyse", GRID, "spread", "--plugin", PLUGIN, "--storage", root, "--in-process", "--json")
    first, again = (fedgrid(*command).events[-1] for _ in range(2))
    assert (first["jobs"], first["done_before"], first["failed"]) == (2, 0, 0)
    assert (again["done_before"], again["rows"]) == (2, first["rows"])
    distances = {row["run_id"]: row["spread/distance"] for row in first["rows"]}
    assert distances[RUNS[0].run_id] == 0 < distances[RUNS[1].run_id]
    client = MlflowClient(default_uri(root))
    experiment = client.get_experiment_by_name(GRID)
    (logged,) = client.search_runs([experiment.experiment_id], f"tags.`fedgrid.run_id` = '{RUNS[1].run_id}'")
    points = client.get_metric_history(logged.info.run_id, "spread/distance")
    assert [point.value for point in points] == [distances[RUNS[1].run_id]]
    (file,) = client.list_artifacts(logged.info.run_id, "analyses")
    assert file.path.startswith("analyses/spread-")


def test_report_has_a_section_if_the_plugin_is_named(storage, capsys):
    run(storage)
    grid = GridFolder(storage, GRID)
    [section] = build_sections(list_analyses([PLUGIN]), grid, storage, published=False)
    assert (section.name, section.title) == ("analysis-spread", "Spread")
    [table] = section.items
    assert [row.name for row in table.rows] == ["fedavg", "ocfl-kmeans"]
    assert table.rows[0].cells[0].value == 0
    assert list(build_sections(list_analyses([]), grid, storage, published=False)) == []
    assert "lacks the analysis spread" in capsys.readouterr().err


def test_changed_code_is_computed_again(storage, tmp_path, capsys):
    run(storage)
    changed = tmp_path / "changed.py"
    changed.write_text(PLUGIN.read_text() + "# changed\n")
    active.use_plugins([changed])
    run(storage)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["done_before"], second["done_before"]) == (0, 0)


def test_draws_from_any_generator_are_seeded_for_each_job(storage, tmp_path, capsys):
    drawing = tmp_path / "drawing.py"
    drawing.write_text(PLUGIN.read_text().replace("float(distances_C.mean())", "float(np.random.rand())"))
    active.use_plugins([drawing])
    found = []
    for seed in range(2):
        np.random.seed(seed)  # noqa: NPY002
        run(storage)
        found.append(json.loads(capsys.readouterr().out)["rows"])
        for folder in storage.root.glob("*/analyses"):
            shutil.rmtree(folder)
    assert found[0] == found[1]


@pytest.fixture
def runs_own(tmp_path):
    """The plugin of a run: with an analysis of the same name."""
    path = tmp_path / "runs_own.py"
    path.write_text(PLUGIN.read_text() + "# of a run\n")
    source = read_source(path)
    active.register_sources([source])
    return source


def test_results_are_of_the_file_that_was_named_although_a_run_s_plugin_has_one_of_that_name(
    storage, runs_own
):
    """Its digest was written beside the numbers of the other: asked for by its file, they were its own."""
    named = find_analysis("spread")
    key = named.key(AnalysisSettings())
    active.activate_plugins([runs_own.digest])
    assert named.key(AnalysisSettings()) == key
    assert find_analysis("spread").key(AnalysisSettings()) != key


def test_task_computes_what_was_named_by_the_plugins_of_the_run(storage, runs_own):
    named = find_analysis("spread")
    context = Context(storage, NOWHERE, describe_runs(RUNS, storage))
    [job, *_] = named.jobs(RUNS, AnalysisSettings(), context)
    work = pickle.dumps((named, job, context))
    with Lease(storage, GRID) as lease:
        cause, _ = _task(work, lease.token, [read_source(PLUGIN), runs_own], {})
    assert cause is None
    assert [source.digest for source in active.list_plugin_files()] == [runs_own.digest]


def test_asked_to_stop_leaves_the_rest_for_later(storage, monkeypatch):
    monkeypatch.setattr(GridFolder, "is_stop_requested", lambda grid: True)
    assert run(storage) == AnalysisEnd(stopped=True)
    assert list(storage.root.glob("*/analyses/*")) == []


def test_unknown_names_and_settings_are_refused(storage):
    with pytest.raises(ConfigError, match="unknown analysis 'spred'; did you mean 'spread'"):
        find_analysis("spred")
    with pytest.raises(ConfigError, match="depth"):
        read_options(find_analysis("spread"), ["depth=3"])


def test_results_of_another_run_are_not_believed_where_the_states_are_gone(storage):
    run(storage)
    own = find_analysis("spread")
    jobs = read_selected_jobs(own, GridFolder(storage, GRID), RUNS)
    for path in storage.root.glob("*/state-*.safetensors"):
        path.unlink()
    marks = [
        next(build_folder_path(storage.root, run).glob("analyses/spread-*[0-9a-f].json")) for run in RUNS
    ]
    shutil.copy(marks[1], marks[0])
    there, missing = find_results(own, jobs, describe_runs(RUNS, storage), storage)
    assert ([result.job for result in there], len(missing)) == ([jobs[1]], 1)
