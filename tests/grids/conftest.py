"""A new storage, and its own MLflow store."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.helpers.command_line import new_storage

if TYPE_CHECKING:
    from tests.helpers.logged_runs import Store


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Return the folder of a new storage."""
    return new_storage(tmp_path / "runs")


@pytest.fixture
def own_store(quick_stores: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Log to the storage's own MLflow store."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture
def store(storage: Path, own_store: None) -> "Store":
    """Return what is logged to it."""
    from fedgrid.grids.trackers.mlflow.store import default_uri
    from tests.helpers.logged_runs import Store

    return Store(default_uri(storage))
