"""The lock on a round: one process holds it at a time, and a stale lock is taken over."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from platform import node
from threading import Barrier, Event

import pytest

from fedgrid.engine.runtime.leases import held_file
from fedgrid.engine.runtime.leases.held_file import EXPIRES_AFTER
from fedgrid.engine.runtime.leases.processes import identify_boot, read_start_time
from fedgrid.engine.runtime.round_cache.lock import RoundLock

CHECKOUT = Path(__file__).parents[4]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache" / "shared_prefix" / "000001-ab.lock"


def holder(**changes):
    """Return what a lock file of this process contains, with changes."""
    pid = os.getpid()
    mine = {
        "token": "other",
        "host": node(),
        "machine": identify_boot(),
        "pid": pid,
        "started": read_start_time(pid),
    }
    return {**mine, **changes}


LONG_AGO = "0000000000000.000000"


def put(path, text):
    """Write a lock file as another process would."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))


def taken(path):
    lock = RoundLock(path)
    assert lock.try_take()
    return lock


def run(script, path):
    """Start a process that knows `RoundLock`, `path` and `die`, which kills it."""
    begin = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from signal import SIGKILL\n"
        "from fedgrid.engine.runtime.round_cache.lock import RoundLock\n"
        "path = Path(sys.argv[1])\n"
        "def die(): os.kill(os.getpid(), SIGKILL)\n"
    )
    command = [sys.executable, "-c", begin + script, str(path)]
    return subprocess.Popen(command, cwd=CHECKOUT, stderr=subprocess.PIPE)


class TestOneHolder:
    def test_first_holds_the_lock_until_release(self, path):
        first, second = RoundLock(path), RoundLock(path)
        assert first.try_take()
        assert first.try_take(), "it holds it still"
        assert not second.try_take()
        assert (first.is_held, second.is_held) == (True, False)
        second.release()
        assert not RoundLock(path).try_take(), "a release without the lock does nothing"
        first.release()
        assert not first.is_held
        assert second.try_take()
        first.release()
        assert not RoundLock(path).try_take(), "nor does a second one"
        second.release()
        assert list(path.parent.iterdir()) == []

    def test_lock_file_names_its_process(self, path):
        lock = taken(path)
        found = json.loads(path.read_text())
        assert {**found, "token": "other", "renewed": LONG_AGO} == holder(renewed=LONG_AGO)
        lock.release()


class TestRaces:
    def test_one_of_many_processes_holds_the_lock_at_a_time(self, path):
        """The holder creates a folder, which fails if it exists."""
        script = (
            "inside = path.with_name('inside')\n"
            "for _ in range(25):\n"
            "    lock = RoundLock(path)\n"
            "    while not lock.try_take(): os.sched_yield()\n"
            "    inside.mkdir(); inside.rmdir()\n"
            "    lock.release()\n"
        )
        processes = [run(script, path) for _ in range(3)]
        errors = [process.communicate(timeout=60)[1].decode() for process in processes]
        assert errors == [""] * 3
        assert list(path.parent.iterdir()) == []

    def test_a_dead_holder_s_lock_is_taken_by_many_threads_at_once(self, path):
        """By one of them, or by two that have both deleted it: then the round is computed twice."""
        number, together = 8, Barrier(8)

        def work(_):
            lock = RoundLock(path)
            together.wait()
            took = lock.try_take()
            together.wait()
            lock.release()
            return took

        with ThreadPoolExecutor(number) as threads:
            for _ in range(30):
                put(path, holder(started="1"))
                assert any(list(threads.map(work, range(number))))
                assert not path.exists()

    def test_dead_lock_that_only_its_owner_can_delete_is_held_by_all(self, path, monkeypatch):
        """As in a folder with the sticky bit, like /tmp."""
        put(path, holder(started="1"))

        def refused(path):
            raise PermissionError(1, "Operation not permitted")

        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", refused)
            locks = [taken(path), taken(path)]
        for lock in locks:
            lock.release()
        assert [found.name for found in path.parent.iterdir()] == [path.name]


class TestLocalHolders:
    def test_lock_of_a_killed_process_is_free(self, path):
        process = run("assert RoundLock(path).try_take(); die()", path)
        assert process.communicate(timeout=60)[1] == b""
        assert path.exists()
        taken(path).release()

    def test_hanging_local_holder_loses_the_lock(self, path, time):
        put(path, holder(renewed=f"{time.seconds - EXPIRES_AFTER - 0.1:020.6f}"))
        lock = RoundLock(path, time.clock)
        assert lock.try_take()
        lock.release()


UNKNOWN = {
    "another host, the process has ended": holder(host="far", started="1"),
    "nothing written yet": "",
}


@pytest.mark.parametrize("found", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_holder_keeps_the_lock_until_it_expires(path, time, found):
    put(path, found)
    lock = RoundLock(path, time.clock)
    assert not lock.try_take()
    time.seconds += EXPIRES_AFTER
    assert not lock.try_take()
    time.seconds += 0.1
    assert lock.try_take()
    assert json.loads(path.read_text())["pid"] == os.getpid()
    lock.release()
    assert not path.exists()


class TestRenewing:
    def test_held_lock_is_renewed(self, path, monkeypatch):
        renewed = Event()
        monkeypatch.setattr(held_file, "RENEW_EVERY", 0.001)
        monkeypatch.setattr(RoundLock, "renew", lambda lock: renewed.set())
        lock = taken(path)
        assert renewed.wait(30)
        lock.release()


class TestUnwritableFolder:
    @pytest.mark.parametrize("depth", [0, 1])
    def test_unwritable_lock_is_held_by_all(self, path, depth):
        """A file is where a folder should be."""
        blocked = path.parents[depth]
        blocked.parent.mkdir(parents=True, exist_ok=True)
        blocked.write_text("a file")
        locks = [taken(path), taken(path)]
        assert all(lock.is_held for lock in locks)
        for lock in locks:
            lock.release()
            lock.release()
        assert blocked.read_text() == "a file"


class TestCreation:
    def test_process_killed_while_it_takes_a_lock_leaves_no_lock(self, path, monkeypatch):
        """Others would wait for an empty one until it expires."""
        content = []

        def killed(source, target):
            content.append(json.loads(Path(source).read_text()))
            assert not Path(target).exists()
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(os, "link", killed)
            with pytest.raises(KeyboardInterrupt):
                RoundLock(path).try_take()
        assert content[0]["pid"] == os.getpid()
        assert list(path.parent.iterdir()) == []

    def test_lock_is_taken_without_hard_links(self, path, monkeypatch):
        def refused(source, target):
            raise PermissionError("no hard links here")

        monkeypatch.setattr(os, "link", refused)
        first, second = RoundLock(path), RoundLock(path)
        assert first.try_take()
        assert not second.try_take()
        assert json.loads(path.read_text())["pid"] == os.getpid()
        first.release()
        assert list(path.parent.iterdir()) == []
