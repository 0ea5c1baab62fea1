"""One driver at a time: taking, renewing and losing the lease on a storage."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest

from fedgrid.engine.errors import ConfigError
from fedgrid.engine.storage.lease import Holder, Lease
from fedgrid.engine.storage.storage import Storage

HOUR = timedelta(hours=1)


@pytest.fixture
def storage(tmp_path):
    return Storage.of(tmp_path / "runs")


def lease(storage, what="paper"):
    return Lease(storage, what)


def read(storage):
    return Holder(**json.loads((storage.root / "lease.json").read_text()))


def names(storage):
    return sorted(path.name for path in storage.root.iterdir())


def time(offset=timedelta()):
    return (datetime.now(UTC) + offset).isoformat(timespec="seconds")


def holder(storage, **changes):
    """Return the holder that this process would be."""
    with lease(storage):
        return replace(read(storage), **changes)


def put(storage, lying, name="lease.json"):
    storage.root.mkdir(exist_ok=True)
    (storage.root / name).write_text(json.dumps(asdict(lying)))


def elsewhere(storage, **changes):
    """Return a holder on another machine, whose lease lasts for an hour."""
    return holder(storage, token="other", host="far", machine="boot", expires=time(HOUR), **changes)


def ended_process():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def test_lease_names_holder_and_expiry(storage):
    before = datetime.now(UTC).replace(microsecond=0)
    with lease(storage, "paper"):
        kept = read(storage)
        assert names(storage) == ["lease.json"]
    assert (kept.pid, kept.what) == (os.getpid(), "paper")
    since, expires = datetime.fromisoformat(kept.since), datetime.fromisoformat(kept.expires)
    assert before <= since <= datetime.now(UTC)
    assert expires - since == timedelta(seconds=60)


def test_released_lease_leaves_no_file(storage):
    with lease(storage):
        pass
    with pytest.raises(ZeroDivisionError), lease(storage):
        _ = 1 / 0
    assert names(storage) == []


def test_second_driver_is_refused_with_name_of_the_first(storage):
    with lease(storage, "paper"):
        kept = read(storage)
        with pytest.raises(ConfigError) as error, lease(storage, "other"):
            pass
        assert read(storage) == kept
        assert names(storage) == ["lease.json"]

    def shown(text):
        return text.replace("T", " ").replace("+00:00", " UTC")

    message = str(error.value)
    assert message.startswith(f"{storage.root} is in use: ")
    for part in ("grid paper", f"process {os.getpid()} on {kept.host}", "`fedgrid stop paper`"):
        assert part in message
    assert shown(kept.since) in message
    assert shown(kept.expires) in message


def test_lease_of_another_machine_holds_until_it_expires(storage):
    other = elsewhere(storage)
    put(storage, other)
    with pytest.raises(ConfigError, match="on far"), lease(storage):
        pass
    put(storage, replace(other, expires=time(-HOUR)))
    with lease(storage):
        assert read(storage).pid == os.getpid()
    assert names(storage) == []


GONE = {
    "ended": lambda: {"pid": ended_process()},
    "another process has its number": lambda: {"started": "1"},
}


@pytest.mark.parametrize("how", GONE.values(), ids=GONE)
def test_lease_of_an_ended_local_process_is_taken_over_at_once(storage, how):
    put(storage, holder(storage, token="other", expires=time(HOUR), **how()))
    with lease(storage):
        assert read(storage).token != "other"
    assert names(storage) == []


def test_process_number_of_another_machine_is_ignored(storage):
    put(storage, elsewhere(storage, pid=ended_process()))
    with pytest.raises(ConfigError, match="is in use"), lease(storage):
        pass


def test_lease_of_a_zombie_is_taken_over(storage):
    """A zombie has its number still."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        with open(f"/proc/{process.pid}/stat") as file:
            started = file.read().rpartition(")")[2].split()[19]
        put(storage, holder(storage, token="other", pid=process.pid, started=started, expires=time(HOUR)))
        with pytest.raises(ConfigError, match="is in use"), lease(storage):
            pass
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with lease(storage):
            pass


@pytest.mark.parametrize("start", ["free", "expired", "claimed by one that died"])
def test_exactly_one_of_many_drivers_takes_the_lease(storage, start):
    old = elsewhere(storage)
    if start != "free":
        put(storage, replace(old, token="old", expires=time(-HOUR)))
    if start == "claimed by one that died":
        put(storage, replace(old, token="claim", expires=time(-HOUR)), "lease.json.after-old")
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
    other = elsewhere(storage)
    put(storage, replace(other, token="old", expires=time(-HOUR)))
    put(storage, replace(other, token="claim", what="theirs"), "lease.json.after-old")
    with pytest.raises(ConfigError, match="grid theirs"), lease(storage):
        pass
    assert names(storage) == ["lease.json", "lease.json.after-old"]


def test_renewal_extends_the_lease(storage):
    with lease(storage) as held:
        soon = replace(read(storage), expires=time(timedelta(seconds=5)))
        (storage.root / "lease.json").write_text(json.dumps(asdict(soon)) + "\n")
        held.renew()
        kept = read(storage)
        assert replace(kept, expires=soon.expires) == soon
        assert datetime.fromisoformat(kept.expires) > datetime.fromisoformat(soon.expires)
        assert not held.lost.is_set()


def test_driver_that_lost_its_lease_leaves_the_new_one_alone(storage):
    """As after a laptop has slept for an hour."""
    with lease(storage) as held:
        put(storage, replace(read(storage), expires=time(-HOUR)))
        with lease(storage, "follower"):
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


def test_damaged_lease_is_an_error_that_names_the_file(storage):
    storage.root.mkdir()
    (storage.root / "lease.json").write_text("{")
    with pytest.raises(ConfigError, match=r"lease.json is damaged; delete it if no other fedgrid uses"):
        lease(storage).__enter__()


def test_lease_at_a_uri_excludes_other_machines(tmp_path, monkeypatch):
    def machine(name):
        monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / name))
        return Storage.of(f"local://{tmp_path / 'bucket'}")

    here, there = machine("here"), machine("there")
    with lease(here) as held:
        with pytest.raises(ConfigError, match="is in use: grid paper"), lease(there, "other"):
            pass
        put(there, elsewhere(Storage.of(tmp_path / "aside")))
        there.push("lease.json")
        held.renew()
        assert held.lost.is_set()
    assert names(Storage(tmp_path / "bucket")) == ["lease.json"], "theirs"
    there.remove("lease.json")
    with lease(here):
        assert names(Storage(tmp_path / "bucket")) == ["lease.json"]
    assert names(Storage(tmp_path / "bucket")) == []
