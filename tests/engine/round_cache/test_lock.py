"""A claim on work: one process has it, and whoever is gone has it no longer."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from platform import node
from threading import Barrier, Semaphore

import pytest

from fedgrid.engine.round_cache import lock as module
from fedgrid.engine.round_cache.lock import EXPIRES_AFTER, RENEW_EVERY, RoundLock
from fedgrid.engine.storage.processes import machine, start_time

CHECKOUT = Path(__file__).parents[3]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store" / "trunk" / "000001-ab.claim"


class Clock:
    """A clock that the test sets."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "monotonic", clock)
    return clock


class Pauses:
    """An event that is not waited for by the clock: a pause between renewals ends when the test says so."""

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
    """Return the pauses of the claims that the test makes, in that order."""
    made = []

    def event():
        made.append(Pauses())
        return made[-1]

    monkeypatch.setattr(module, "Event", event)
    return made


def holder(**changes):
    """Return what a claim of this process says, changed."""
    pid = os.getpid()
    mine = {"token": "other", "host": node(), "machine": machine(), "pid": pid, "started": start_time(pid)}
    return {**mine, **changes}


ELSEWHERE = {"host": "far", "machine": "boot pid:[1]"}
OTHERS = {"here": holder(), "elsewhere": holder(**ELSEWHERE), "not written yet": "", "damaged": "[]"}


def put(path, text):
    """Write a claim file as somebody else did."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))


def touch(path, seconds):
    os.utime(path, (seconds, seconds))


def taken(path):
    claim = RoundLock(path)
    assert claim.take()
    return claim


def run(script, path):
    """Start a process that knows `RoundLock`, `path` and `die`, which kills it."""
    begin = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from signal import SIGKILL\n"
        "from fedgrid.engine.round_cache.lock import RoundLock\n"
        "path = Path(sys.argv[1])\n"
        "def die(): os.kill(os.getpid(), SIGKILL)\n"
    )
    command = [sys.executable, "-c", begin + script, str(path)]
    return subprocess.Popen(command, cwd=CHECKOUT, stderr=subprocess.PIPE)


class TestOneHolder:
    def test_the_first_has_it_until_it_gives_it_back(self, path):
        first, second = RoundLock(path), RoundLock(path)
        assert first.take()
        assert first.held
        assert not second.take()
        assert not second.held
        first.release()
        assert not first.held
        assert second.take()
        second.release()

    def test_it_says_who(self, path):
        claim = taken(path)
        found = json.loads(path.read_text())
        assert {**found, "token": "other"} == holder()
        claim.release()

    def test_taking_it_twice_is_having_it(self, path):
        claim = taken(path)
        assert claim.take()
        claim.release()
        assert not path.exists()

    def test_every_piece_of_work_has_a_claim_of_its_own(self, path):
        claims = [taken(path), taken(path.with_name("000002-ab.claim"))]
        for claim in claims:
            claim.release()

    def test_nothing_is_left_of_it(self, path):
        taken(path).release()
        assert list(path.parent.iterdir()) == []


class TestRelease:
    def test_twice_is_once(self, path):
        first = taken(path)
        first.release()
        second = taken(path)
        first.release()
        assert not RoundLock(path).take()
        second.release()

    def test_of_what_was_never_taken_is_nothing(self, path):
        RoundLock(path).release()
        first = taken(path)
        second = RoundLock(path)
        assert not second.take()
        second.release()
        assert not RoundLock(path).take()
        first.release()

    @pytest.mark.parametrize("found", OTHERS.values(), ids=OTHERS)
    def test_leaves_what_others_have_put_in_its_place(self, path, found):
        claim = taken(path)
        put(path, found)
        claim.release()
        assert path.read_text() == (found if isinstance(found, str) else json.dumps(found))

    def test_of_a_file_that_somebody_deleted_is_no_error(self, path):
        claim = taken(path)
        path.unlink()
        path.parent.rmdir()
        claim.release()
        assert not claim.held


class TestRaces:
    def test_of_many_threads_one_has_it_at_a_time(self, path):
        inside = []

        def work(_):
            for _ in range(10):
                claim = RoundLock(path)
                while not claim.take():
                    pass
                inside.append(claim)
                assert inside == [claim]
                inside.remove(claim)
                claim.release()

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(4)))
        assert not path.exists()

    def test_of_many_processes_one_has_it_at_a_time(self, path):
        """Whoever has it makes a folder, which fails if there is one."""
        script = (
            "inside = path.with_name('inside')\n"
            "for _ in range(25):\n"
            "    claim = RoundLock(path)\n"
            "    while not claim.take(): os.sched_yield()\n"
            "    inside.mkdir(); inside.rmdir()\n"
            "    claim.release()\n"
        )
        processes = [run(script, path) for _ in range(3)]
        said = [process.communicate(timeout=60)[1].decode() for process in processes]
        assert said == [""] * 3
        assert list(path.parent.iterdir()) == []

    def test_one_killed_holder_after_the_other_is_followed_by_one(self, path):
        script = (
            "inside = path.with_name('inside')\n"
            "claim = RoundLock(path)\n"
            "while not claim.take(): os.sched_yield()\n"
            "inside.mkdir(); inside.rmdir()\n"
            "die()\n"
        )
        processes = [run(script, path) for _ in range(4)]
        said = [process.communicate(timeout=60)[1].decode() for process in processes]
        assert said == [""] * 4
        assert taken(path).held

    def test_of_many_that_find_a_dead_holder_one_follows_it(self, path):
        number, together = 8, Barrier(8)

        def work(_):
            claim = RoundLock(path)
            together.wait()
            took = claim.take()
            together.wait()
            claim.release()
            return took

        with ThreadPoolExecutor(number) as threads:
            for _ in range(30):
                put(path, holder(started="1"))
                assert sum(threads.map(work, range(number))) == 1
                assert not path.exists()

    def test_a_holder_that_comes_while_one_looks_is_left_alone(self, path, monkeypatch):
        """The dead holder's claim is taken over by another between the two looks of this one."""
        put(path, holder(started="1"))
        look, others = module.samestat, []

        def late(*stats):
            if not others:
                others.append(RoundLock(path))
                path.unlink()
                assert others[0].take()
                return look(stats[0], path.stat())
            return look(*stats)

        monkeypatch.setattr(module, "samestat", late)
        assert not RoundLock(path).take()
        others[0].release()
        assert not path.exists()


class TestHoldersOfThisMachine:
    def test_a_killed_process_has_nothing(self, path):
        process = run("assert RoundLock(path).take(); die()", path)
        assert process.communicate(timeout=60)[1] == b""
        assert path.exists()
        taken(path).release()

    def test_nor_has_one_whose_number_is_another_processs_now(self, path):
        put(path, holder(started="1"))
        taken(path).release()

    def test_nor_one_whose_number_no_process_can_have(self, path):
        put(path, holder(pid=2**70))
        taken(path).release()

    def test_one_that_lives_has_it_however_long_nothing_changes(self, path, clock):
        put(path, holder())
        claim = RoundLock(path)
        for _ in range(5):
            assert not claim.take()
            clock.now += EXPIRES_AFTER
        assert json.loads(path.read_text()) == holder()


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
class TestHoldersOfWhomNothingIsKnown:
    def test_they_have_it_until_the_file_has_not_changed_for_long(self, path, clock, found):
        put(path, found)
        claim = RoundLock(path)
        assert not claim.take()
        clock.now += EXPIRES_AFTER
        assert not claim.take()
        clock.now += 0.1
        assert claim.take()
        assert json.loads(path.read_text())["pid"] == os.getpid()
        claim.release()
        assert not path.exists()

    def test_every_change_counts_from_when_it_is_seen(self, path, clock, found):
        """Whatever the time that the file has: the holder's clock may be wrong."""
        put(path, found)
        claim = RoundLock(path)
        for seconds in (5e8, 5e9, 1.0):
            touch(path, seconds)
            assert not claim.take()
            clock.now += EXPIRES_AFTER
            assert not claim.take()
        clock.now += 0.1
        assert claim.take()
        claim.release()

    def test_an_old_file_is_none_that_has_not_changed(self, path, clock, found):
        put(path, found)
        touch(path, 1.0)
        assert not RoundLock(path).take()
        clock.now += 10 * EXPIRES_AFTER
        assert not RoundLock(path).take()


def test_another_holder_at_the_same_time_is_a_change(path, clock):
    claim = RoundLock(path)
    for token in ("one", "two"):
        put(path, holder(**ELSEWHERE, token=token))
        touch(path, 1.0)
        assert not claim.take()
        clock.now += EXPIRES_AFTER
    assert not claim.take()


class TestRenewing:
    def test_it_happens_often_enough(self, path, pauses):
        claim = taken(path)
        pauses[0].end_one()
        assert pauses[0].seconds == RENEW_EVERY < EXPIRES_AFTER / 3
        claim.release()

    def test_a_waiter_elsewhere_sees_it(self, path, pauses, clock, monkeypatch):
        first = taken(path)
        touch(path, 1.0)
        monkeypatch.setattr(module, "node", lambda: "far")
        waiter = RoundLock(path)
        assert not waiter.take()
        clock.now += EXPIRES_AFTER + 0.1
        pauses[0].end_one()
        assert not waiter.take()
        clock.now += EXPIRES_AFTER + 0.1
        assert waiter.take()
        first.release()
        assert path.exists(), "it is the waiter's"
        waiter.release()

    def test_nothing_is_renewed_before_it_is_taken_or_without_a_file(self, path, pauses):
        put(path, holder())
        assert not RoundLock(path).take()
        assert RoundLock(path / "under a file").take()
        assert [pause.seconds for pause in pauses] == [None, None]

    @pytest.mark.parametrize("found", OTHERS.values(), ids=OTHERS)
    def test_what_others_have_put_in_its_place_is_not_renewed(self, path, pauses, found):
        claim = taken(path)
        put(path, found)
        touch(path, 1.0)
        pauses[0].end_one()
        assert path.stat().st_mtime == 1.0
        claim.release()

    def test_a_deleted_file_is_no_error_and_does_not_come_back(self, path, pauses):
        claim = taken(path)
        path.unlink()
        pauses[0].end_one()
        assert not path.exists()
        claim.release()


class TestWhereNoFileCanBe:
    def test_a_missing_folder_is_made(self, path):
        assert not path.parent.exists()
        claim = taken(path)
        assert path.exists()
        claim.release()

    @pytest.mark.parametrize("depth", [0, 1])
    def test_everybody_has_a_claim_that_cannot_be_written(self, path, depth):
        """A file is where a folder should be."""
        blocked = path.parents[depth]
        blocked.parent.mkdir(parents=True, exist_ok=True)
        blocked.write_text("a file")
        claims = [taken(path), taken(path)]
        for claim in claims:
            claim.release()
            claim.release()
        assert blocked.read_text() == "a file"

    def test_nor_does_a_folder_in_its_place_stop_anybody(self, path):
        path.mkdir(parents=True)
        claim = taken(path)
        claim.release()
        assert path.is_dir()

    def test_nor_a_full_disk(self, path, monkeypatch):
        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(module.json, "dump", full)
        claims = [taken(path)]
        claims[0].release()
