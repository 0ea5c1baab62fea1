"""A small grid of finished runs, made once; a test that writes takes a copy."""

import shutil

import pytest

from fedgrid.engine.runtime.storage.storage import Storage
from tests.helpers.explained import run_grid


@pytest.fixture(scope="package")
def finished(tmp_path_factory):
    """The storage of a grid of two finished runs and one that is not started."""
    return run_grid(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def storage(finished, tmp_path):
    """A copy of it, for a test that writes."""
    return Storage(shutil.copytree(finished.root, tmp_path / "runs"))
