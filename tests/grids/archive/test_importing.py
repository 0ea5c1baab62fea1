"""`fedgrid import`: the authors' archive as runs of a grid, again and again, whatever came between."""

import json

import pyarrow.parquet as pq
import pytest

from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.archive.explanation_records import load_rows
from fedgrid.grids.results.archive_models import MODELS
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.trackers.mlflow.store import default_uri
from fedgrid.manifest import read_manifest
from fedgrid.tracking.figures.runs import write as write_figure
from tests.helpers.command_line import fedgrid, new_storage, strict_json
from tests.helpers.logged_runs import Store, build_config
from tests.helpers.manifests import list_finished
from tests.helpers.small_archive import (
    SCENARIO,
    find_results,
    replace_text,
    truncate_file,
    write_blueprint,
    write_centralised,
    write_csv,
    write_explanations,
    write_metrics,
    write_run,
)

pytestmark = pytest.mark.usefixtures("in_mlflow")

BLOODMNIST = ("BLOODMNIST", "overlaping", "imbalanced", "30")
PUBLISHED = "bloodmnist-30-overlapping-imbalanced"


@pytest.fixture
def archive(tmp_path):
    return new_archive(tmp_path)


@pytest.fixture
def storage(tmp_path):
    return new_storage(tmp_path / "runs")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A storage with the grid `mine`, which no test changes."""
    folder = tmp_path_factory.mktemp("done")
    imported(new_archive(folder), storage := new_storage(folder / "runs"))
    return storage


def new_archive(folder):
    """Write two runs of a scenario, one of them with its metrics."""
    archive = folder / "ODFL_Archive"
    write_metrics(write_run(archive, "HDBSCAN"))
    write_run(archive, "baseline")
    return archive


def imported(archive, storage, *options, **settings):
    """Return the JSON output of the command."""
    result = fedgrid(
        "import", archive, "--name", "mine", "--storage", storage, "--json", *options, **settings
    )
    assert result.code == 0, result.err
    return strict_json(result.out)


def counts(output, grid=0):
    return {name: output["grids"][grid][name] for name in ("imported", "unchanged")}


def folder_of(storage, algorithm):
    (folder,) = storage.glob(f"*-{algorithm}-s0-*")
    return folder


def bytes_of(folder):
    """What the files of a folder hold, but for the log, which has the time."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "log.txt")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def ids_of(storage):
    """Return the ids that MLflow gave, by the names of the runs."""
    return {name: run.info.run_id for name, run in Store(default_uri(storage)).runs.items()}


SHOWN = "NB, mnist-15"


def test_imported_run_has_a_folder_like_a_trained_one(done):
    folder = folder_of(done, "ocfl_hdbscan_as_published")
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == {
        *("config.json", "rounds.parquet", "clients.parquet", "scores.json"),
        *("manifest.json", "manifest-before.json", "log.txt", "mlflow.json"),
    }
    config = json.loads((folder / "config.json").read_text())
    assert config["model"] == MODELS["mnist"]
    assert config["training"]["rounds"] == 3
    done = read_manifest(folder)
    assert (done.run_id, done.rounds, done.is_finished) == (folder.name[-12:], 3, True)
    assert sorted(done.files) == ["clients.parquet", "config.json", "rounds.parquet"]
    scores = strict_json((folder / "scores.json").read_text())
    assert (scores["ari"], scores["published_round"], scores["generalised_f1"]) == (1.0, 2, None)
    assert scores["published_rand"] == pytest.approx(2 / 3)
    assert "read from ODFL_Archive/experiments/MNIST/" in (folder / "log.txt").read_text()
    assert "absent: dataset blueprint" in (folder / "log.txt").read_text()


def test_every_imported_run_can_be_drawn_also_without_a_temperature(done, tmp_path):
    for folder in list_finished(done):
        assert write_figure(folder, tmp_path / folder.name).exists()
    assert len(list(tmp_path.iterdir())) == 2


def test_imported_grid_works_like_a_launched_one(done):
    grid = GridFolder(Storage(done), "mine")
    names = ["fedavg", "ocfl_hdbscan_as_published"]
    assert [run.name for run in grid.read_runs()] == [
        f"mnist-15-nonoverlapping-balanced-{name}-s0" for name in names
    ]
    assert "hidden_groups: those of the images" in (grid.path / "preset.yaml").read_text()
    assert (grid.path / "summary.csv").read_text().count("\n") == 1 + 2
    assert fedgrid("status", "mine", "--storage", done).out.startswith("mine: finished\n2 runs: 2 done")


def test_mlflow_names_the_archive_as_source_of_imported_runs(done):
    logged = Store(default_uri(done))
    assert len(logged.runs) == 1 + 2
    run = logged.runs[f"ocfl-hdbscan-as-published s0 {SHOWN}"]
    assert run.info.status == "FINISHED"
    assert run.data.tags["source"] == "the OCFL authors' archive"
    assert not {"host", "commit", "versions"} & run.data.tags.keys()
    assert (run.data.metrics["round"], run.data.metrics["clustering/ari"]) == (3, 1.0)
    assert "generalised_f1" not in run.data.metrics
    assert logged.runs["mine"].data.metrics["grid/runs_done"] == 2


def test_second_import_changes_nothing(archive, storage):
    assert counts(imported(archive, storage)) == {"imported": 2, "unchanged": 0}
    folders = [path for path in storage.iterdir() if path.is_dir() and path.name != "mlartifacts"]
    before, ids = [bytes_of(folder) for folder in folders], ids_of(storage)
    assert counts(imported(archive, storage)) == {"imported": 0, "unchanged": 2}
    assert [bytes_of(folder) for folder in folders] == before
    assert ids_of(storage) == ids


def test_import_gives_the_same_bytes_every_time(archive, storage, tmp_path):
    other = new_storage(tmp_path / "other")
    output = [imported(archive, where) for where in (storage, other)]
    assert output[0]["grids"][0] | {"mlflow": ""} == output[1]["grids"][0] | {"mlflow": ""}
    for folder in storage.glob("mnist-*"):
        one, two = bytes_of(folder), bytes_of(other / folder.name)
        assert one.keys() == two.keys()
        assert [name for name in one if one[name] != two[name]] == ["mlflow.json"]


def test_run_with_more_rounds_replaces_the_earlier_import(archive, storage):
    imported(archive, storage)
    before = folder_of(storage, "fedavg")
    path = find_results(archive, "baseline") / "cluster_id_mapping.csv"
    path.write_text(path.read_text() + path.read_text().splitlines()[-1] + "\n")
    assert counts(imported(archive, storage)) == {"imported": 1, "unchanged": 1}
    assert folder_of(storage, "fedavg") != before
    assert len(GridFolder(Storage(storage), "mine").read_runs()) == 2
    assert Store(default_uri(storage)).runs[f"fedavg s0 {SHOWN}"].data.metrics["round"] == 4


def test_import_killed_between_records_and_scores_is_repaired(archive, storage, monkeypatch):
    def killed(config, storage):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fedgrid.grids.archive.foreign_grid.write_scores", killed)
        assert fedgrid("import", archive, "--name", "mine", "--storage", storage).code == 130
    assert list_finished(storage) == []
    assert counts(imported(archive, storage)) == {"imported": 2, "unchanged": 0}


def test_published_truth_changes_one_scenario(archive, storage):
    write_run(archive, "kmeans", BLOODMNIST, (10, 10, 10))
    imported(archive, storage)
    path = folder_of(storage, "ocfl_kmeans") / "scores.json"
    assert strict_json(path.read_text())["exactly_right"]
    assert counts(imported(archive, storage, "--published-truth")) == {"imported": 1, "unchanged": 2}
    assert not strict_json(path.read_text())["exactly_right"]
    assert f"published ({PUBLISHED} as 7/14/9)" in (storage / "grids/mine/preset.yaml").read_text()
    run = Store(default_uri(storage)).runs["ocfl-kmeans s0 OI, bloodmnist-30"]
    assert run.data.metrics["clustering/ari"] < 1


def test_temperature_runs_become_a_second_grid(archive, storage):
    """Three rounds, in two columns; the mapping has A everywhere."""
    folder = archive.joinpath("temperature_experiments", *SCENARIO, "some", "name")
    folder.mkdir(parents=True)
    write_csv(folder / "cluster_id_mapping.csv", [[str(client) for client in range(15)], *[["A"] * 15] * 3])
    write_csv(folder / "clusters_temperature.csv", [["0", "0.5"], ["1", "0.25"], ["2", "0.375"]])
    output = imported(archive, storage)
    assert [grid["grid"] for grid in output["grids"]] == ["mine", "mine-temperature"]
    (config,) = GridFolder(Storage(storage), "mine-temperature").read_runs()
    assert config.name == "mnist-15-nonoverlapping-balanced-fedavg-s1"
    rounds = pq.read_table(storage / f"{config.name}-{config.run_id}" / "rounds.parquet")
    assert rounds["temperature"].to_pylist() == [0.5, 0.25, 0.375]
    assert rounds["clustered"].to_pylist() == [False] * 3


def test_import_prints_counts_absent_files_and_the_next_command(archive, storage):
    write_blueprint(archive)
    result = fedgrid("import", archive, "--name", "mine", "--storage", storage)
    lines = result.out.splitlines()
    assert lines[0] == "mnist-15-nonoverlapping-balanced-fedavg-s0: imported"
    assert lines[2:4] == [
        "mine: 2 runs (scenarios: 1, algorithms: 2); 2 imported, 0 unchanged",
        "  absent in 1 of them: training_metrics.csv, before_update_metrics.csv, "
        "after_update_generalizability.csv, after_update_metrics.csv",
    ]
    assert lines[-1] == f"Next:  fedgrid report mine --storage {storage}"


def test_what_stands_among_the_runs_is_read_or_skipped_in_a_line_each(archive, storage):
    """As in the whole archive, whose centralised trainings once ended the import."""
    write_centralised(archive)
    write_centralised(archive, "BLOODMNIST", "first")
    broken = write_centralised(archive, "BLOODMNIST", "second") / "training_loss.csv"
    replace_text(broken, 3, "106.5", "many")
    write_explanations(archive, "HDBSCAN", [("AA", 0.5, 0.25)])
    strange = write_explanations(archive, "kmeans", [("AA", 1.5, 0.25)])
    result = fedgrid("import", archive, "--name", "mine", "--storage", storage)
    assert result.code == 0
    assert [" ".join(line.split()) for line in result.err.splitlines()] == [
        f"warning: skipped: {broken}:3: weights_norm 'many'; expected a number",
        f"warning: skipped: {strange}:2: ins_mean '1.5'; expected a number from 0 to 1",
    ]
    show = f"fedgrid analyse centralised epsilons --storage {storage}"
    assert result.out.splitlines()[-6:-4] == [
        f"centralised trainings: 2; `{show}` shows them beside your own",
        "scores of explanations: 1 models; `fedgrid report` has their tables",
    ]
    output = imported(archive, storage)
    assert counts(output) == {"imported": 0, "unchanged": 2}
    assert output["centralised"] == ["mnist: centralised_test", "bloodmnist: centralised_test/first"]
    assert output["explanations"] == 1
    [row] = load_rows(GridFolder(Storage(storage), "mine"))
    assert (row["algorithm"], row["on"], row["insertion_mean"]) == (
        "ocfl-hdbscan-as-published",
        "members",
        0.5,
    )


def test_malformed_file_ends_the_import_before_its_run_is_written(archive, storage):
    truncate_file(find_results(archive, "HDBSCAN") / "clusters_temperature.csv", 1)
    result = fedgrid("import", archive, "--name", "mine", "--storage", storage)
    assert result.code == 2
    assert "clusters_temperature.csv:1: the end after 1 rounds; expected 2, up to the round of" in result.err
    assert [path.name[:43] for path in storage.glob("mnist-*")] == [
        "mnist-15-nonoverlapping-balanced-fedavg-s0-"
    ]


def test_import_under_the_name_of_a_trained_grid_is_refused(archive, storage):
    GridFolder(Storage(storage), "mine").keep([build_config(0)], "")
    result = fedgrid("import", archive, "--name", "mine", "--storage", storage)
    assert result.code == 2
    assert "grid mine has 1 runs that are not from the archive; choose another --name" in result.err
    assert not list(storage.glob("mnist-*"))


def test_import_without_mlflow_is_logged_by_sync(archive, storage):
    away = {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9"}
    result = fedgrid("import", archive, "--name", "mine", "--storage", storage, **away)
    assert result.code == 0
    assert "no MLflow server answers at" in result.err
    assert f"`fedgrid sync mine --storage {storage}` logs what is missing" in result.err
    assert len(list_finished(storage)) == 2
    assert fedgrid("sync", "mine", "--storage", storage).code == 0
    run = Store(default_uri(storage)).runs[f"fedavg s0 {SHOWN}"]
    assert run.data.tags["source"] == "the OCFL authors' archive"
    assert "host" not in run.data.tags


def test_import_at_a_uri_is_complete_for_another_machine(archive, tmp_path):
    bucket = tmp_path / "bucket"
    logged = {"MLFLOW_TRACKING_URI": default_uri(new_storage(tmp_path / "logged"))}
    first, second = ({**logged, "FEDGRID_CACHE": str(tmp_path / name)} for name in ("first", "second"))
    assert counts(imported(archive, f"local://{bucket}", **first)) == {"imported": 2, "unchanged": 0}
    assert bytes_of(folder_of(bucket, "fedavg")).keys() == {
        *("config.json", "rounds.parquet", "clients.parquet", "scores.json", "mlflow.json"),
        *("manifest.json", "manifest-before.json"),
    }
    assert (bucket / "grids" / "mine" / "summary.csv").exists()
    assert counts(imported(archive, f"local://{bucket}", **second)) == {"imported": 0, "unchanged": 2}
