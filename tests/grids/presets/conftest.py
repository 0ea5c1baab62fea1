"""Files of grids, in a current folder that is otherwise empty."""

import pytest


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return a function that writes a grid's file and returns its name."""
    monkeypatch.chdir(tmp_path)

    def write_file(text, name="mine.yaml"):
        (tmp_path / name).write_text(text)
        return name

    return write_file
