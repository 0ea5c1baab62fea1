"""Temporary folders of killed processes go; all others stay."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedgrid.engine.runtime.leases.processes import identify_process
from fedgrid.engine.runtime.leases.scratch import HOLDER, create_scratch_folder, delete_abandoned_folders
from fedgrid.engine.runtime.storage.atomic import PARTIAL

CODE = """
import os, signal, sys
from fedgrid.engine.runtime.leases.scratch import create_scratch_folder
with create_scratch_folder(sys.argv[1]) as folder:
    (folder / "inner").mkdir()
    (folder / "inner" / "file").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_folder_is_private_and_deleted_at_the_end(tmp_path: Path) -> None:
    with create_scratch_folder(tmp_path) as folder:
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o777 == 0o700
    with pytest.raises(KeyError), create_scratch_folder(tmp_path):
        raise KeyError
    assert [*tmp_path.iterdir()] == []


def test_folder_of_a_killed_process_is_deleted_by_the_next(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", CODE, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    [left] = tmp_path.iterdir()
    assert (left / "inner" / "file").exists()
    with create_scratch_folder(tmp_path) as folder:
        assert [*tmp_path.iterdir()] == [folder]
        # It is held.
        delete_abandoned_folders(tmp_path)
        assert folder.exists()


def test_old_empty_folder_of_a_process_killed_at_once_is_deleted(tmp_path: Path) -> None:
    """One was killed while it wrote its file; one with a user's file, and a young one, stay."""
    names = ("fedgrid-empty_00", "fedgrid-partial0", "fedgrid-own_0000", "fedgrid-young_00")
    empty, partial, own, young = (tmp_path / name for name in names)
    for folder in (empty, partial, own, young):
        folder.mkdir()
    (partial / f"{HOLDER}{PARTIAL}1-2").touch()
    (own / "notes.txt").touch()
    for folder in (empty, partial, own):
        os.utime(folder, (0, 0))
    delete_abandoned_folders(tmp_path)
    assert {*tmp_path.iterdir()} == {own, young}


@pytest.mark.parametrize(
    "holder",
    [
        None,
        "",
        "[]",
        json.dumps({**identify_process(), "pid": 2**22 + 1, "host": "another"}),
        json.dumps({**identify_process(), "pid": 2**22 + 1, "machine": "another boot"}),
    ],
    ids=("none", "empty", "a list", "another host", "another boot"),
)
def test_folder_whose_process_is_not_known_to_have_ended_stays(tmp_path: Path, holder: str | None) -> None:
    """It may be a user's own of such a name, just made, or of another machine."""
    own = tmp_path / "fedgrid-results1"
    own.mkdir(mode=0o700)
    if holder is not None:
        (own / HOLDER).write_text(holder)
    delete_abandoned_folders(tmp_path)
    assert own.exists()
