"""What a folder of somebody else may hold: folders and files, no links, pipes or endless nesting."""

import os
import re
from hashlib import sha256
from io import BytesIO

import pytest

from fedgrid.engine.runtime.integrity import files
from fedgrid.regular_files import DEEPEST, check_below, check_regular, read_regular


def test_folders_and_files_are_right(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_text("c")
    check_below(tmp_path)
    check_below(tmp_path / "missing")
    check_below(tmp_path / "a" / "b" / "c")


@pytest.mark.parametrize("place", ["x", "a/x", "a/b/x"])
@pytest.mark.parametrize("kind", ["link", "dangling link", "link to a folder", "pipe"])
def test_what_leads_elsewhere_is_named(tmp_path, place, kind):
    (tmp_path / "runs" / "a" / "b").mkdir(parents=True)
    path = tmp_path / "runs" / place
    if kind == "pipe":
        os.mkfifo(path)
    else:
        target = {"link": __file__, "dangling link": "gone", "link to a folder": tmp_path}[kind]
        path.symlink_to(target)
    with pytest.raises(OSError, match=f"{place} is {'no regular file' if kind == 'pipe' else 'a link'}"):
        check_below(tmp_path / "runs")


def test_what_lies_beside_the_given_names_does_not_count(tmp_path):
    (tmp_path / "venv").symlink_to("/usr")
    check_below(tmp_path, re.compile("grids"))
    (tmp_path / "grids").mkdir()
    (tmp_path / "grids" / "venv").symlink_to("/usr")
    with pytest.raises(OSError, match="grids/venv is a link"):
        check_below(tmp_path, re.compile("grids"))


def test_nesting_without_end_is_refused(tmp_path):
    (tmp_path / "/".join("d" * DEEPEST)).mkdir(parents=True)
    check_below(tmp_path)
    (tmp_path / "/".join("d" * (DEEPEST + 1))).mkdir()
    with pytest.raises(OSError, match=f"is below {DEEPEST} folders"):
        check_below(tmp_path)


def test_file_that_is_too_large_or_none_is_not_read(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("four")
    assert read_regular(path, 4) == b"four"
    with pytest.raises(OSError, match="has 4 bytes"):
        read_regular(path, 3)
    with pytest.raises(FileNotFoundError):
        check_regular(tmp_path / "missing")


def test_state_or_table_of_more_than_a_gigabyte_is_no_damage(tmp_path, monkeypatch):
    """Thirty personal ResNet-34s are a state of 2.5 GB. This file is a hole, of which one byte is read."""
    path = tmp_path / "state-000001.safetensors"
    with path.open("wb") as file:
        file.truncate((1 << 30) + 1)
    monkeypatch.setattr(type(path), "open", lambda *_: BytesIO(b"x"))
    assert files.checksum(path) == sha256(b"x").hexdigest()
