"""A storage's own store: its artifacts are in the storage, and a new one is copied from the cache."""

import shutil
import sqlite3
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow import own_store
from fedgrid.grids.trackers.mlflow.own_store import BESIDE, ensure_file, keep_artifacts
from fedgrid.grids.trackers.mlflow.store import default_uri
from tests.helpers.command_line import new_storage
from tests.helpers.super_journal import super_journal

RUN = "0123456789abcdef" * 2


def storage(folder: Path, address: str | None = None, run: str = RUN) -> Path:
    """A storage with one experiment and one run, whose artifacts are at `address`, by default inside."""
    (folder / "mlartifacts").mkdir(parents=True)
    root = (folder / "mlartifacts").resolve().as_uri()
    with closing(sqlite3.connect(folder / "mlflow.db")) as database, database:
        database.execute("CREATE TABLE experiments (experiment_id INTEGER, artifact_location TEXT)")
        database.execute("CREATE TABLE runs (run_uuid TEXT, artifact_uri TEXT)")
        database.execute("INSERT INTO experiments VALUES (1, ?)", [address or root])
        database.execute("INSERT INTO runs VALUES (?, ?)", [run, address or f"{root}/{run}/artifacts"])
    return folder


def keep(folder: Path) -> int:
    return keep_artifacts(default_uri(folder), folder / "mlartifacts")


def addresses(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "mlflow.db")) as database:
        query = "SELECT artifact_location FROM experiments UNION ALL SELECT artifact_uri FROM runs"
        return [address for (address,) in database.execute(query)]


def inside(folder: Path) -> list[str]:
    root = (folder / "mlartifacts").resolve().as_uri()
    return [root, f"{root}/{RUN}/artifacts"]


def test_copy_of_a_storage_has_its_artifacts_in_itself(tmp_path):
    original = storage(tmp_path / "my runs")
    before = (original / "mlflow.db").read_bytes()
    copy = Path(shutil.copytree(original, tmp_path / "copy"))
    assert keep(copy) == 1
    assert addresses(copy) == inside(copy)
    assert keep(copy) == 0
    assert (original / "mlflow.db").read_bytes() == before


def test_another_driver_may_write_until_the_addresses_are_written(tmp_path, monkeypatch):
    """It has begun to write before they are read, and ends when the only one is about to be set."""
    place, connect = storage(tmp_path), sqlite3.connect
    with closing(connect(place / "mlflow.db", timeout=0)) as other:
        other.execute("UPDATE experiments SET artifact_location = 'file:///elsewhere'")
        other.commit()

        def connect_and_watch(file):
            database = connect(file)
            database.set_trace_callback(lambda said: other.commit() if said.startswith("UPDATE") else None)
            return database

        monkeypatch.setattr(sqlite3, "connect", connect_and_watch)
        other.execute("BEGIN IMMEDIATE")
        assert keep(place) == 0
    assert addresses(place) == inside(place)


@pytest.mark.parametrize(
    "address", ["file:///etc", "s3://bucket/key", "../..", "-", "file://{}/mlartifacts/../../outside"]
)
def test_address_of_a_stranger_is_replaced(address, tmp_path):
    foreign = storage(tmp_path / "runs", address.format(tmp_path / "runs"))
    assert keep(foreign) == 1
    assert addresses(foreign) == inside(foreign)


def test_columns_of_another_version_are_those_that_are_there_whatever_their_case(tmp_path):
    """MLflow 2.4 has versions of models, and not yet where they are stored."""
    foreign = storage(tmp_path / "runs", "file:///etc")
    with closing(sqlite3.connect(foreign / "mlflow.db")) as database, database:
        database.execute("CREATE TABLE model_versions (version INTEGER, source TEXT)")
        database.execute("ALTER TABLE runs RENAME COLUMN artifact_uri TO ARTIFACT_URI")
    assert keep(foreign) == 1
    assert addresses(foreign) == inside(foreign)


def test_run_whose_id_is_a_path_is_refused(tmp_path):
    with pytest.raises(TrackerFailed, match=r"has run_uuid '\.\./\.\./outside': no id of MLflow's$"):
        keep(storage(tmp_path / "runs", run="../../outside"))


@pytest.mark.parametrize(
    ("address", "is_inside"), [("mlflow-artifacts:/1", True), ("mlflow-artifacts:/..", False)]
)
def test_address_that_a_server_of_the_store_gave_is_below_its_folder(address, is_inside, tmp_path):
    served = storage(tmp_path / "runs", address)
    assert keep(served) == 1 - is_inside
    assert addresses(served) == ([address] * 2 if is_inside else inside(served))


@pytest.mark.parametrize(
    "name", ["mlflow.db", *(f"mlflow.db{end}" for end in BESIDE), "mlartifacts", f"mlartifacts/{RUN}"]
)
def test_link_to_another_place_is_refused(name, tmp_path):
    """SQLite or MLflow would write there."""
    linked = storage(tmp_path / "runs")
    if (linked / name).exists():
        (linked / name).rename(tmp_path / "mine")
    (linked / name).symlink_to(tmp_path / "mine")
    with pytest.raises(TrackerFailed, match=f"is not opened: .*/{name} is a link; move that away"):
        keep(linked)


def test_journal_that_names_a_file_of_the_user_is_refused(tmp_path):
    """SQLite deletes that file once it has rolled back."""
    victim, foreign = tmp_path / "id_rsa", storage(tmp_path / "runs")
    victim.write_text("mine")
    copy = Path(shutil.copytree(foreign, tmp_path / "copy"))
    for folder in (foreign, copy):
        (folder / "mlflow.db-journal").write_bytes(super_journal(victim, folder / "mlflow.db"))
    with pytest.raises(TrackerFailed, match="mlflow.db-journal names another file"):
        keep(foreign)
    assert victim.exists()
    addresses(copy)
    assert not victim.exists(), "else there is nothing to refuse"


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TRIGGER mine AFTER UPDATE ON runs BEGIN UPDATE runs SET artifact_uri = 'file:///etc'; END",
        "CREATE VIEW mine AS SELECT * FROM runs",
    ],
)
def test_view_or_trigger_is_refused(made, tmp_path):
    foreign = storage(tmp_path / "runs")
    with closing(sqlite3.connect(foreign / "mlflow.db")) as database, database:
        database.execute(made)
    with pytest.raises(TrackerFailed, match="(view|trigger) mine, which MLflow does not make"):
        keep(foreign)


def test_addresses_of_models_and_traces_are_inside_too(tmp_path):
    """In a store of MLflow's own making; those of a model of this storage move with it."""
    runs = new_storage(tmp_path / "runs")
    root = (runs / "mlartifacts").absolute().as_uri()
    sources = "/etc", "file:///was/here/mlartifacts/a1/artifacts/model", "runs:/a1/m"
    with closing(sqlite3.connect(runs / "mlflow.db")) as database, database:
        database.execute(
            "INSERT INTO logged_models (model_id, experiment_id, name, artifact_location, "
            "creation_timestamp_ms, last_updated_timestamp_ms, status) "
            "VALUES ('m-1', 0, 'm', '/etc', 0, 0, 2)"
        )
        database.execute("INSERT INTO trace_tags VALUES ('mlflow.artifactLocation', 'file:///etc', 'tr-1')")
        database.executemany(
            "INSERT INTO model_versions (name, version, source, storage_location) VALUES ('m', ?, ?, ?)",
            [(version, source, source) for version, source in enumerate(sources)],
        )
    assert keep(runs) == 0
    with closing(sqlite3.connect(runs / "mlflow.db")) as database:
        found = [
            place
            for query in (
                "SELECT artifact_location FROM logged_models",
                "SELECT value FROM trace_tags",
                "SELECT source FROM model_versions ORDER BY version",
                "SELECT storage_location FROM model_versions ORDER BY version",
            )
            for (place,) in database.execute(query)
        ]
    versions = [f"{root}/models", f"{root}/a1/artifacts/model", "runs:/a1/m"]
    assert found == [f"{root}/models/m-1/artifacts", f"{root}/traces/tr-1/artifacts", *versions, *versions]


def test_storage_that_is_reached_by_a_link_is_the_same_place(tmp_path):
    real = storage(tmp_path / "runs")
    (tmp_path / "link").symlink_to(real)
    assert keep(tmp_path / "link") == 0


def test_store_that_the_user_named_is_left_alone(tmp_path):
    named = storage(tmp_path / "named", "s3://bucket/key")
    assert keep_artifacts(default_uri(named), tmp_path / "runs" / "mlartifacts") == 0
    assert addresses(named) == ["s3://bucket/key"] * 2


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache with an empty store: MLflow takes seconds to make one."""
    monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / "cache"))
    (new_storage(tmp_path / "cache") / "mlflow.db").rename(
        tmp_path / "cache" / f"mlflow-{version('mlflow')}.db"
    )
    return tmp_path / "cache"


def test_copy_is_a_store_with_a_default_experiment_of_its_own(cache, tmp_path):
    uri = default_uri(tmp_path / "runs")
    ensure_file(uri)
    [default] = MlflowClient(tracking_uri=uri).search_experiments()
    assert (default.experiment_id, default.name) == ("0", "Default")
    assert "cache" not in default.artifact_location
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["mlflow.db"]


def test_store_that_is_there_stays(cache, tmp_path):
    (tmp_path / "mlflow.db").write_text("not ours")
    ensure_file(default_uri(tmp_path))
    assert (tmp_path / "mlflow.db").read_text() == "not ours"


def test_store_that_another_driver_makes_meanwhile_stays(cache, tmp_path, monkeypatch):
    def copied_late(empty, copy):
        (tmp_path / "mlflow.db").write_text("theirs")
        shutil.copyfile(empty, copy)

    monkeypatch.setattr(own_store, "copyfile", copied_late)
    ensure_file(default_uri(tmp_path))
    assert (tmp_path / "mlflow.db").read_text() == "theirs"


def test_cache_that_cannot_be_written_leaves_the_store_to_mlflow(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / "file"))
    ensure_file(default_uri(tmp_path))
    assert not (tmp_path / "mlflow.db").exists()
