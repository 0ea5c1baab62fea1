"""the analysis `explain` on a small grid: what it writes, repeats, and shows."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from mlflow.tracking import MlflowClient
from rich.console import Console

from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.leases.storage_id import claim_storage_id
from fedgrid.engine.runtime.run.run_folder import RunFolder, build_folder_path
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.analyses import command
from fedgrid.grids.analyses.analysis import Context
from fedgrid.grids.analyses.command import analyse_runs
from fedgrid.grids.analyses.execute import run_on_ray
from fedgrid.grids.analyses.files import JobFiles
from fedgrid.grids.analyses.report import describe_runs, find_results, read_selected_jobs
from fedgrid.grids.explain.analysis import EXPLAIN, ExplainOptions, summarise_styles
from fedgrid.grids.following.session import TrackerSession
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.trackers.mlflow.mlflow_tracker import MlflowTracker
from fedgrid.grids.trackers.mlflow.store import default_uri
from fedgrid.grids.trackers.tracker import TrackedGrid
from fedgrid.tracking.explained.scores import DISTRIBUTIONS
from tests.helpers.command_line import fedgrid, new_storage
from tests.helpers.explained import GRID, RUNS, read_explanations
from tests.helpers.manifests import list_files
from tests.helpers.small_grid import NOWHERE

pytestmark = pytest.mark.usefixtures("in_mlflow")

ASKED = ExplainOptions(on=("members", "others"), images=2, steps=4)


@pytest.fixture(scope="module")
def whole(finished, tmp_path_factory):
    """A storage with explanations, and what the command printed."""
    root = copy_of(finished.root, tmp_path_factory.mktemp("explained"))
    before = {path: path.read_bytes() for path in root.glob("*/*") if path.is_file()}
    with pytest.MonkeyPatch.context() as patch:
        found = run(root, patch)
    return root, before, found


def run(root, patch, asked=ASKED, **options):
    """Run the command without MLflow; return the JSON that it prints."""
    printed = []
    patch.setattr(command, "log_to_mlflow", lambda *given: True)
    patch.setattr("builtins.print", lambda text: printed.append(text))
    how = {"in_process": True, "as_json": True, **options}
    analyse_runs(EXPLAIN, GRID, Storage(root), NOWHERE, asked, Console(quiet=True), **how)
    return json.loads(printed[-1]) if printed else {}


def copy_of(root, to):
    shutil.copytree(root, to / "runs")
    return to / "runs"


def test_each_run_and_distribution_has_records_and_no_file_of_a_run_changes(whole):
    root, before, found = whole
    assert (found["jobs"], found["done_before"], found["failed"]) == (4, 0, 0)
    assert {path: path.read_bytes() for path in before} == before
    assert all(RunFolder(Storage(root), each).find_damage() is None for each in RUNS)
    assert len(read_explanations(root)) == 2 * 4
    tables = [pq.read_table(path) for path in sorted(root.glob("*/explanations/members-*.parquet"))]
    assert [table.num_rows for table in tables] == [2 * 3, 2 * 3]


def test_killed_or_damaged_job_is_done_again_with_the_same_bytes(whole, tmp_path, monkeypatch):
    root = copy_of(whole[0], tmp_path)
    expected = read_explanations(root)
    marks = sorted(root.glob("*/explanations/*.json"))
    records = sorted(root.glob("*/explanations/*.parquet"))
    marks[0].unlink()
    records[1].write_bytes(records[1].read_bytes()[:-9])
    assert run(root, monkeypatch)["done_before"] == 2
    assert read_explanations(root) == expected


def test_run_with_another_state_is_explained_again(whole, tmp_path, monkeypatch):
    root = copy_of(whole[0], tmp_path)
    state = build_folder_path(root, RUNS[0]) / "state-000003.safetensors"
    state.write_bytes(state.read_bytes() + b" ")
    list_files(state.parent)
    jobs = EXPLAIN.jobs(RUNS, ASKED, Context(Storage(root), NOWHERE, {}))
    done = [JobFiles(Storage(root), EXPLAIN.folder, job).read_mark() is not None for job in jobs]
    assert done == [False, False, True, True]


def test_dry_run_says_what_is_left_and_writes_nothing(whole, tmp_path, monkeypatch):
    root = copy_of(whole[0], tmp_path)
    sorted(root.glob("*/explanations/members-*.json"))[0].unlink()
    before = sorted(root.rglob("*"))
    found = run(root, monkeypatch, dry_run=True)
    assert sorted(root.rglob("*")) == before
    assert [(row["part"], row["runs"], row["analysed"]) for row in found["rows"]] == [
        ("members", 2, 1),
        ("others", 2, 2),
    ]


def test_report_shows_what_was_asked_for_last(whole, tmp_path, monkeypatch):
    root = copy_of(whole[0], tmp_path)
    run(root, monkeypatch, ExplainOptions(on=("members",), images=1, steps=4))
    storage = Storage(root)
    jobs = read_selected_jobs(EXPLAIN, GridFolder(storage, GRID), RUNS)
    found = summarise_styles(find_results(EXPLAIN, jobs, describe_runs(RUNS, storage), storage)[0])[""]
    images = {on: [each.weight for each in found.explained if each.on == on] for on in DISTRIBUTIONS}
    assert (sum(images["members"]), sum(images["server"])) == (1 * 3 * 2, 0)
    assert set(images["others"]) == {2.0}, "asked for before, with two images of each client"
    assert found.about.startswith("1 to 2 images of each client")


def test_mlflow_gets_the_means_the_records_and_the_maps_of_runs_that_it_knows(whole, tmp_path):
    root = new_storage(tmp_path / "runs")
    shutil.copytree(whole[0], root, dirs_exist_ok=True)
    claim_storage_id(Storage(root))
    TrackerSession(MlflowTracker, TrackedGrid(GRID, Storage(root))).update_run(RUNS[0])
    options = ("on=members,others", "images=2", "steps=4", "--in-process", "--json")
    result = fedgrid("analyse", GRID, "explain", "--storage", root, *options)
    assert result.code == 0
    assert "MLflow does not know 1 of the runs: `fedgrid sync small --storage " in result.err
    gaps = {
        row["algorithm"]: row["explanations/members_gap"]
        for row in result.events[-1]["rows"]
        if row["part"] == "members"
    }
    client = MlflowClient(default_uri(root))
    experiment = client.get_experiment_by_name(GRID)
    (logged,) = client.search_runs([experiment.experiment_id], f"tags.`fedgrid.run_id` = '{RUNS[0].run_id}'")
    assert logged.data.metrics["explanations/members_gap"] == gaps["fedavg"]
    files = [Path(each.path).name for each in client.list_artifacts(logged.info.run_id, "explanations")]
    assert sorted(name.partition("-")[0] for name in files) == ["maps", *["members"] * 2, *["others"] * 2]


@pytest.mark.ray
def test_records_on_ray_are_those_of_one_process(whole, tmp_path, ray_session):
    root = copy_of(whole[0], tmp_path)
    expected = read_explanations(root)
    for path in root.glob("*/explanations/others-*"):
        path.unlink()
    storage = Storage(root)
    # A job of each run: every task of Ray imports torch.
    context = Context(storage, NOWHERE, describe_runs(RUNS, storage))
    jobs = [job for job in EXPLAIN.jobs(RUNS, ASKED, context) if job.settings.on == "others"]
    ended = []
    with Lease(storage, GRID) as lease:
        run_on_ray(EXPLAIN, jobs, context, lease.token, lambda: None, ended.append)
    assert [each.cause for each in ended] == [None] * 2
    assert read_explanations(root) == expected
