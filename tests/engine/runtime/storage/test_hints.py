"""Commands that messages name can be copied: they open the storage that the message is about."""

import pytest

from fedgrid.engine.runtime.storage.hints import format_command
from fedgrid.engine.runtime.storage.storage import Storage


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.delenv("FEDGRID_STORAGE", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("given", ["runs", "./runs"])
def test_usual_storage_is_not_named(given):
    assert format_command(Storage.from_text(given), "runs", "my grid") == "fedgrid runs 'my grid'"


def test_other_storage_is_named_with_its_whole_path(tmp_path):
    assert (
        format_command(Storage.from_text("other runs"), "ui", "mine")
        == f"fedgrid ui mine --storage '{tmp_path}/other runs'"
    )
    assert (
        format_command(Storage.from_text("s3://bucket/runs"), "ui") == "fedgrid ui --storage s3://bucket/runs"
    )


def test_storage_of_the_environment_is_the_usual_one(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDGRID_STORAGE", "s3://bucket/runs/")
    assert format_command(Storage.from_text("s3://bucket/runs"), "status") == "fedgrid status"
    assert format_command(Storage.from_text("runs"), "status") == f"fedgrid status --storage {tmp_path}/runs"
    monkeypatch.setenv("FEDGRID_STORAGE", "s3:/bucket")
    assert format_command(Storage.from_text("runs"), "status") == f"fedgrid status --storage {tmp_path}/runs"
