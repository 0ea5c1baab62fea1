"""What a folder of somebody else may hold: folders and files, no links, pipes or endless nesting."""

import os
import re
import socket

import pytest

from fedgrid.regular_files import (
    DEEPEST_FOLDER,
    LARGEST_STATE,
    LARGEST_TABLE,
    check_folder,
    open_file,
    read_file,
)


def test_folders_and_files_are_right(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_text("c")
    check_folder(tmp_path)
    check_folder(tmp_path / "missing")
    check_folder(tmp_path / "a" / "b" / "c")


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
        check_folder(tmp_path / "runs")


def test_what_lies_beside_the_given_names_does_not_count(tmp_path):
    (tmp_path / "venv").symlink_to("/usr")
    check_folder(tmp_path, re.compile("grids"))
    (tmp_path / "grids").mkdir()
    (tmp_path / "grids" / "venv").symlink_to("/usr")
    with pytest.raises(OSError, match="grids/venv is a link"):
        check_folder(tmp_path, re.compile("grids"))


def test_nesting_without_end_is_refused(tmp_path):
    (tmp_path / "/".join("d" * DEEPEST_FOLDER)).mkdir(parents=True)
    check_folder(tmp_path)
    (tmp_path / "/".join("d" * (DEEPEST_FOLDER + 1))).mkdir()
    with pytest.raises(OSError, match=f"is below {DEEPEST_FOLDER} folders"):
        check_folder(tmp_path)


def test_file_that_is_too_large_or_none_is_not_read(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("four")
    assert read_file(path, 4) == b"four"
    with pytest.raises(OSError, match=r"^a\.json has 4 bytes"):
        read_file(path, 3)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "missing")


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder", "socket"])
def test_what_is_no_file_is_neither_opened_nor_waited_for(tmp_path, monkeypatch, kind):
    """The error has no number: no disk is to blame."""
    path = tmp_path / "a.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        monkeypatch.chdir(tmp_path)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("a.json")
    else:
        path.symlink_to(__file__ if kind == "link" else "gone")
    with pytest.raises(
        OSError, match=f"^a.json is {'a link' if 'link' in kind else 'no regular file'}$"
    ) as error:
        open_file(path)
    assert error.value.errno is None


def test_state_or_table_of_more_than_a_gigabyte_is_no_damage(tmp_path):
    """Thirty personal ResNet-34s are a state of 2.5 GB. This file is a hole, of which nothing is read."""
    path = tmp_path / "state-000001.safetensors"
    with path.open("wb") as file:
        file.truncate((1 << 30) + 1)
    with open_file(path, LARGEST_TABLE), open_file(path, LARGEST_STATE):
        pass
