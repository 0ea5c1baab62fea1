"""An actor that never answers is replaced like one that died; a slow one is not."""

from types import SimpleNamespace

import pytest
from ray.exceptions import GetTimeoutError

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.clients import ray_pool
from fedgrid.engine.runtime.clients.placement import Placement
from fedgrid.engine.runtime.clients.ray_pool import RayPool
from fedgrid.engine.runtime.storage.clock import (
    FIRST_ANSWER_SECONDS,
    LEAST_ANSWER_SECONDS,
    MAX_DEATHS,
    Deadlines,
)
from tests.helpers.time import FakeTime


def test_first_task_has_hours_and_later_ones_twenty_times_the_slowest():
    deadlines = Deadlines(FakeTime().clock.now)
    assert deadlines.find_deadline("train") == FIRST_ANSWER_SECONDS == 6 * 3600
    for seconds, limit in ((1, LEAST_ANSWER_SECONDS), (90, 1800), (600, 12_000), (60, 12_000)):
        deadlines.record_duration("train", seconds)
        assert deadlines.find_deadline("train") == limit
    assert deadlines.find_deadline("evaluate") == FIRST_ANSWER_SECONDS


@pytest.fixture
def pool(monkeypatch):
    """Return a pool of two actors without Ray: a task is the name of its actor and the seconds it takes."""
    time, made = FakeTime(), []

    def start(self, index):
        made.append(index)
        return f"actor {index}.{made.count(index)}"

    def get(refs, timeout):
        _, takes = refs[0]
        time.seconds += min(takes, timeout)
        if takes > timeout:
            raise GetTimeoutError
        return list(refs)

    stub = SimpleNamespace(get=get, kill=lambda actor: killed.append(actor))
    killed = []
    monkeypatch.setattr(ray_pool, "ray", stub)
    monkeypatch.setattr(RayPool, "_start_actor", start)
    monkeypatch.setattr(RayPool, "_prepare_actor", lambda self, index: [("prepare", 0)])
    monkeypatch.setattr(RayPool, "_check_machine", lambda self, index, hosted, when: None)
    pool = RayPool(None, Placement(2, 1.0, 0.0))
    pool._deadlines = Deadlines(time.clock.now)
    pool._home = {0: 0, 1: 1, 2: 1}
    pool.killed = killed
    return pool


def test_actor_that_hangs_is_replaced_and_asked_again(pool):
    seconds = {"actor 0.1": 5, "actor 1.1": float("inf"), "actor 1.2": 7}
    found = pool._call_actors(
        range(2), lambda index: [(pool._actors[index], seconds[pool._actors[index]])], "train", "r"
    )
    assert found == {0: [("actor 0.1", 5)], 1: [("actor 1.2", 7)]}
    assert pool.killed == ["actor 1.1"]


def test_slow_actor_is_waited_for(pool):
    found = pool._call_actors(
        range(2), lambda index: [(pool._actors[index], FIRST_ANSWER_SECONDS / 2)], "train", "round 1"
    )
    assert sorted(found) == [0, 1]
    assert pool.killed == []


def test_actor_that_always_hangs_ends_the_run_with_its_clients_and_the_deadline(pool):
    pool._deadlines.record_duration("train", 1.0)
    with pytest.raises(RunError) as error:
        pool._call_actors([1], lambda index: [(pool._actors[index], float("inf"))], "train", "round 4")
    assert len(pool.killed) == MAX_DEATHS - 1 == 2
    for part in (
        "clients 1, 2, round 4",
        f"{MAX_DEATHS} times",
        f"no answer within {LEAST_ANSWER_SECONDS:.0f} s",
    ):
        assert part in str(error.value)
