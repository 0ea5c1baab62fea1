"""A tracker of MLflow, as a driver that starts has it, on the storage's own store."""

from pathlib import Path

import pytest

from fedgrid.grids.following.session import TrackerSession
from tests.helpers.logged_runs import new_session


@pytest.fixture
def session(storage: Path, own_store: None) -> TrackerSession:
    return new_session(storage)
