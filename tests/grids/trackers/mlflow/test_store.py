"""Where MLflow is: addresses, and stores that cannot be reached."""

import os
import socket
import sqlite3
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import OperationalError

from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow import store
from tests.helpers.command_line import new_storage


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (None, "sqlite:///{here}/runs/mlflow.db"),
        ("http://head:5000", "http://head:5000"),
        ("sqlite:////abs/mlflow.db", "sqlite:////abs/mlflow.db"),
        ("postgresql+psycopg2://user:word@host/mlflow", "postgresql+psycopg2://user:word@host/mlflow"),
        ("sqlite:///mlflow.db", "sqlite:///{here}/mlflow.db"),
        ("sqlite:///~/mlflow.db", "sqlite:////home/me/mlflow.db"),
        ("sqlite:///$HOME/mlflow.db", "sqlite:////home/me/mlflow.db"),
    ],
)
def test_store_is_a_file_of_the_storage_unless_the_environment_names_another(
    uri, expected, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert store.tracking_uri(Path("runs")) == expected.format(here=tmp_path)


ALLOWED = "MLFLOW_TRACKING_URI is '.*sqlite:////absolute.*postgresql.*http"
THREE = "three slashes, as in sqlite:///mlflow.db"
"""With two it would be a file beside this folder, and in memory every process has its own."""


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        *(
            (uri, ALLOWED)
            for uri in ("htp://host:5000", "./mlruns", "file:///tmp/mlruns", "http://", "sqlite:///")
        ),
        *((uri, THREE) for uri in ("sqlite://mlflow.db", "sqlite://host/mlflow.db", "sqlite:///:memory:")),
    ],
)
def test_a_malformed_store_address_is_refused_with_the_allowed_ones(uri, says, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(TrackerFailed, match=says):
        store.tracking_uri(tmp_path)


def test_an_mlflow_server_that_does_not_answer_is_an_error_of_one_line(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(
        TrackerFailed, match=rf"at http://\*\*\*@127.0.0.1:{port} .*refused.*; start it"
    ) as caught:
        store.open_client(f"http://user:secret@127.0.0.1:{port}")
    assert "secret" not in str(caught.value)


def test_a_file_that_is_no_database_is_one_line(tmp_path):
    (tmp_path / "mlflow.db").write_text("not a database, but long enough to be read as one" * 50)
    with pytest.raises(TrackerFailed, match="mlflow.db: file is not a database; move .*fedgrid sync"):
        store.open_client(store.default_uri(tmp_path))


@pytest.mark.parametrize("folder", ["runs", "a%41b", "a?b", "a#b", "a b+c", "ñ鳥", "100%"])
def test_address_names_the_file_whatever_its_path(tmp_path, folder):
    new_storage(tmp_path / folder)
    uri = store.default_uri(tmp_path / folder)
    assert store.database_file(uri) == tmp_path / folder / "mlflow.db"
    assert make_url(uri).database == str(tmp_path / folder / "mlflow.db")
    store.open_client(uri)
    assert [path.name for path in tmp_path.iterdir()] == [folder]


def test_store_of_another_version_names_the_command_that_upgrades_it(tmp_path):
    with closing(sqlite3.connect(new_storage(tmp_path) / "mlflow.db")) as database, database:
        database.execute("UPDATE alembic_version SET version_num = 'c1d2e3f4a5b6'")
    uri = store.default_uri(tmp_path)
    with pytest.raises(TrackerFailed, match=f"MLflow {version('mlflow')}; `mlflow db upgrade {uri}`"):
        store.open_client(uri)


def test_truncated_store_is_one_line_before_mlflow_asks_it_for_a_minute(tmp_path):
    """The first page is whole, and says that there are more."""
    file = new_storage(tmp_path) / "mlflow.db"
    os.truncate(file, 4096)
    uri = store.default_uri(tmp_path)
    with pytest.raises(TrackerFailed, match="malformed; move the file away.*sync"), store.convert_errors(uri):
        store.check_reachable(uri)


def test_cause_is_the_stores_and_not_about_a_session_of_sqlalchemy():
    error = OperationalError("INSERT", {}, sqlite3.OperationalError("database or disk is full"))
    error.add_detail("raised as a result of Query-invoked autoflush; use a session.no_autoflush block")
    with (
        pytest.raises(TrackerFailed, match="database or disk is full$"),
        store.convert_errors("sqlite:////x"),
    ):
        raise error
