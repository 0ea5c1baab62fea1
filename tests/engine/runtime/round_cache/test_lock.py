"""The lock on a round: one process holds it at a time, and a stale lock is taken over."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from platform import node
from threading import Barrier, Semaphore

import pytest

from fedgrid.engine.runtime.leases import held_file, processes
from fedgrid.engine.runtime.leases.processes import machine, start_time
from fedgrid.engine.runtime.round_cache.lock import EXPIRES_AFTER, LONGEST, RENEW_EVERY, RoundLock
from tests.helpers.time import Time

CHECKOUT = Path(__file__).parents[4]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache" / "shared_prefix" / "000001-ab.lock"


@pytest.fixture
def time():
    return Time()


class Pauses:
    """An event whose waits end when the test says so, instead of by the clock."""

    def __init__(self):
        self._begun, self._over, self._is_set = Semaphore(0), Semaphore(0), False
        self.seconds = None

    def wait(self, seconds):
        self.seconds = seconds
        self._begun.release()
        assert self._over.acquire(timeout=30)
        return self._is_set

    def set(self):
        self._is_set = True
        self._over.release()

    def end_one(self):
        """End a pause, and wait for the next one."""
        assert self._begun.acquire(timeout=30)
        self._over.release()
        assert self._begun.acquire(timeout=30)
        self._begun.release()


@pytest.fixture
def pauses(monkeypatch):
    """Return the pauses of the locks that the test makes, in that order."""
    made = []

    def event():
        made.append(Pauses())
        return made[-1]

    monkeypatch.setattr(held_file, "Event", event)
    return made


def holder(**changes):
    """Return what a lock file of this process contains, with changes."""
    pid = os.getpid()
    mine = {"token": "other", "host": node(), "machine": machine(), "pid": pid, "started": start_time(pid)}
    return {**mine, **changes}


ELSEWHERE = {"host": "far", "machine": "boot pid:[1]"}
OTHERS = {"here": holder(), "elsewhere": holder(**ELSEWHERE), "not written yet": "", "damaged": "[]"}


def put(path, text):
    """Write a lock file as another process would."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))


def touch(path, seconds):
    os.utime(path, (seconds, seconds))


def taken(path):
    lock = RoundLock(path)
    assert lock.take()
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
        assert first.take()
        assert first.held
        assert not second.take()
        assert not second.held
        first.release()
        assert not first.held
        assert second.take()
        second.release()

    def test_lock_file_names_its_process(self, path):
        lock = taken(path)
        found = json.loads(path.read_text())
        assert {**found, "token": "other"} == holder()
        lock.release()

    def test_take_twice_holds_once(self, path):
        lock = taken(path)
        assert lock.take()
        lock.release()
        assert not path.exists()

    def test_locks_of_two_rounds_are_independent(self, path):
        locks = [taken(path), taken(path.with_name("000002-ab.lock"))]
        for lock in locks:
            lock.release()

    def test_released_lock_leaves_no_file(self, path):
        taken(path).release()
        assert list(path.parent.iterdir()) == []


class TestRelease:
    def test_second_release_does_nothing(self, path):
        first = taken(path)
        first.release()
        second = taken(path)
        first.release()
        assert not RoundLock(path).take()
        second.release()

    def test_release_without_the_lock_does_nothing(self, path):
        RoundLock(path).release()
        first = taken(path)
        second = RoundLock(path)
        assert not second.take()
        second.release()
        assert not RoundLock(path).take()
        first.release()

    @pytest.mark.parametrize("found", OTHERS.values(), ids=OTHERS)
    def test_release_leaves_the_file_of_another_holder(self, path, found):
        lock = taken(path)
        put(path, found)
        lock.release()
        assert path.read_text() == (found if isinstance(found, str) else json.dumps(found))

    def test_release_of_a_deleted_file_is_no_error(self, path):
        lock = taken(path)
        path.unlink()
        path.parent.rmdir()
        lock.release()
        assert not lock.held


class TestRaces:
    def test_one_of_many_threads_holds_the_lock_at_a_time(self, path):
        inside = []

        def work(_):
            for _ in range(10):
                lock = RoundLock(path)
                while not lock.take():
                    pass
                inside.append(lock)
                assert inside == [lock]
                inside.remove(lock)
                lock.release()

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(4)))
        assert not path.exists()

    def test_one_of_many_processes_holds_the_lock_at_a_time(self, path):
        """The holder creates a folder, which fails if it exists."""
        script = (
            "inside = path.with_name('inside')\n"
            "for _ in range(25):\n"
            "    lock = RoundLock(path)\n"
            "    while not lock.take(): os.sched_yield()\n"
            "    inside.mkdir(); inside.rmdir()\n"
            "    lock.release()\n"
        )
        processes = [run(script, path) for _ in range(3)]
        errors = [process.communicate(timeout=60)[1].decode() for process in processes]
        assert errors == [""] * 3
        assert list(path.parent.iterdir()) == []

    def test_lock_passes_on_when_every_holder_is_killed(self, path):
        script = "lock = RoundLock(path)\nwhile not lock.take(): os.sched_yield()\ndie()\n"
        processes = [run(script, path) for _ in range(4)]
        errors = [process.communicate(timeout=60)[1].decode() for process in processes]
        assert errors == [""] * 4
        assert taken(path).held

    def test_a_dead_holder_s_lock_is_taken_by_many_threads_at_once(self, path):
        """By one of them, or by two that have both deleted it: then the round is computed twice."""
        number, together = 8, Barrier(8)

        def work(_):
            lock = RoundLock(path)
            together.wait()
            took = lock.take()
            together.wait()
            lock.release()
            return took

        with ThreadPoolExecutor(number) as threads:
            for _ in range(30):
                put(path, holder(started="1"))
                assert any(list(threads.map(work, range(number))))
                assert not path.exists()

    def test_waiter_writes_nothing(self, path, monkeypatch):
        """Where many runs wait for one round, each looks twice a second."""
        first, waiter = taken(path), RoundLock(path)
        for name in ("link", "mkdir", "replace", "unlink"):
            monkeypatch.setattr(os, name, None)
        monkeypatch.setattr(Path, "write_text", None)
        assert not waiter.take()
        monkeypatch.undo()
        first.release()

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
        process = run("assert RoundLock(path).take(); die()", path)
        assert process.communicate(timeout=60)[1] == b""
        assert path.exists()
        taken(path).release()

    def test_lock_is_free_if_the_process_number_is_reused(self, path):
        put(path, holder(started="1"))
        taken(path).release()

    def test_lock_with_an_impossible_process_number_is_free(self, path):
        put(path, holder(pid=2**70))
        taken(path).release()

    def test_running_local_holder_keeps_the_lock_while_it_renews(self, path, time):
        put(path, holder())
        lock = RoundLock(path, time.clock)
        for seconds in range(5):
            touch(path, seconds)
            assert not lock.take()
            time.seconds += EXPIRES_AFTER + 0.1
        assert json.loads(path.read_text()) == holder()

    def test_hanging_local_holder_loses_the_lock(self, path, time):
        put(path, holder())
        lock = RoundLock(path, time.clock)
        assert not lock.take()
        time.seconds += EXPIRES_AFTER + 0.1
        assert lock.take()
        lock.release()


UNKNOWN = {
    "another host": holder(host="far"),
    "this host before it was started anew": holder(machine="boot pid:[1]"),
    "another host, the process has ended": holder(**ELSEWHERE, started="1"),
    "nothing written yet": "",
    "half written": json.dumps(holder())[:30],
    "no JSON": "\0" * 100,
    "deep JSON": "[" * 100_000,
    "a list": "[]",
    "a number": "1",
    "null": "null",
    "an empty object": "{}",
    "no token": json.dumps({"host": "far"}),
    "this machine, no process": json.dumps({"host": node(), "machine": machine()}),
    "this machine, a process without a number": holder(pid=None),
    "this machine, a number that is text": holder(pid="one"),
    "this machine, a number that is a list": holder(pid=[1]),
    "this machine, a fraction": holder(pid=1.5),
    "this machine, no start": holder(started=None),
    "this machine, a start that is a number": holder(started=12),
}


@pytest.mark.parametrize("found", UNKNOWN.values(), ids=UNKNOWN)
class TestUnknownHolders:
    def test_unknown_holder_keeps_the_lock_until_it_expires(self, path, time, found):
        put(path, found)
        lock = RoundLock(path, time.clock)
        assert not lock.take()
        time.seconds += EXPIRES_AFTER
        assert not lock.take()
        time.seconds += 0.1
        assert lock.take()
        assert json.loads(path.read_text())["pid"] == os.getpid()
        lock.release()
        assert not path.exists()

    def test_expiry_counts_from_when_a_change_was_seen(self, path, time, found):
        """The file's own time is not used: the holder's clock may be wrong."""
        put(path, found)
        lock = RoundLock(path, time.clock)
        for seconds in (5e8, 5e9, 1.0):
            touch(path, seconds)
            assert not lock.take()
            time.seconds += EXPIRES_AFTER
            assert not lock.take()
        time.seconds += 0.1
        assert lock.take()
        lock.release()

    def test_old_file_time_alone_does_not_expire_the_lock(self, path, time, found):
        put(path, found)
        touch(path, 1.0)
        assert not RoundLock(path, time.clock).take()
        time.seconds += 10 * EXPIRES_AFTER
        assert not RoundLock(path, time.clock).take()


def test_another_token_with_the_same_file_time_is_a_change(path, time):
    lock = RoundLock(path, time.clock)
    for token in ("one", "two"):
        put(path, holder(**ELSEWHERE, token=token))
        touch(path, 1.0)
        assert not lock.take()
        time.seconds += EXPIRES_AFTER
    assert not lock.take()


class TestRenewing:
    def test_lock_is_renewed_three_times_before_it_expires(self, path, pauses):
        lock = taken(path)
        pauses[0].end_one()
        assert pauses[0].seconds == RENEW_EVERY < EXPIRES_AFTER / 3
        lock.release()

    def test_waiter_on_another_machine_sees_the_renewal(self, path, pauses, time, monkeypatch):
        first = taken(path)
        touch(path, 1.0)
        monkeypatch.setattr(processes, "node", lambda: "far")
        waiter = RoundLock(path, time.clock)
        assert not waiter.take()
        time.seconds += EXPIRES_AFTER + 0.1
        pauses[0].end_one()
        assert not waiter.take()
        time.seconds += EXPIRES_AFTER + 0.1
        assert waiter.take()
        first.release()
        assert path.exists(), "the waiter holds it"
        waiter.release()

    def test_lock_of_a_holder_that_hangs_in_a_write_is_renewed_for_hours_only(self, path, time):
        lock = RoundLock(path, time.clock)
        assert lock.take()
        time.seconds += LONGEST - 1
        assert lock._renew()
        time.seconds += 2
        assert not lock._renew()
        lock.release()

    def test_only_a_held_lock_with_a_file_is_renewed(self, path, pauses):
        put(path, holder())
        assert not RoundLock(path).take()
        assert RoundLock(path / "under a file").take()
        assert [pause.seconds for pause in pauses] == [None, None]

    @pytest.mark.parametrize("found", OTHERS.values(), ids=OTHERS)
    def test_file_of_another_holder_is_not_renewed(self, path, pauses, found):
        lock = taken(path)
        put(path, found)
        touch(path, 1.0)
        pauses[0].end_one()
        assert path.stat().st_mtime == 1.0
        lock.release()

    def test_renewal_does_not_restore_a_deleted_file(self, path, pauses):
        lock = taken(path)
        path.unlink()
        pauses[0].end_one()
        assert not path.exists()
        lock.release()


class TestUnwritableFolder:
    def test_missing_folder_is_created(self, path):
        assert not path.parent.exists()
        lock = taken(path)
        assert path.exists()
        lock.release()

    @pytest.mark.parametrize("depth", [0, 1])
    def test_unwritable_lock_is_held_by_all(self, path, depth):
        """A file is where a folder should be."""
        blocked = path.parents[depth]
        blocked.parent.mkdir(parents=True, exist_ok=True)
        blocked.write_text("a file")
        locks = [taken(path), taken(path)]
        for lock in locks:
            lock.release()
            lock.release()
        assert blocked.read_text() == "a file"

    def test_folder_in_place_of_the_lock_is_left_alone(self, path):
        path.mkdir(parents=True)
        lock = taken(path)
        lock.release()
        assert path.is_dir()

    def test_full_disk_keeps_the_lock(self, path, monkeypatch):
        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "write_text", full)
        locks = [taken(path), taken(path)]
        monkeypatch.undo()
        assert list(path.parent.iterdir()) == []
        for lock in locks:
            lock.release()


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
                RoundLock(path).take()
        assert content[0]["pid"] == os.getpid()
        assert list(path.parent.iterdir()) == []

    def test_link_whose_reply_was_lost_is_ours(self, path, monkeypatch):
        """A network file system makes the link, loses the reply and asks again: then the name exists."""
        make = os.link

        def twice(source, target):
            make(source, target)
            make(source, target)

        monkeypatch.setattr(os, "link", twice)
        lock = taken(path)
        assert json.loads(path.read_text())["token"] == lock._file.token
        lock.release()
        assert list(path.parent.iterdir()) == []

    def test_lock_is_taken_without_hard_links(self, path, monkeypatch):
        def refused(source, target):
            raise PermissionError("no hard links here")

        monkeypatch.setattr(os, "link", refused)
        first, second = RoundLock(path), RoundLock(path)
        assert first.take()
        assert not second.take()
        assert json.loads(path.read_text())["pid"] == os.getpid()
        first.release()
        assert list(path.parent.iterdir()) == []
