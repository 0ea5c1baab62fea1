"""A file that names the process that holds it: what leases and locks have in common."""

import json
import os
from fcntl import F_GETFL, fcntl
from os import O_ACCMODE, O_RDWR
from threading import Event

import pytest

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.leases.held_file import HeldFile, link, read_holder
from fedgrid.engine.runtime.storage import remote


@pytest.fixture
def held(tmp_path):
    held = HeldFile(tmp_path / "held.json", renew_every=0.001)
    held.path.write_text(json.dumps(held.holder()))
    return held


def touch(file):
    os.utime(file.fileno(), (1.0, 1.0))


def test_holder_is_this_process(held):
    assert held.holder()["pid"] == os.getpid()
    with held.path.open() as file:
        assert held.is_ours(file)
        file.seek(0)
        assert not HeldFile(held.path, 1.0).is_ours(file)


def test_renewal_touches_only_our_file(held):
    assert held.renew(touch)
    assert held.path.stat().st_mtime == 1.0
    held.path.write_text(json.dumps({"token": "other"}))
    assert not held.renew(touch)
    assert held.path.stat().st_mtime > 1.0
    held.path.unlink()
    assert not held.renew(touch)


def test_only_our_file_is_deleted(held):
    assert held.delete()
    assert not held.delete()
    held.path.write_text(json.dumps({"token": "other"}))
    assert not held.delete()
    assert held.path.exists()


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "Expecting"),
        ("{", "Expecting"),
        ("[]", "not a JSON object"),
        ("1", "not a JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ("\0", "Expecting"),
    ],
)
def test_damaged_file_is_a_value_error(held, text, cause):
    held.path.write_text(text)
    with held.path.open() as file, pytest.raises(ValueError, match=cause):
        read_holder(file.read())


@pytest.mark.parametrize("error", [OSError(), ValueError(), RunError("the storage is away")])
def test_failed_renewal_is_retried_until_it_says_stop(held, error):
    attempts, ended = [], Event()

    def renew():
        attempts.append(None)
        if len(attempts) < 3:
            raise error
        ended.set()
        return False

    held.start_renewing(renew)
    assert ended.wait(30)
    held.stop_renewing()
    assert len(attempts) == 3


def test_no_renewal_after_stop(held):
    attempts, begun = [], Event()

    def renew():
        attempts.append(None)
        begun.set()
        return True

    held.start_renewing(renew)
    assert begun.wait(30)
    held.stop_renewing()
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
