"""Files that are replaced: who may read them, and what becomes of what killed writers left."""

import os
import stat
from time import time

import numpy as np
import pytest
from safetensors.numpy import save_file

from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.storage.atomic import (
    ABANDONED_AFTER,
    PARTIAL,
    create_file,
    delete_abandoned,
    delete_partial,
    link_file,
    replace_files,
    share_with_group,
)
from fedgrid.engine.runtime.storage.storage import Storage


@pytest.fixture
def umask():
    """Give files the usual modes, whatever the caller's are."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize(("mode", "expected"), [(0o755, 0o644), (0o2775, 0o664), (0o700, 0o600)])
def test_replaced_file_can_be_read_and_written_as_its_folder(tmp_path, umask, mode, expected):
    """safetensors makes files for their owner alone: another user could not go on with a run."""
    tmp_path.chmod(mode)
    with replace_files(tmp_path / "state", tmp_path / "text") as (state, text):
        save_file({"x": np.zeros(3)}, state)
        text.write_text("text")
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("state", "text")] == [expected] * 2


@pytest.mark.parametrize(
    ("mode", "expected"), [(0o2775, 0o775), (0o775, 0o755), (0o2755, 0o755), (0o1777, 0o755)]
)
def test_folder_of_a_group_stays_writable_for_the_group(tmp_path, umask, mode, expected):
    """Only where new files get the folder's group, which is what setgid says."""
    tmp_path.chmod(mode)
    share_with_group(tmp_path)
    (tmp_path / "grids").mkdir()
    assert stat.S_IMODE((tmp_path / "grids").stat().st_mode) & 0o777 == expected


@pytest.mark.parametrize(("mode", "expected"), [(0o2775, 0o770), (0o2755, 0o700), (0o700, 0o700)])
def test_folder_of_a_group_can_be_read_by_the_group_whatever_the_user_s_mask(tmp_path, umask, mode, expected):
    os.umask(0o077)
    tmp_path.chmod(mode)
    share_with_group(tmp_path)
    (tmp_path / "grids").mkdir()
    assert stat.S_IMODE((tmp_path / "grids").stat().st_mode) & 0o777 == expected


def test_new_storage_in_a_folder_of_a_group_is_writable_for_the_group(tmp_path, umask):
    tmp_path.chmod(0o2775)
    with Lease(Storage.from_text(tmp_path / "new" / "runs"), "grid"):
        modes = [path.stat().st_mode & 0o775 for path in tmp_path.rglob("*")]
    assert modes[:3] == [0o775] * 3


def test_files_of_killed_writers_are_deleted_anywhere_below(tmp_path):
    now = time()
    ages = {
        f"cache/shared_prefix/000001-ab-mean.safetensors{PARTIAL}12-ab": ABANDONED_AFTER + 1,
        f"grids/paper/progress.json{PARTIAL}12-ab": 1e6,
        "cache/shared_prefix/.tmpRHEuWI": ABANDONED_AFTER + 1,
        f"grids/paper/runs.jsonl{PARTIAL}12-ab": ABANDONED_AFTER / 2,
        f"grids/paper/stop{PARTIAL}12-ab": -60,
        "grids/paper/runs.jsonl": 1e6,
    }
    for name, age in ages.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")
        os.utime(path, (now - age, now - age))
    delete_abandoned(tmp_path, "cache", "grids", "missing")
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == set(list(ages)[3:])


def test_files_of_killed_writers_in_a_folder_are_deleted(tmp_path):
    for name in (f"rounds.parquet{PARTIAL}1-ab", ".tmpRHEuWI", "rounds.parquet"):
        (tmp_path / name).write_text("text")
    delete_partial(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["rounds.parquet"]


def test_file_is_created_once(tmp_path):
    assert create_file(tmp_path / "file", "mine")
    assert not create_file(tmp_path / "file", "other")
    assert (tmp_path / "file").read_text() == "mine"
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_link_whose_reply_was_lost_is_ours(tmp_path, monkeypatch):
    """A network file system makes the link, loses the reply and asks again: then the name exists."""
    make = os.link

    def twice(source, target):
        make(source, target)
        make(source, target)

    monkeypatch.setattr(os, "link", twice)
    (mine := tmp_path / "mine").write_text("a")
    link_file(mine, tmp_path / "taken")
    (tmp_path / "other").write_text("b")
    with pytest.raises(FileExistsError):
        link_file(mine, tmp_path / "other")
    assert (tmp_path / "taken").read_text() == "a"
    assert (tmp_path / "other").read_text() == "b"


def test_temporary_names_are_unique(tmp_path):
    with replace_files(tmp_path / "a") as (first,), replace_files(tmp_path / "a") as (second,):
        assert first != second
        first.write_text("one")
        second.write_text("two")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
