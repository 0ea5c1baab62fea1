"""What the MLflow store of a storage may hold."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.command_line import fedgrid, new_storage
from tests.helpers.finished_runs import mark_finished
from tests.helpers.logged_runs import ROUNDS, config_of, record

pytestmark = pytest.mark.usefixtures("in_mlflow", "drawn_here")
RUN = config_of(0)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A storage with a finished run in a grid."""
    root = new_storage(tmp_path_factory.mktemp("made") / "runs")
    record(root, RUN, ROUNDS)
    mark_finished(root, RUN)
    GridFolder(Storage(root), "mine").keep([RUN], "dataset: digits\n")
    return root


@pytest.fixture
def place(made, tmp_path):
    """A folder with the storage."""
    shutil.copytree(made, tmp_path / "runs")
    return tmp_path


@pytest.mark.parametrize("command", ["sync", "delete"])
def test_view_in_the_mlflow_store_is_refused(place, command):
    """A view is code of whoever wrote the store."""
    with closing(sqlite3.connect(place / "runs" / "mlflow.db")) as database, database:
        database.execute("ALTER TABLE runs RENAME TO own_runs")
        database.execute("CREATE VIEW runs AS SELECT * FROM own_runs")
    asked = (command, "mine", "--yes") if command == "delete" else (command, "mine")
    result = fedgrid(*asked, "--storage", place / "runs")
    assert result.err.count("has the view runs, which MLflow does not make; move it away") == 1
    assert "Traceback" not in result.err
    assert result.err.count("\n") <= 2
