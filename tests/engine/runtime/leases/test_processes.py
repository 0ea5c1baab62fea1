"""Identifying a process: a number that the kernel gave out again is another process."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedgrid.engine.runtime.leases.processes import (
    has_ended,
    identify_boot,
    identify_process,
    is_gone,
    read_start_time,
)

CHECKOUT = Path(__file__).parents[4]


@contextmanager
def running():
    """Provide a process that runs until its input is closed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process


@pytest.fixture
def rename():
    """Return a function that gives this process another name, for the test."""
    name = Path("/proc/self/comm")
    before = name.read_bytes().rstrip(b"\n")
    yield name.write_bytes
    name.write_bytes(before)


def test_process_is_gone_once_it_has_ended():
    assert not is_gone(os.getpid(), read_start_time(os.getpid()))
    with running() as process:
        started = read_start_time(process.pid)
        assert not is_gone(process.pid, started)
    assert is_gone(process.pid, started)


@pytest.mark.parametrize(
    "number", [os.getpid(), 2**31, 2**64, -(2**64)], ids=["this", "large", "larger", "negative"]
)
def test_process_of_another_start_or_of_an_impossible_number_is_gone(number):
    assert is_gone(number, "1")
    assert is_gone(number, "")


def test_zombie_is_gone():
    with running() as process:
        started = read_start_time(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert read_start_time(process.pid) == ""
        assert is_gone(process.pid, started)


def test_process_of_another_user_is_not_gone(monkeypatch):
    def refused(pid, signal):
        raise PermissionError

    monkeypatch.setattr(os, "kill", refused)
    assert not is_gone(os.getpid(), "1")


def test_start_time_is_constant_and_grows_with_later_processes():
    with running() as process:
        assert read_start_time(process.pid) == read_start_time(process.pid)
        assert int(read_start_time(process.pid)) >= int(read_start_time(os.getpid())) > 0
    assert read_start_time(process.pid) == ""


@pytest.mark.parametrize("name", [b"a) Z 1 2 3", b"(", b"two words", b"cut amid \xc3", b"\n"])
def test_process_name_does_not_change_the_start_time(rename, name):
    before = read_start_time(os.getpid())
    rename(name)
    assert read_start_time(os.getpid()) == before


def test_processes_of_a_machine_agree_on_its_id():
    script = "from fedgrid.engine.runtime.leases.processes import identify_boot; print(identify_boot())"
    command = [sys.executable, "-c", script]
    other = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == identify_boot() != ""


UNKNOWN = {
    "another host": {"host": "far"},
    "before a restart": {"machine": "boot pid:[1]"},
    "no number": {"pid": None},
    "a number that is text": {"pid": "1"},
    "no start": {"started": None},
}


@pytest.mark.parametrize("changes", UNKNOWN.values(), ids=UNKNOWN)
def test_end_of_an_unidentified_process_is_unknown(changes):
    assert has_ended({**identify_process(), "started": "1", **changes}) is None


def test_end_of_a_local_process_is_known():
    assert has_ended(identify_process()) is False
    assert has_ended({**identify_process(), "started": "1"}) is True
