"""A file that names the process that holds it: what leases and locks have in common."""

import json
import os
from threading import Event

import pytest

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.leases import held_file
from fedgrid.engine.runtime.leases.held_file import HeldFile
from fedgrid.engine.runtime.storage.atomic import create_file


@pytest.fixture
def held(tmp_path, monkeypatch):
    monkeypatch.setattr(held_file, "RENEW_EVERY", 0.001)
    held = HeldFile(tmp_path / "held.json")
    assert create_file(held.path, held.format_text())
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
