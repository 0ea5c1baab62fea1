"""A storage of another layout is refused in one line, and left as it is."""

import json

import pytest

from tests.helpers.command_line import fedgrid, new_storage

FIRST = {"id": "0123456789abcdef", "format": 1, "sha256": "of the first layout"}
"""The id of a storage, as the first layout had it."""


@pytest.fixture
def storage(tmp_path):
    """A storage with one grid, in the first layout, as far as it is read."""
    root = new_storage(tmp_path / "runs")
    (root / "grids" / "old").mkdir(parents=True)
    (root / "storage.json").write_text(json.dumps(FIRST))
    (root / "grids" / "old" / "runs.jsonl").write_text(json.dumps({"format": 1, "runs": ""}) + "\n{}\n")
    return root


@pytest.mark.parametrize(
    "command",
    [
        ("status", "old"),
        ("delete", "old", "--yes"),
        ("run", "--in-process", "--clients", 3, "--algorithm", "fedavg"),
    ],
    ids=lambda command: command[0],
)
def test_storage_of_the_first_layout_is_refused(storage, command):
    before = sorted(path for path in storage.rglob("*") if path.is_file())
    result = fedgrid(*command, "--storage", storage)
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert "layout 1; this one reads layout 2" in result.err
    assert sorted(path for path in storage.rglob("*") if path.is_file()) == before
