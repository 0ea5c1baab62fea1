"""Artifacts of a storage's own store: in the storage, whatever place its SQLite file names."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fedgrid.tracking.mlflow.own_artifacts import keep_inside
from fedgrid.tracking.mlflow.store import TrackingError, default_uri

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
    return keep_inside(default_uri(folder), folder / "mlartifacts")


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


@pytest.mark.parametrize(
    "address", ["file:///etc", "s3://bucket/key", "../..", "-", "file://{}/mlartifacts/../../outside"]
)
def test_address_of_a_stranger_is_replaced(address, tmp_path):
    foreign = storage(tmp_path / "runs", address.format(tmp_path / "runs"))
    assert keep(foreign) == 1
    assert addresses(foreign) == inside(foreign)


def test_run_whose_id_is_a_path_is_refused(tmp_path):
    with pytest.raises(TrackingError, match=r"has a run '\.\./\.\./outside': no id of MLflow's$"):
        keep(storage(tmp_path / "runs", run="../../outside"))


@pytest.mark.parametrize(
    ("address", "is_inside"), [("mlflow-artifacts:/1", True), ("mlflow-artifacts:/..", False)]
)
def test_address_that_a_server_of_the_store_gave_is_below_its_folder(address, is_inside, tmp_path):
    served = storage(tmp_path / "runs", address)
    assert keep(served) == 1 - is_inside
    assert addresses(served) == ([address] * 2 if is_inside else inside(served))


@pytest.mark.parametrize("name", ["mlflow.db", "mlartifacts"])
def test_link_to_another_place_is_refused(name, tmp_path):
    linked = storage(tmp_path / "runs")
    (linked / name).rename(tmp_path / name)
    (linked / name).symlink_to(tmp_path / name)
    with pytest.raises(TrackingError, match=f"{name} is a link to .*{name}; move that here"):
        keep(linked)


def test_storage_that_is_reached_by_a_link_is_the_same_place(tmp_path):
    real = storage(tmp_path / "runs")
    (tmp_path / "link").symlink_to(real)
    assert keep(tmp_path / "link") == 0


def test_store_that_the_user_named_is_left_alone(tmp_path):
    named = storage(tmp_path / "named", "s3://bucket/key")
    assert keep_inside(default_uri(named), tmp_path / "runs" / "mlartifacts") == 0
    assert addresses(named) == ["s3://bucket/key"] * 2
