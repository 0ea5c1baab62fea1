"""What fedgrid relies on of MLflow beside its public interface: a new version may change it.

Also the words of the prepared view: test_view.py.
"""

import sqlite3
import tomllib
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

from fedgrid.grids.trackers.mlflow.own_store import ACTIVE_RUNS_QUERY, ADDRESS_COLUMNS, TAG_CONDITION
from tests.helpers.command_line import new_storage

KNOWN = "3.17"
"""The version of MLflow whose store these modules were written for."""


def test_store_of_this_mlflow_is_the_one_that_is_known(tmp_path: Path) -> None:
    """Its tables have the columns with addresses that `own_store` sets."""
    changed = f"MLflow {version('mlflow')} has changed its store since {KNOWN}"
    with closing(sqlite3.connect(new_storage(tmp_path) / "mlflow.db")) as database:
        for table, column in ADDRESS_COLUMNS.items():
            columns = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
            assert column in columns, f"{changed}: see {table}"
        assert (
            database.execute(ACTIVE_RUNS_QUERY + TAG_CONDITION, ("mine", "key", "value")).fetchall() == []
        ), changed


def test_declared_versions_of_mlflow_end_with_the_one_that_is_known() -> None:
    """With another one, look at the test above first, then raise the bound and `KNOWN`."""
    major, minor = map(int, KNOWN.split("."))
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
    assert f"mlflow<{major}.{minor + 1}" in project["dependencies"]
