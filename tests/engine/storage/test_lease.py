"""One driver at a time: taking, renewing and losing the lease on a storage."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from platform import node
from threading import Barrier

import pytest

from fedgrid.engine.errors import ConfigError, RunError
from fedgrid.engine.storage import held_file
from fedgrid.engine.storage import lease as module
from fedgrid.engine.storage.driver import EXPIRES_AFTER, LATE, check_driver, holder
from fedgrid.engine.storage.lease import LOOK_EVERY, Lease
from fedgrid.engine.storage.remote import connect
from fedgrid.engine.storage.storage import Storage
from tests.chaos.s3_server import Content, serving
from tests.helpers.time import Time

LONG_AGO = "00000000000.000000"


@pytest.fixture
def storage(tmp_path):
    return Storage.of(tmp_path / "runs")


@pytest.fixture
def time():
    return Time()


def lease(storage, what="paper", time=None):
    return Lease(storage, what, clock=(time or Time()).clock)


def read(storage):
    return json.loads((storage.root / "lease.json").read_text())


def names(storage):
    return sorted(path.name for path in storage.root.iterdir())


def mine(storage, **changes):
    """Return what a lease of this process contains, with changes."""
    with lease(storage):
        return {**read(storage), **changes}


def put(storage, content, name="lease.json"):
    storage.root.mkdir(exist_ok=True)
    (storage.root / name).write_text(content if isinstance(content, str) else json.dumps(content))


def elsewhere(storage, **changes):
    """Return the lease of another machine."""
    return mine(storage, **{"token": "other", "host": "far", "machine": "boot", **changes})


def ended_process():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def test_lease_names_holder_user_and_start(storage):
    with lease(storage, "paper"):
        found = read(storage)
        assert names(storage) == ["lease.json"]
    assert (found["pid"], found["what"], found["user"]) == (os.getpid(), "paper", module._user())
    assert found["since"].endswith(" UTC")


def test_released_lease_leaves_no_file(storage):
    with lease(storage):
        pass
    with pytest.raises(ZeroDivisionError), lease(storage):
        _ = 1 / 0
    assert names(storage) == []


def test_second_driver_is_refused_with_name_of_the_first(storage, time):
    with lease(storage, "paper", time):
        found = read(storage)
        with pytest.raises(ConfigError) as error, lease(storage, "other", time):
            pass
        assert read(storage) == found
        assert names(storage) == ["lease.json"]
    message = str(error.value)
    assert message.startswith(f"{storage.root} is in use: ")
    parts = (f"grid paper of {found['user']}", f"process {os.getpid()} on {found['host']}", found["since"])
    for part in (*parts, "`fedgrid stop paper`", "--storage"):
        assert part in message
    assert time.pauses == []


def test_grid_of_another_user_is_not_offered_to_be_stopped(storage):
    put(storage, mine(storage, user="alice"))
    with pytest.raises(ConfigError, match="of alice") as error, lease(storage):
        pass
    assert "fedgrid stop" not in str(error.value)


FAR_CLOCKS = {
    "an hour behind": {"since": "2001-01-01 00:00:00 UTC", "renewed": LONG_AGO},
    "an hour ahead": {"since": "2101-01-01 00:00:00 UTC", "renewed": "99999999999.000000"},
}


@pytest.mark.parametrize("clock", FAR_CLOCKS.values(), ids=FAR_CLOCKS)
class TestHolderOnAnotherMachine:
    def test_dead_holder_is_replaced_after_a_minute_without_a_change(self, storage, time, clock):
        put(storage, elsewhere(storage, **clock))
        told = []
        with Lease(storage, "mine", told.append, time.clock):
            assert read(storage)["what"] == "mine"
        assert EXPIRES_AFTER < sum(time.pauses) <= EXPIRES_AFTER + LOOK_EVERY
        [line] = told
        for part in (f"{storage} may be in use: grid paper", "process", " on far", "60 s"):
            assert part in line
        assert names(storage) == []

    def test_living_holder_is_respected_whatever_its_clock_says(self, storage, time, clock):
        other = elsewhere(storage, **clock)
        put(storage, other)
        renewals = iter(range(1, 100))

        def renew_every_15_seconds():
            if time.seconds // 15 != (time.seconds - LOOK_EVERY) // 15:
                put(storage, {**other, "renewed": f"{next(renewals):020.6f}"})

        time.during_pause = renew_every_15_seconds
        with pytest.raises(ConfigError, match="is in use: grid paper .* on far"), lease(storage, time=time):
            pass
        assert sum(time.pauses) <= 15 + LOOK_EVERY
        assert read(storage)["token"] == "other"
        assert names(storage) == ["lease.json"]


def test_lease_with_a_wait_is_as_new_as_one_without(storage, time):
    """The driver after next looks at once: it must not see the time at which the wait began."""
    put(storage, elsewhere(storage))
    with lease(storage, "mine", time):
        assert float(read(storage)["renewed"]) == time.seconds
        with pytest.raises(ConfigError, match="in use: grid mine"), lease(storage, "other", time):
            pass


GONE = {
    "ended": lambda: {"pid": ended_process()},
    "another process has its number": lambda: {"started": "1"},
    "hangs for more than a minute": lambda: {"renewed": f"{1000 - EXPIRES_AFTER - 1:020.6f}"},
}


@pytest.mark.parametrize("how", GONE.values(), ids=GONE)
def test_lease_of_a_local_process_that_is_gone_is_taken_over_at_once(storage, time, how):
    put(storage, mine(storage, token="other", **how()))
    assert how is GONE["hangs for more than a minute"] or holder(storage) is None
    with lease(storage, time=time):
        assert read(storage)["token"] != "other"
    assert time.pauses == []
    assert names(storage) == []


def test_local_process_that_was_silent_for_a_minute_at_most_keeps_its_lease(storage, time):
    put(storage, mine(storage, token="other", renewed=f"{1000 - EXPIRES_AFTER:020.6f}"))
    with pytest.raises(ConfigError, match="is in use"), lease(storage, time=time):
        pass


def test_lease_of_a_zombie_is_taken_over(storage):
    """A zombie has its number still."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        with open(f"/proc/{process.pid}/stat") as file:
            started = file.read().rpartition(")")[2].split()[19]
        put(storage, mine(storage, token="other", pid=process.pid, started=started))
        with pytest.raises(ConfigError, match="is in use"), lease(storage):
            pass
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with lease(storage):
            pass


DAMAGED = {"empty after a power cut": "", "half": '{"token": "ot', "no object": "[]", "zeros": "\0" * 200}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_damaged_lease_expires_after_a_minute(storage, time, text):
    put(storage, text)
    with lease(storage, time=time):
        assert read(storage)["pid"] == os.getpid()
    assert EXPIRES_AFTER < sum(time.pauses) <= EXPIRES_AFTER + LOOK_EVERY
    assert names(storage) == []


def test_lease_of_an_earlier_version_is_respected_while_it_is_renewed(storage, time):
    """It has an expiry and no user."""
    old = {"token": "other", "host": "far", "machine": "boot", "pid": 1, "started": "1", "what": "paper"}
    put(storage, {**old, "since": "2026-01-01", "expires": "2026-01-01T00:01:00+00:00"})
    time.during_pause = lambda: put(storage, {**old, "expires": f"{time.seconds}"})
    with pytest.raises(ConfigError, match="is in use: grid paper"), lease(storage, time=time):
        pass


@pytest.mark.parametrize("start", ["free", "expired", "damaged", "claimed by one that died"])
@pytest.mark.parametrize("has_links", [True, False])
def test_exactly_one_of_many_drivers_takes_the_lease(storage, monkeypatch, start, has_links):
    if not has_links:

        def refused(source, target):
            raise PermissionError("no hard links here")

        monkeypatch.setattr(held_file.os, "link", refused)
    old = mine(storage, renewed=LONG_AGO)
    if start == "damaged":
        put(storage, "")
    elif start != "free":
        put(storage, {**old, "token": "old"})
    if start == "claimed by one that died":
        put(storage, {**old, "token": "claim"}, "lease.json.after-old")
    drivers, together, tried = 8, Barrier(8), Barrier(8)

    def drive(number):
        together.wait()
        try:
            with lease(storage, f"grid-{number}"):
                tried.wait()
                return True
        except ConfigError:
            tried.wait()
            return False

    with ThreadPoolExecutor(drivers) as threads:
        assert sum(threads.map(drive, range(drivers))) == 1
    assert names(storage) == []


def test_takeover_by_a_living_driver_is_respected(storage):
    old = mine(storage, renewed=LONG_AGO)
    put(storage, {**old, "token": "old"})
    put(
        storage,
        {**old, "token": "claim", "what": "theirs", "renewed": f"{1000:020.6f}"},
        "lease.json.after-old",
    )
    with pytest.raises(ConfigError, match="grid theirs"), lease(storage):
        pass
    assert names(storage) == ["lease.json", "lease.json.after-old"]


def test_link_whose_reply_was_lost_is_ours(storage, monkeypatch):
    """A network file system makes the link, loses the reply and asks again: then the name exists."""
    make = os.link

    def twice(source, target):
        make(source, target)
        make(source, target)

    monkeypatch.setattr(held_file.os, "link", twice)
    with lease(storage):
        assert names(storage) == ["lease.json"]
    assert names(storage) == []


def test_dead_lease_that_only_its_owner_can_delete_is_named(storage, monkeypatch):
    """As in a folder with the sticky bit, like /tmp."""
    put(storage, mine(storage, token="old", user="alice", renewed=LONG_AGO))

    def refused(source, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "replace", refused)
    with (
        pytest.raises(ConfigError, match=r"lease.json is left by grid paper of alice") as error,
        lease(storage),
    ):
        pass
    assert "--storage" in str(error.value)
    assert names(storage) == ["lease.json"]


def test_renewal_writes_the_time_and_nothing_else(storage, time):
    with lease(storage, time=time) as held:
        before = read(storage)
        size = (storage.root / "lease.json").stat().st_size
        time.seconds += 100_000
        held.renew()
        assert read(storage) == {**before, "renewed": f"{time.seconds:020.6f}"}
        assert (storage.root / "lease.json").stat().st_size == size
        assert not held.lost.is_set()


def test_driver_that_lost_its_lease_leaves_the_new_one_alone(storage, time):
    """As after it was stopped for a minute."""
    with lease(storage, time=time) as held:
        time.seconds += EXPIRES_AFTER + 1
        with lease(storage, "follower", time):
            follower = read(storage)
            assert not held.lost.is_set()
            held.renew()
            assert held.lost.is_set()
            assert read(storage) == follower
            held.__exit__(None, None, None)
            assert read(storage) == follower


def test_deleted_lease_is_lost(storage):
    with lease(storage) as held:
        (storage.root / "lease.json").unlink()
        held.renew()
        assert held.lost.is_set()
    assert names(storage) == []


class TestOtherMachineOfTheGrid:
    def test_machine_that_sees_the_drivers_lease_may_write(self, storage, time):
        with lease(storage) as held:
            check_driver(storage, held.token, time.clock)
        assert time.pauses == []

    def test_lease_that_shows_late_is_waited_for(self, storage, time):
        content = mine(storage, token="driver")
        time.during_pause = lambda: time.seconds == 1000 + LATE and put(storage, content)
        check_driver(storage, "driver", time.clock)

    @pytest.mark.parametrize("exists", [True, False])
    def test_machine_without_the_share_is_named_with_the_path(self, storage, time, exists):
        if exists:
            storage.root.mkdir()
        with pytest.raises(RunError) as error:
            check_driver(storage, "driver", time.clock)
        message = str(error.value)
        for part in (f"node {node()}", str(storage.root), "mount", "s3://"):
            assert part in message
        assert time.seconds == 1000 + LATE
        assert storage.root.exists() == exists, "nothing is written"

    def test_storage_that_another_driver_has_taken_is_left_alone(self, storage, time):
        with lease(storage, "theirs"), pytest.raises(RunError, match="taken over by grid theirs"):
            check_driver(storage, "driver", time.clock)


class TestUri:
    @pytest.fixture
    def machine(self, tmp_path, monkeypatch):
        """Return the storage as a machine of that name sees it."""

        def storage(name):
            monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / name))
            return Storage.of(f"local://{tmp_path / 'bucket'}")

        return storage

    @pytest.fixture
    def bucket(self, tmp_path):
        return Storage(tmp_path / "bucket")

    def test_lease_excludes_other_machines(self, machine, bucket):
        here, there = machine("here"), machine("there")
        with lease(here) as held:
            with pytest.raises(ConfigError, match="is in use: grid paper"), lease(there, "other"):
                pass
            put(there, elsewhere(Storage.of(bucket.root.parent / "aside")))
            there.push("lease.json")
            held.renew()
            assert held.lost.is_set()
        assert names(bucket) == ["lease.json"], "theirs"
        there.remove("lease.json")
        with lease(here):
            assert names(bucket) == ["lease.json"]
        assert names(bucket) == []

    def test_of_two_drivers_that_start_together_the_last_to_write_goes_on(self, machine, bucket, monkeypatch):
        """The second starts after the first has looked, and before that has written."""
        first, second = lease(machine("here"), "first"), lease(machine("there"), "second")
        push = Storage.push

        def start_second(storage, *names):
            monkeypatch.setattr(Storage, "push", push)
            second.__enter__()
            push(storage, *names)

        monkeypatch.setattr(Storage, "push", start_second)
        first.__enter__()
        assert read(bucket)["what"] == "first", "both have started"
        with pytest.raises(RunError, match="another fedgrid has taken over this storage"):
            second.confirm()
        first.confirm()
        second.__exit__(None, None, None)
        assert read(bucket)["what"] == "first"
        first.__exit__(None, None, None)
        assert names(bucket) == []

    def test_pyarrow_sends_s3_no_condition_on_a_write(self):
        """The server would refuse the second write. Once this fails, a lease there can be exclusive."""
        with serving(Content()) as uri:
            remote, path = connect(uri)
            for text in (b"first", b"second"):
                with remote.open_output_stream(f"{path}/x", metadata={"If-None-Match": "*"}) as file:
                    file.write(text)
            with remote.open_input_stream(f"{path}/x") as file:
                assert file.read() == b"second"

    def test_exiting_driver_leaves_the_lease_of_its_successor(self, machine, bucket, time):
        """The first has not looked since the second took over."""
        here, there = machine("here"), machine("there")
        with lease(here, "first", time):
            time.seconds += EXPIRES_AFTER + 1
            second = lease(there, "second", time)
            second.__enter__()
        assert read(bucket)["what"] == "second"
        second.__exit__(None, None, None)
        assert names(bucket) == []

    def test_driver_stopped_during_a_renewal_does_not_push_over_its_successor(
        self, machine, bucket, time, monkeypatch
    ):
        here = machine("here")
        with lease(here, "first", time) as held:
            extend = held._extend

            def stopped(file):
                extend(file)
                time.seconds += EXPIRES_AFTER + 1
                put(bucket, elsewhere(Storage.of(bucket.root.parent / "aside"), what="second"))

            monkeypatch.setattr(held, "_extend", stopped)
            assert held.renew()
            assert read(bucket)["what"] == "second"
            monkeypatch.undo()
            assert not held.renew()
            assert held.lost.is_set()
        assert read(bucket)["what"] == "second"
