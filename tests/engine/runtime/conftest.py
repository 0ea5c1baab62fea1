"""A clock that only tests move, and a storage at a URI as several machines see it."""

import pytest

from fedgrid.engine.runtime.storage.storage import Storage
from tests.helpers.time import FakeTime


@pytest.fixture
def time():
    return FakeTime()


@pytest.fixture
def bucket(tmp_path):
    """Return where the files of the URI are."""
    return tmp_path / "bucket" / "runs"


@pytest.fixture
def uri(bucket):
    return f"local://{bucket}"


@pytest.fixture
def machine(tmp_path, monkeypatch, uri):
    """Return the storage at the URI as a machine of that name sees it."""

    def storage(name):
        monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / name))
        return Storage.from_text(uri)

    return storage
