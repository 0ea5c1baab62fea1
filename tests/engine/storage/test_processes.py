"""Who a process is: told apart from all before it and after it that have its number."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedgrid.engine.storage.processes import is_gone, machine, start_time

CHECKOUT = Path(__file__).parents[3]


@contextmanager
def living():
    """Give a process that ends when it is told to."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process


def ended():
    with living() as process:
        started = start_time(process.pid)
    return process.pid, started


@pytest.fixture
def rename():
    """Return a function that gives this process another name, for the test."""
    name = Path("/proc/self/comm")
    before = name.read_bytes().rstrip(b"\n")
    yield name.write_bytes
    name.write_bytes(before)


def test_a_process_that_lives_is_not_gone():
    assert not is_gone(os.getpid(), start_time(os.getpid()))
    with living() as process:
        assert not is_gone(process.pid, start_time(process.pid))


def test_one_that_has_ended_is():
    assert is_gone(*ended())


def test_so_is_one_whose_number_another_has_now():
    assert is_gone(os.getpid(), "1")
    assert is_gone(os.getpid(), "")


def test_so_is_a_killed_one_that_nobody_has_waited_for():
    with living() as process:
        started = start_time(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert start_time(process.pid) == ""
        assert is_gone(process.pid, started)


@pytest.mark.parametrize("number", [2**31, 2**64, -(2**64)])
def test_so_is_one_with_a_number_that_no_process_can_have(number):
    assert is_gone(number, "1")


def test_one_of_another_user_is_there(monkeypatch):
    def refused(pid, signal):
        raise PermissionError

    monkeypatch.setattr(os, "kill", refused)
    assert not is_gone(os.getpid(), "1")


def test_a_process_has_one_start_time_and_later_ones_a_later_one():
    with living() as process:
        assert start_time(process.pid) == start_time(process.pid)
        assert int(start_time(process.pid)) >= int(start_time(os.getpid())) > 0
    assert start_time(process.pid) == ""


@pytest.mark.parametrize("name", [b"a) Z 1 2 3", b"(", b"two words", b"cut amid \xc3", b"\n"])
def test_whatever_it_is_called(rename, name):
    before = start_time(os.getpid())
    rename(name)
    assert start_time(os.getpid()) == before


def test_all_processes_of_a_machine_agree_which_it_is():
    script = "from fedgrid.engine.storage.processes import machine; print(machine())"
    command = [sys.executable, "-c", script]
    other = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == machine() != ""
