"""Leases on parts of one storage: taking, renewing and losing them, beside other drivers."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from platform import node
from threading import Barrier

import pytest

from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.runtime.leases.driver import (
    LATE,
    NO_KEYS,
    LeaseKeys,
    check_driver,
    find_driver,
    list_drivers,
)
from fedgrid.engine.runtime.leases.held_file import EXPIRES_AFTER, HeldFile
from fedgrid.engine.runtime.leases.lease import LOOK_EVERY, Lease
from fedgrid.engine.runtime.leases.processes import find_user_name
from fedgrid.engine.runtime.storage.clock import Clock
from fedgrid.engine.runtime.storage.remote import open_file_system
from fedgrid.engine.runtime.storage.storage import Storage
from tests.chaos.s3_server import Content, serving
from tests.helpers.time import FakeTime

LONG_AGO = "00000000000.000000"
OTHER = "drivers/00000000000000aa.json"
"""Of another driver; its token is less than most."""
LAST = "drivers/ffffffffffffffff.json"
RUN = LeaseKeys({"the training of digits-fedavg-s0"})


@pytest.fixture
def storage(tmp_path):
    return Storage.from_text(tmp_path / "runs")


def lease(storage, what="paper", time=None, keys=RUN):
    return Lease(storage, what, keys, clock=(time or FakeTime()).clock)


def names(storage):
    root = storage.root
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def read(storage, name=None):
    """Return what the file of a driver says; of the only one, without a name."""
    if name is None:
        [name] = [name for name in names(storage) if name.startswith("drivers/")]
    return json.loads((storage.root / name).read_text())


def mine(storage, **changes):
    """Return what a lease of this process contains, with changes."""
    with lease(storage):
        return {**read(storage), **changes}


def put(storage, content, name=OTHER):
    path = storage.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def elsewhere(storage, **changes):
    """Return the lease of another machine."""
    return mine(storage, **{"token": "00000000000000aa", "host": "far", "machine": "boot", **changes})


def ended_process():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def test_lease_names_holder_user_start_and_keys(storage):
    with lease(storage, "paper") as held:
        found = read(storage, f"drivers/{held.token}.json")
        assert names(storage) == [f"drivers/{held.token}.json"]
    assert (found["pid"], found["what"], found["user"]) == (os.getpid(), "paper", find_user_name())
    assert found["since"].endswith(" UTC")
    assert found["exclusive"] == ["the grid paper", "the training of digits-fedavg-s0"]
    assert found["shared"] == []


def test_drivers_of_other_runs_go_side_by_side(storage):
    with Lease(storage, "one", LeaseKeys({"a"}, {"c"})) as first:
        with Lease(storage, "two", LeaseKeys({"b"}, {"c"})) as second:
            assert {found.what for found in list_drivers(storage)} == {"one", "two"}
            assert first.renew()
            assert second.renew()
            assert find_driver(storage, "two").token == second.token
        assert names(storage) == [f"drivers/{first.token}.json"], "the first one is there still"
    assert names(storage) == []


def test_driver_of_a_run_that_another_trains_is_refused(storage, time):
    with lease(storage, "paper", time):
        before = read(storage)
        with pytest.raises(ConfigError) as error, lease(storage, "other", time):
            pass
        assert read(storage) == before, "and leaves no file"
    message = str(error.value)
    assert message.startswith(f"{storage.root} is in use: ")
    holder = (f"grid paper of {before['user']}", f"process {os.getpid()} on {before['host']}")
    for part in (
        *holder,
        before["since"],
        "works on the training of digits-fedavg-s0;",
        "`fedgrid stop paper --storage ",
        "--storage",
    ):
        assert part in message
    assert time.pauses == []


def test_second_driver_of_one_grid_is_refused(storage):
    with (
        lease(storage, "paper", keys=LeaseKeys({"a"})),
        pytest.raises(ConfigError, match="is in use: grid paper of .* UTC; wait"),
        lease(storage, "paper", keys=LeaseKeys({"b"})),
    ):
        pass


CLASHES = {
    "trained by both": (LeaseKeys({"the training of a"}, {"a"}), "works on the training of a;"),
    "to be deleted": (LeaseKeys({"a"}), "needs a;"),
    "to be deleted and trained anew": (
        LeaseKeys({"a", "the training of a"}),
        "works on the training of a and 1 more;",
    ),
    "deleted there": (LeaseKeys(shared={"b"}), "works on b;"),
}


@pytest.mark.parametrize(("keys", "reason"), CLASHES.values(), ids=CLASHES)
def test_refusal_says_what_the_other_driver_does(storage, keys, reason):
    other = LeaseKeys({"the training of a", "b"}, {"a"})
    with (
        lease(storage, "paper", keys=other),
        pytest.raises(ConfigError, match=f"UTC, {reason}"),
        lease(storage, "other", keys=keys),
    ):
        pass


def test_grid_of_another_user_is_not_offered_to_be_stopped(storage):
    put(storage, mine(storage, user="alice"))
    with pytest.raises(ConfigError, match="of alice") as error, lease(storage):
        pass
    assert "fedgrid stop" not in str(error.value)


class TestStartAtTheSameMoment:
    def test_the_one_with_the_greater_token_withdraws(self, storage, time):
        put(storage, mine(storage, settled=0))
        with pytest.raises(ConfigError, match="is in use"), lease(storage, time=time):
            pass
        assert names(storage) == [OTHER]

    def test_the_one_with_the_smaller_token_waits_for_that(self, storage, time):
        put(storage, mine(storage, settled=0), LAST)
        time.during_pause = (storage.root / LAST).unlink
        with lease(storage, time=time):
            assert read(storage)["settled"] == 1
        assert time.pauses == [LOOK_EVERY]

    def test_one_that_has_settled_meanwhile_goes_on(self, storage, time):
        other = mine(storage, settled=0)
        put(storage, other, LAST)
        time.during_pause = lambda: put(storage, {**other, "settled": 1}, LAST)
        with pytest.raises(ConfigError, match="is in use"), lease(storage, time=time):
            pass


class TestGrowth:
    def test_grid_that_grows_to_a_run_of_another_driver_ends(self, storage):
        with (
            lease(storage, "search", keys=NO_KEYS) as held,
            lease(storage, "paper", keys=RUN),
            pytest.raises(ConfigError, match="works on the training of digits-fedavg-s0"),
        ):
            held.replace_keys(RUN)


FAR_CLOCKS = {
    "an hour behind": {"since": "2001-01-01 00:00:00 UTC", "renewed": LONG_AGO},
    "an hour ahead": {"since": "2101-01-01 00:00:00 UTC", "renewed": "99999999999.000000"},
}


@pytest.mark.parametrize("clock", FAR_CLOCKS.values(), ids=FAR_CLOCKS)
class TestHolderOnAnotherMachine:
    def test_dead_holder_is_replaced_after_a_minute_without_a_change(self, storage, time, clock):
        put(storage, elsewhere(storage, **clock))
        told = []
        with Lease(storage, "mine", RUN, told.append, time.clock):
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
        assert names(storage) == [OTHER]


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
    put(storage, mine(storage, **how()))
    assert how is GONE["hangs for more than a minute"] or list_drivers(storage) == []
    with lease(storage, time=time):
        assert OTHER not in names(storage)
    assert time.pauses == []
    assert names(storage) == []


def test_local_process_that_was_silent_for_a_minute_at_most_keeps_its_lease(storage, time):
    put(storage, mine(storage, renewed=f"{1000 - EXPIRES_AFTER:020.6f}"))
    with pytest.raises(ConfigError, match="is in use"), lease(storage, time=time):
        pass


def test_damaged_lease_expires_after_a_minute(storage, time):
    put(storage, "")
    with lease(storage, time=time):
        assert read(storage)["pid"] == os.getpid()
    assert EXPIRES_AFTER < sum(time.pauses) <= EXPIRES_AFTER + LOOK_EVERY
    assert names(storage) == []


def test_driver_whose_file_names_no_keys_has_the_storage_alone(storage):
    put(storage, mine(storage, exclusive=None, what="newer"))
    with pytest.raises(ConfigError, match="grid newer .* may change any run"), lease(storage, keys=NO_KEYS):
        pass


@pytest.mark.parametrize("start", ["free", "expired"])
def test_exactly_one_of_many_drivers_of_one_run_goes_on(storage, start):
    old = mine(storage, renewed=LONG_AGO)
    if start != "free":
        put(storage, {**old, "token": "old"}, OTHER)
    drivers, together, tried = 8, Barrier(8), Barrier(8)
    clock = Clock(lambda: 1000.0, lambda seconds: os.sched_yield())

    def drive(number):
        together.wait()
        try:
            with Lease(storage, f"grid-{number}", RUN, clock=clock):
                tried.wait()
                return True
        except ConfigError:
            tried.wait()
            return False

    with ThreadPoolExecutor(drivers) as threads:
        assert sum(threads.map(drive, range(drivers))) == 1
    assert names(storage) == []


@pytest.mark.parametrize("name", ["push", "list_sizes"])
def test_lease_that_was_taken_before_an_error_is_given_back(storage, monkeypatch, name):
    """Else the same process, and for a minute every other machine, takes it for a living driver's."""
    real = getattr(Storage, name)

    def fails(self, *paths):
        if list(self.root.glob("drivers/*.json")):
            monkeypatch.setattr(Storage, name, real)
            raise RunError("the storage is away")
        return real(self, *paths)

    monkeypatch.setattr(Storage, name, fails)
    with pytest.raises(RunError, match="away"), lease(storage):
        pass
    assert names(storage) == []


def test_driver_that_is_gone_is_deleted_by_the_next_renewal_of_another(storage, time):
    with lease(storage, "one", time, NO_KEYS) as held:
        put(storage, elsewhere(Storage.from_text(storage.root.parent / "aside")))
        for _ in range(5):
            assert held.renew()
            time.seconds += 15
            there = OTHER in names(storage)
        assert there, "it was seen for a minute, not for more"
        held.renew()
        assert OTHER not in names(storage)
        assert not held.lost.is_set()


def test_renewal_writes_the_time_and_nothing_else(storage, time):
    with lease(storage, time=time) as held:
        before = read(storage)
        file = storage.root / f"drivers/{held.token}.json"
        size = file.stat().st_size
        time.seconds += 100_000
        held.renew()
        assert read(storage) == {**before, "renewed": f"{time.seconds:020.6f}"}
        assert file.stat().st_size == size
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


def test_driver_that_was_stopped_as_it_settled_looks_again(storage, time, monkeypatch):
    """Another one may have taken it for dead."""
    held = lease(storage, time=time)
    look = held._is_free

    def stopped():
        is_free = look()
        time.seconds += EXPIRES_AFTER
        (storage.root / f"drivers/{held.token}.json").unlink()
        put(storage, mine(Storage.from_text(storage.root.parent / "aside")))
        return is_free

    monkeypatch.setattr(held, "_is_free", stopped)
    with pytest.raises(ConfigError, match="is in use"), held:
        pass


class TestOtherMachineOfTheGrid:
    def test_machine_that_sees_the_drivers_lease_may_write(self, storage, time):
        with lease(storage) as held:
            check_driver(storage, held.token, time.clock)
        assert time.pauses == []

    def test_lease_that_shows_late_is_waited_for(self, storage, time):
        content = mine(storage)
        time.during_pause = lambda: time.seconds == 1000 + LATE and put(storage, content)
        check_driver(storage, "00000000000000aa", time.clock)

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
        with lease(storage, "theirs"), pytest.raises(RunError, match="taken over from driver"):
            check_driver(storage, "driver", time.clock)


class TestUri:
    @pytest.fixture
    def stored(self, bucket):
        return Storage(bucket)

    def test_lease_excludes_other_machines_from_its_runs_only(self, machine, stored):
        here, there = machine("here"), machine("there")
        with lease(here) as held:
            with pytest.raises(ConfigError, match="is in use: grid paper"), lease(there, "other"):
                pass
            with lease(there, "other", keys=NO_KEYS):
                assert held.renew()
            there.remove(f"drivers/{held.token}.json")
            held.renew()
            assert held.lost.is_set()
        assert names(stored) == []

    def test_of_two_drivers_that_start_together_one_goes_on(self, machine, stored, monkeypatch):
        """The second starts after the first has written, and before that has looked."""
        both = [lease(machine(name), name) for name in ("here", "there")]
        first, second = sorted(both, key=lambda held: held.token)
        is_free, refused = Lease._is_free, []

        def start_second(held):
            monkeypatch.setattr(Lease, "_is_free", is_free)
            try:
                second.__enter__()
            except ConfigError as error:
                refused.append(error)
            return is_free(held)

        monkeypatch.setattr(Lease, "_is_free", start_second)
        with first:
            first.renew()
            assert len(refused) == 1
            assert read(stored)["token"] == first.token
        assert names(stored) == []

    def test_pyarrow_sends_s3_no_condition_on_a_write(self):
        """The server would refuse the second write. Once this fails, a lease there can be exclusive."""
        with serving(Content()) as uri:
            remote, path = open_file_system(uri)
            for text in (b"first", b"second"):
                with remote.open_output_stream(f"{path}/x", metadata={"If-None-Match": "*"}) as file:
                    file.write(text)
            with remote.open_input_stream(f"{path}/x") as file:
                assert file.read() == b"second"

    def test_exiting_driver_leaves_the_lease_of_its_successor(self, machine, stored, time):
        """The first has not looked since the second took over."""
        here, there = machine("here"), machine("there")
        with lease(here, "first", time):
            time.seconds += EXPIRES_AFTER + 1
            second = lease(there, "second", time)
            second.__enter__()
        assert read(stored)["what"] == "second"
        second.__exit__(None, None, None)
        assert names(stored) == []

    def test_driver_stopped_during_a_renewal_does_not_push_over_its_successor(
        self, machine, stored, time, monkeypatch
    ):
        here = machine("here")
        with lease(here, "first", time) as held:

            def stopped(held):
                monkeypatch.undo()
                is_ours = HeldFile.renew(held)
                time.seconds += EXPIRES_AFTER + 1
                bucket_file = stored.root / f"drivers/{held.token}.json"
                bucket_file.unlink()
                put(stored, elsewhere(Storage.from_text(stored.root.parent / "aside"), what="second"))
                return is_ours

            monkeypatch.setattr(HeldFile, "renew", stopped)
            assert not held.renew()
            assert held.lost.is_set()
            assert read(stored)["what"] == "second"
