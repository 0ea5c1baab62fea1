"""Runs that need the same rounds at the same time: one does a round, the others wait, none for ever."""

from multiprocessing import get_context
from threading import Event, Thread
from time import perf_counter
from time import sleep as pause
from types import SimpleNamespace

import pytest

from fedgrid.engine.federation.clients import stopwatch
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.round_cache import cached_round
from tests.helpers.small_runs import (
    CLIENTS,
    ROUNDS,
    config,
    count_trained,
    files,
    find_differing,
    locks,
    play,
    rows,
)

HOUR = 3600.0
PATIENCE = 60
"""Seconds after which something that should have ended is taken to hang."""


@pytest.fixture
def waits(monkeypatch):
    """Is set once a run of this process has looked for another's round in vain."""
    event = Event()

    def sleep(seconds):
        event.set()
        pause(0.001)

    monkeypatch.setattr(cached_round, "time", SimpleNamespace(sleep=sleep))
    return event


def at_once(*functions):
    """Call functions, each in a thread; return what each one has returned or raised."""
    results = [None] * len(functions)

    def call(place, function):
        try:
            results[place] = function()
        except Exception as error:
            results[place] = error

    threads = [Thread(target=call, args=each, daemon=True) for each in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "hangs"
    return results


class Awaited(InProcessPool):
    """Trains no sooner than another run waits for it."""

    def __init__(self, waits):
        super().__init__()
        self._waits = waits

    def train(self, tasks, models, memories):
        assert self._waits.wait(PATIENCE)
        return super().train(tasks, models, memories)


class Doomed(Awaited):
    """Sets `begun`, and fails once another run waits."""

    def __init__(self, waits, begun):
        super().__init__(waits)
        self._begun = begun

    def train(self, tasks, models, memories):
        self._begun.set()
        assert self._waits.wait(PATIENCE)
        raise ZeroDivisionError


class TestInThreads:
    def test_no_round_is_trained_twice(self, tmp_path, waits):
        """Three runs whose first rounds, which are all there are, are the same."""
        runs = [config(algorithm) for algorithm in ("fedavg", "sattler", "briggs")]
        at_once(*(lambda run=run: play(run, tmp_path, Awaited(waits)) for run in runs))
        for run in runs:
            assert find_differing(run, tmp_path) == []
        by_round = list(zip(*(count_trained(run, tmp_path) for run in runs), strict=True))
        assert [sorted(numbers) for numbers in by_round] == [[0, 0, CLIENTS]] * ROUNDS
        assert locks(tmp_path) == []

    def test_waiting_is_recorded_apart_from_the_work(self, tmp_path, monkeypatch):
        """By a clock on which each look at the other's claim takes an hour."""
        waits, hours = Event(), []

        def sleep(seconds):
            hours.append(HOUR)
            waits.set()
            pause(0.001)

        monkeypatch.setattr(cached_round, "time", SimpleNamespace(sleep=sleep))
        monkeypatch.setattr(stopwatch, "perf_counter", lambda: perf_counter() + sum(hours))
        runs = [config(algorithm, training={"rounds": 1}) for algorithm in ("fedavg", "sattler")]
        at_once(*(lambda run=run: play(run, tmp_path, Awaited(waits)) for run in runs))
        (did, waited) = sorted(
            (rows(run, tmp_path)[0] for run in runs), key=lambda row: -row["trained_clients"]
        )
        assert did["waited_seconds"] == 0
        assert waited["waited_seconds"] >= HOUR
        for name in ("seconds", "cluster_seconds", "evaluate_seconds", "train_seconds"):
            assert 0 <= waited[name] < HOUR
        assert waited["computed_by"] == did["computed_by"]
        assert [run.run_id for run in runs if count_trained(run, tmp_path) == [CLIENTS]] == [
            did["computed_by"]
        ]

    def test_failed_round_is_trained_by_the_waiting_run(self, tmp_path, waits):
        """And what failed goes on from there."""
        runs = [config("fedavg"), config("sattler")]
        begun = Event()

        def second():
            assert begun.wait(PATIENCE)
            return play(runs[1], tmp_path)

        error, _ = at_once(lambda: play(runs[0], tmp_path, Doomed(waits, begun)), second)
        assert isinstance(error, ZeroDivisionError)
        assert count_trained(runs[1], tmp_path) == [CLIENTS] * ROUNDS
        play(runs[0], tmp_path)
        assert count_trained(runs[0], tmp_path) == [0] * ROUNDS
        for run in runs:
            assert find_differing(run, tmp_path) == []


class Stuck(InProcessPool):
    """Gets stuck in the midst of training in round 2, and says so."""

    def __init__(self, connection):
        super().__init__()
        self._connection = connection

    def train(self, tasks, models, memories):
        results = super().train(tasks, models, memories)
        if tasks[0].round_index == 1:
            self._connection.send("stuck")
            self._connection.recv()
        return results


def play_until_stuck(run, root, connection):
    play(run, root, Stuck(connection))


def test_waiting_run_goes_on_after_the_process_that_trains_is_killed(tmp_path, waits):
    """The kill comes when the other one has looked in vain; the dead one's round 1 is taken."""
    killed, run = config(), config("sattler")
    spawn = get_context("spawn")
    connection, theirs = spawn.Pipe()
    process = spawn.Process(target=play_until_stuck, args=(killed, tmp_path, theirs), daemon=True)
    process.start()
    assert connection.poll(PATIENCE), "hangs"
    assert connection.recv() == "stuck"
    (lock,) = locks(tmp_path)
    assert lock.name.startswith("000002-")
    assert files(tmp_path, "000002-*") == []

    def kill():
        assert waits.wait(PATIENCE)
        process.kill()
        process.join(PATIENCE)

    assert at_once(lambda: play(run, tmp_path), kill)[1] is None
    assert find_differing(run, tmp_path) == []
    assert count_trained(run, tmp_path) == [0, CLIENTS, CLIENTS]
    assert rows(run, tmp_path)[1]["waited_seconds"] > 0
    assert locks(tmp_path) == []
    play(killed, tmp_path)
    assert find_differing(killed, tmp_path) == []
    assert count_trained(killed, tmp_path) == [CLIENTS, 0, 0]
