"""A storage that is mounted read-only, or that this user may not write: no passing outage."""

import errno
import os
from pathlib import Path

import pytest

from fedgrid.engine.federation.errors import ConfigError, DeniedError, is_final
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.storage.atomic import disk_errors
from fedgrid.engine.runtime.storage.clock import Clock
from fedgrid.engine.runtime.storage.storage import Storage
from tests.helpers.command_line import fedgrid, new_storage

DENIED = [errno.EROFS, errno.EACCES, errno.EPERM]
TWO = ("run", "--dataset", "digits", "--algorithm", "fedavg", "--seeds", "0,1", "--in-process")
SMALL = ("--clients", "3", "training.rounds=2")


def error_of(number):
    return OSError(number, os.strerror(number), "x")


@pytest.fixture
def no_pause(monkeypatch):
    def pause(attempt):
        raise AssertionError("waited for a storage that may not be written")

    monkeypatch.setattr("fedgrid.engine.runtime.storage.clock.draw_backoff", pause)
    monkeypatch.setattr("fedgrid.grids.execution.executors.draw_backoff", pause)


@pytest.mark.parametrize("number", DENIED)
def test_what_may_not_be_written_is_not_tried_again(number, tmp_path, no_pause):
    calls = []

    def write():
        calls.append(number)
        with disk_errors(tmp_path):
            raise error_of(number)

    with pytest.raises(DeniedError, match=f"{tmp_path} cannot be written: {os.strerror(number)}; "):
        Storage(tmp_path).with_patience().retry_call(write)
    assert calls == [number]


@pytest.mark.parametrize("number", DENIED)
def test_a_run_that_may_not_be_written_is_not_retried(number, tmp_path):
    assert is_final(error_of(number))
    with pytest.raises(DeniedError) as refused, disk_errors(tmp_path):
        raise error_of(number)
    assert is_final(refused.value)


def test_other_errors_of_a_disk_may_pass():
    assert not is_final(error_of(errno.EIO))


def test_a_lease_on_a_read_only_storage_is_refused_as_bad_input(tmp_path, monkeypatch):
    def write(storage, files):
        raise error_of(errno.EROFS)

    monkeypatch.setattr(Storage, "put", write)
    with pytest.raises(ConfigError, match=f"--storage {tmp_path} cannot be written: Read-only file system"):
        Lease(Storage(tmp_path), "mine", clock=Clock()).__enter__()


def test_storage_without_rights_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ConfigError, match=f"--storage {tmp_path}/runs .*: Permission denied; name "):
        Storage.from_text(tmp_path / "runs").check_rights()


def test_a_storage_that_becomes_read_only_ends_the_grid_at_once_in_one_line(tmp_path, monkeypatch, no_pause):
    """From the first state on nothing can be renamed: the second run is not begun."""
    storage = new_storage(tmp_path / "runs")
    own = Path.replace
    remounted = []

    def replace(path, target):
        if remounted or "state-" in Path(target).name:
            remounted.append(target)
            raise error_of(errno.EROFS)
        return own(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    result = fedgrid(*TWO, *SMALL, "--storage", storage)
    lines = [line for line in result.err.splitlines() if line.startswith("fedgrid:")]
    assert (result.code, len(lines)) == (1, 1)
    assert "cannot be written: Read-only file system; make it writable" in lines[0]
    assert "Traceback" not in result.err
    assert result.out.count(": starts") == 1
