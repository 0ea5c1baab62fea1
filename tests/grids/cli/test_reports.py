"""`fedgrid report` and `fedgrid table` as typed: output, files, errors."""

import csv
import shutil
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.trackers.mlflow.store import default_uri
from tests.helpers.command_line import fedgrid, new_storage, strict_json
from tests.helpers.manifests import list_files, list_finished
from tests.helpers.small_archive import write_metrics, write_run
from tests.helpers.undrawn import skip_drawing

pytestmark = pytest.mark.usefixtures("in_mlflow")


@pytest.fixture(scope="module")
def grids(tmp_path_factory):
    """A storage with a grid of three imported runs of three rounds."""
    folder = tmp_path_factory.mktemp("grids")
    for algorithm in ("baseline", "kmeans", "HDBSCAN"):
        write_metrics(write_run(folder / "archive", algorithm))
    storage = new_storage(folder / "runs")
    fedgrid("import", folder / "archive", "--name", "one", "--storage", storage)
    return storage


@pytest.fixture
def storage(grids, tmp_path):
    """A copy that a test may change."""
    shutil.copytree(grids, tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture
def without_figures():
    """Leave figures empty: what a test asks is in tables, page or messages."""
    with skip_drawing():
        yield


def report(storage, *options, **settings):
    return fedgrid("report", "one", "--storage", storage, *options, **settings)


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.usefixtures("without_figures")
def test_a_target_is_shown_with_its_cost_in_the_unit_that_was_asked_for(grids, tmp_path):
    options = ("--target", "personalised_accuracy=1", "--unit", "mbit-per-client", "--to", tmp_path)
    result = report(grids, *options)
    assert result.code == 0
    assert "Cost of personalised accuracy 1: mnist" in result.out
    assert "Mbit a client" in result.out
    (table,) = (tmp_path / "tables").glob("cost-*.csv")
    assert [row["reached"] for row in rows(table)] == ["0.0", "0.0", "0.0"]


@pytest.mark.usefixtures("without_figures")
def test_report_is_in_the_grids_folder_and_on_its_mlflow_run(storage):
    said = strict_json(report(storage, "--json").out)
    folder = storage / "grids" / "one" / "report"
    assert Path(said["index"]) == folder / "index.html"
    assert said["files"] == len(contents(folder))
    assert (said["runs"], said["finished"], said["lacking"], said["mlflow"]) == (3, 3, {}, True)
    client = MlflowClient(tracking_uri=default_uri(storage))
    experiment = client.get_experiment_by_name("one")
    (parent,) = client.search_runs([experiment.experiment_id], "tags.`fedgrid.run_id` = 'grid'")
    assert "report/index.html" in {item.path for item in client.list_artifacts(parent.info.run_id, "report")}


def test_reports_of_the_same_records_are_the_same_bytes(storage, tmp_path):
    said = report(storage, "--against", "published", "--to", tmp_path / "first").out
    assert {"Overview", "fedavg", str(tmp_path / "first" / "index.html")} <= set(said.split())
    found = sorted((tmp_path / "first" / "tables").glob("against-*.md"))
    assert f"Beside the published numbers, {len(found)} tables: {found[0].parent}" in said
    report(storage, "--against", "published", "--to", tmp_path / "second")
    assert contents(tmp_path / "first") == contents(tmp_path / "second")


def test_unfinished_run_is_named_and_its_cells_are_empty(storage, tmp_path):
    (run,) = storage.glob("*-ocfl_kmeans-*")
    list_files(run, is_finished=False)
    result = report(storage, "--to", tmp_path / "report")
    assert "1 of 3 runs of one " in result.out
    assert run.name.rpartition("-")[0] in result.out
    table = {row["algorithm"]: row for row in rows(tmp_path / "report" / "tables" / "table1-mnist-15.csv")}
    column = "nonoverlapping balanced: RAND"
    assert table["ocfl-kmeans"][column] == ""
    assert float(table["ocfl-hdbscan-as-published"][column]) == pytest.approx(2 / 3)
    (lacking,) = rows(tmp_path / "report" / "tables" / "lacking-one.csv")
    assert lacking["run"] == run.name.rpartition("-")[0]
    assert "algorithm" in lacking


@pytest.mark.usefixtures("without_figures")
def test_report_of_some_runs_has_a_folder_of_its_own_and_says_so(storage):
    """The report of the whole grid stays, in MLflow too."""
    said = strict_json(report(storage, "--where", "algorithms=fedavg", "--json").out)
    folder = storage / "grids" / "one" / "report-algorithms-fedavg"
    assert (Path(said["index"]), said["runs"], said["mlflow"]) == (folder / "index.html", 1, False)
    assert "Only runs with algorithms=fedavg" in (folder / "index.html").read_text()
    assert [row["algorithm"] for row in rows(folder / "tables" / "overview.csv")] == ["fedavg"]
    assert not (storage / "grids" / "one" / "report").exists()


@pytest.mark.usefixtures("without_figures")
def test_report_draws_all_figures_and_other_formats_if_asked_for_and_says_so(grids, tmp_path):
    few = report(grids, "--to", tmp_path / "few").out
    every = report(grids, "--to", tmp_path / "every", "--all-figures", "--format", "pdf").out
    names = {path.name for path in (tmp_path / "every" / "figures").iterdir()}
    drawn = {path.name for path in (tmp_path / "few" / "figures").iterdir()}
    assert {"ari-mnist-15.svg", "cost-mnist-15.svg"} < drawn < names
    assert {"sizes-mnist-15.svg", "sizes-mnist-15.pdf", "ari-mnist-15.pdf"} <= names - drawn
    assert "--all-figures" in few
    assert "--all-figures" not in every


def test_table_of_a_score_is_printed_in_a_format(grids):
    options = ("--score", "published_rand", "--where", "algorithm=ocfl-kmeans", "--format", "csv")
    result = table(grids, *options)
    assert (result.code, result.err) == (0, "")
    assert "ocfl-kmeans,0.6666" in result.out
    assert "fedavg" not in result.out


@pytest.mark.parametrize(
    ("command", "options", "says"),
    [
        ("report", ("--target", "accuracy=0.7"), "no score 'accuracy'"),
        ("report", ("--target", "personalised_accuracy=70"), "expected a score above 0 and up to 1"),
        ("report", ("--unit", "gigabytes"), "'bytes', 'mbit-per-client'"),
        ("report", ("--where", "algorithm=nothing"), "--where algorithm=nothing: no run has"),
        ("report", ("--where", "algoritm=fedavg"), "did you mean 'algorithm'"),
        ("report", ("--style", "ggplo"), "did you mean 'ggplot'"),
        ("report", ("--against", "on"), "did you mean 'one'"),
        ("report", ("--against", "publised"), "did you mean 'published'? known: published, one"),
        ("report", ("--against", "one"), "name another one"),
        ("table", ("--score", "arii"), "did you mean 'ari'"),
        ("table", ("--rows", ","), "--rows ,: nothing stands on one side of a comma"),
        ("table", ("--against", "fedavg"), "--seeds"),
    ],
)
def test_what_a_report_or_table_cannot_show_is_refused_in_one_line(grids, command, options, says):
    result = fedgrid(command, "one", "--storage", grids, *options)
    assert (result.code, result.out, len(result.err.splitlines())) == (2, "", 1)
    assert says in result.err


def test_report_of_a_grid_without_finished_runs_is_refused(storage):
    for folder in list_finished(storage):
        list_files(folder, is_finished=False)
    result = report(storage)
    assert result.code == 2
    assert "none of the 3 runs of one is finished" in result.err
    assert "`fedgrid status one --storage " in result.err
    assert not (storage / "grids" / "one" / "report").exists()


@pytest.mark.usefixtures("without_figures")
def test_report_is_written_when_mlflow_cannot_be_reached(storage):
    result = report(storage, MLFLOW_TRACKING_URI="http://127.0.0.1:9")
    assert result.code == 0
    assert "warning:" in result.err
    assert (storage / "grids" / "one" / "report" / "index.html").exists()


def table(storage, *options):
    return fedgrid("table", "one", "--storage", storage, *options)


def test_table_pairs_two_grids_by_scenario_and_algorithm(storage):
    """The second grid has two of the first one's three runs."""
    first, _, third = GridFolder(Storage(storage), "one").read_runs()
    GridFolder(Storage(storage), "other").keep([first, third], "")
    result = table(storage, "--against", "other", "--score", "ari", "--format", "csv")
    assert (result.code, result.err) == (0, "")
    compared = csv.DictReader(result.out.splitlines())
    assert {row["algorithm"]: float(row["difference"]) for row in compared} == {
        "fedavg": 0,
        "ocfl-hdbscan-as-published": 0,
    }
    shown = " ".join(table(storage, "--against", "other", "--score", "ari,ami").out.split())
    assert "1 without a finished partner" in shown
    assert shown.index("ARI: one and other") < shown.index("AMI: one and other")
    refused = table(storage, "--against", "other", "--rows", "dataset")
    assert (refused.code, "--rows and --columns" in refused.err) == (2, True)
