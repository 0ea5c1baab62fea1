"""A new SQLite store is a copy of an empty one in the user's cache."""

import shutil
from importlib.metadata import version

import pytest
from mlflow.tracking import MlflowClient

from fedgrid.grids.trackers import own_store
from fedgrid.grids.trackers.own_store import ensure_file
from fedgrid.tracking.mlflow.store import default_uri
from tests.helpers.command_line import new_storage


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
