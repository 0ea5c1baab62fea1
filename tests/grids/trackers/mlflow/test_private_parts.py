"""What fedgrid relies on of MLflow beside its public interface: a new version may change it.

Also the words of the prepared view: test_view.py.
"""

import sqlite3
import tomllib
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

from fedgrid.grids.trackers.mlflow.own_store import COLUMNS, LIVING_RUNS, MADE_BY_OTHERS, TAGGED
from tests.helpers.command_line import new_storage

KNOWN = "3.17"
"""The version of MLflow whose store these modules were written for."""


def test_store_of_this_mlflow_is_the_one_that_is_known(tmp_path: Path) -> None:
    """Its tables have the columns with addresses that `own_artifacts` sets, and it has no view or trigger of
    its own but the one that `own_files` knows."""
    changed = f"MLflow {version('mlflow')} has changed its store since {KNOWN}"
    with closing(sqlite3.connect(new_storage(tmp_path) / "mlflow.db")) as database:
        for addresses in COLUMNS:
            columns = {row[1] for row in database.execute(f"PRAGMA table_info({addresses.table})")}
            assert {addresses.key, addresses.column} <= columns, f"{changed}: see {addresses}"
        assert database.execute(LIVING_RUNS + TAGGED, ("mine", "key", "value")).fetchall() == [], changed
        assert database.execute(MADE_BY_OTHERS).fetchall() == [], changed


def test_declared_versions_of_mlflow_end_with_the_one_that_is_known() -> None:
    """With another one, look at the test above first, then raise the bound and `KNOWN`."""
    major, minor = map(int, KNOWN.split("."))
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
    assert f"mlflow<{major}.{minor + 1}" in project["dependencies"]
