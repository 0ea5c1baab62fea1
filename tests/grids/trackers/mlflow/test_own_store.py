"""A storage's own store: its artifacts are in the storage, and a new one is copied from the cache."""

import shutil
import sqlite3
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from fedgrid.grids.trackers.mlflow import own_store
from fedgrid.grids.trackers.mlflow.own_store import create_missing_store, relocate_artifacts
from fedgrid.grids.trackers.mlflow.store import default_uri
from tests.helpers.command_line import new_storage

RUN = "0123456789abcdef" * 2


def storage(folder: Path, address: str | None = None) -> Path:
    """A storage with one experiment and one run, whose artifacts are at `address`, by default inside."""
    (folder / "mlartifacts").mkdir(parents=True)
    root = (folder / "mlartifacts").resolve().as_uri()
    with closing(sqlite3.connect(folder / "mlflow.db")) as database, database:
        database.execute("CREATE TABLE experiments (experiment_id INTEGER, artifact_location TEXT)")
        database.execute("CREATE TABLE runs (run_uuid TEXT, artifact_uri TEXT)")
        database.execute("INSERT INTO experiments VALUES (1, ?)", [address or root])
        database.execute("INSERT INTO runs VALUES (?, ?)", [RUN, address or f"{root}/{RUN}/artifacts"])
    return folder


def keep(folder: Path) -> int:
    return relocate_artifacts(default_uri(folder), folder / "mlartifacts")


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
        other.execute("UPDATE experiments SET artifact_location = 'file:///else/mlartifacts'")
        other.commit()

        def connect_and_watch(file):
            database = connect(file)
            database.set_trace_callback(lambda said: other.commit() if said.startswith("UPDATE") else None)
            return database

        monkeypatch.setattr(sqlite3, "connect", connect_and_watch)
        other.execute("BEGIN IMMEDIATE")
        assert keep(place) == 0
    assert addresses(place) == inside(place)


def test_storage_that_is_reached_by_a_link_is_the_same_place(tmp_path):
    real = storage(tmp_path / "runs")
    (tmp_path / "link").symlink_to(real)
    assert keep(tmp_path / "link") == 0


def test_store_that_the_user_named_is_left_alone(tmp_path):
    named = storage(tmp_path / "named", "s3://bucket/key")
    assert relocate_artifacts(default_uri(named), tmp_path / "runs" / "mlartifacts") == 0
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
    create_missing_store(uri)
    [default] = MlflowClient(tracking_uri=uri).search_experiments()
    assert (default.experiment_id, default.name) == ("0", "Default")
    assert "cache" not in default.artifact_location
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["mlflow.db"]


def test_store_that_is_there_stays(cache, tmp_path):
    (tmp_path / "mlflow.db").write_text("not ours")
    create_missing_store(default_uri(tmp_path))
    assert (tmp_path / "mlflow.db").read_text() == "not ours"


def test_store_that_another_driver_makes_meanwhile_stays(cache, tmp_path, monkeypatch):
    def copied_late(empty, copy):
        (tmp_path / "mlflow.db").write_text("theirs")
        shutil.copyfile(empty, copy)

    monkeypatch.setattr(own_store, "copyfile", copied_late)
    create_missing_store(default_uri(tmp_path))
    assert (tmp_path / "mlflow.db").read_text() == "theirs"


def test_cache_that_cannot_be_written_leaves_the_store_to_mlflow(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / "file"))
    create_missing_store(default_uri(tmp_path))
    assert not (tmp_path / "mlflow.db").exists()
