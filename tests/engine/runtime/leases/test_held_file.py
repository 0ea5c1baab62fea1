"""A file that names the process that holds it: what leases and locks have in common."""

import json
import os
from fcntl import F_GETFL, fcntl
from os import O_ACCMODE, O_RDWR
from threading import Event

import pytest

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.leases import held_file
from fedgrid.engine.runtime.leases.held_file import HeldFile, create_file, link
from fedgrid.engine.runtime.storage import remote


@pytest.fixture
def held(tmp_path, monkeypatch):
    monkeypatch.setattr(held_file, "RENEW_EVERY", 0.001)
    held = HeldFile(tmp_path / "held.json")
    assert create_file(held.path, held.text())
    return held


OTHERS = {
    "another token": '{"token": "other"}',
    "empty": "",
    "half": '{"tok',
    "no object": "[]",
    "zeros": "\0\0",
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_file_of_another_holder_is_neither_renewed_nor_deleted(held, text):
    held.path.write_text(text)
    assert not held.renew()
    held.release()
    assert held.path.read_text() == text


def test_file_is_there_until_release(held):
    assert json.loads(held.path.read_text())["pid"] == os.getpid()
    assert held.renew()
    held.release()
    assert not held.path.exists()
    assert not held.renew()
    held.release()


def test_file_is_created_once(held):
    before = held.path.read_text()
    assert not create_file(held.path, "other")
    assert held.path.read_text() == before
    assert list(held.path.parent.iterdir()) == [held.path]


@pytest.mark.parametrize("error", [OSError(), RunError("the storage is away")])
def test_failed_renewal_is_retried_until_it_says_stop(held, error, monkeypatch):
    attempts, ended = [], Event()

    def renew():
        attempts.append(None)
        if len(attempts) < 3:
            raise error
        ended.set()
        return False

    monkeypatch.setattr(held, "renew", renew)
    held.start_renewing()
    assert ended.wait(30)
    held.release()
    assert len(attempts) == 3


def test_no_renewal_after_release(held, monkeypatch):
    attempts, begun = [], Event()

    def renew():
        attempts.append(None)
        begun.set()
        return True

    monkeypatch.setattr(held, "renew", renew)
    held.start_renewing()
    assert begun.wait(30)
    held.release()
    count = len(attempts)
    assert not Event().wait(0.02)
    assert len(attempts) == count


def test_files_that_are_locked_are_open_as_nfs_wants_it(tmp_path, monkeypatch):
    """NFS refuses an exclusive lock on a file that is not open for writing, a shared one without reading."""
    modes = []
    monkeypatch.setattr(remote, "flock", lambda file, how: modes.append(fcntl(file, F_GETFL) & O_ACCMODE))
    with remote.uploading(tmp_path / "mirror"):
        (tmp_path / "old").touch()
        os.utime(tmp_path / "old", (0, 0))
        assert remote.is_deletable(tmp_path / "mirror", tmp_path / "old")
    assert modes == [O_RDWR] * 2


def test_link_whose_reply_was_lost_is_ours(tmp_path, monkeypatch):
    """A network file system makes the link, loses the reply and asks again: then the name exists."""
    make = os.link

    def twice(source, target):
        make(source, target)
        make(source, target)

    monkeypatch.setattr(os, "link", twice)
    (mine := tmp_path / "mine").write_text("a")
    link(mine, tmp_path / "taken")
    (tmp_path / "other").write_text("b")
    with pytest.raises(FileExistsError):
        link(mine, tmp_path / "other")
    assert (tmp_path / "taken").read_text() == "a"
    assert (tmp_path / "other").read_text() == "b"
