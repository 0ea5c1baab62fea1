"""Nothing of the round cache is about power cuts."""

import pytest

from fedgrid.engine.runtime.storage import atomic


@pytest.fixture(autouse=True)
def unflushed(monkeypatch):
    """Write files without waiting for the disk."""
    monkeypatch.setattr(atomic, "flush_to_disk", lambda path: None)
