"""Clients get a run's data when they are first needed, and never if they are not."""

import pytest

from fedgrid.engine.runtime.clients.local_pool import LazyPool


class Noting:
    """A pool that records its calls; its first `failures` preparations fail."""

    machines = staticmethod(lambda: [{"device": "abacus"}])

    def __init__(self, failures=0):
        self.calls, self._failures = [], failures

    def prepare(self, setup):
        if self._failures:
            self._failures -= 1
            raise ZeroDivisionError
        self.calls.append(("prepare", setup))

    def train(self, tasks, models, memories):
        self.calls.append(("train", tasks, models, memories))
        return ["trained"]

    def evaluate(self, tasks, models, memories):
        self.calls.append(("evaluate", tasks, models, memories))
        return ["tested"]

    def describe(self, clients, message, encoder=None):
        self.calls.append(("describe", clients, message))
        return ["described"]


def test_prepare_alone_does_not_prepare_the_pool():
    pool = Noting()
    LazyPool(pool).prepare("one")
    assert pool.calls == []


def test_machines_are_the_pools():
    assert LazyPool(Noting()).machines() == [{"device": "abacus"}]


def test_training_prepares_first_and_once():
    pool = Noting()
    lazy = LazyPool(pool)
    lazy.prepare("one")
    assert lazy.train("tasks", "models", "memories") == ["trained"]
    lazy.train("others", "models", "memories")
    assert pool.calls == [
        ("prepare", "one"),
        ("train", "tasks", "models", "memories"),
        ("train", "others", "models", "memories"),
    ]


def test_testing_prepares_first():
    pool = Noting()
    lazy = LazyPool(pool)
    lazy.prepare("one")
    assert lazy.evaluate("tasks", "models", "memories") == ["tested"]
    assert pool.calls == [("prepare", "one"), ("evaluate", "tasks", "models", "memories")]


def test_describing_prepares_first():
    pool = Noting()
    lazy = LazyPool(pool)
    lazy.prepare("one")
    assert lazy.describe("clients", "message") == ["described"]
    assert pool.calls == [("prepare", "one"), ("describe", "clients", "message")]


def test_setups_of_runs_that_needed_no_client_are_never_prepared():
    pool = Noting()
    lazy = LazyPool(pool)
    for setup in ("one", "two", "three"):
        lazy.prepare(setup)
    lazy.evaluate("tasks", "models", "memories")
    assert [call for call in pool.calls if call[0] == "prepare"] == [("prepare", "three")]


def test_setup_of_the_next_run_replaces_the_last_one():
    pool = Noting()
    lazy = LazyPool(pool)
    for setup in ("one", "two"):
        lazy.prepare(setup)
        lazy.train("tasks", "models", "memories")
    assert [call[1] for call in pool.calls if call[0] == "prepare"] == ["one", "two"]


def test_failed_preparation_is_repeated_at_the_next_call():
    pool = Noting(failures=1)
    lazy = LazyPool(pool)
    lazy.prepare("one")
    with pytest.raises(ZeroDivisionError):
        lazy.train("tasks", "models", "memories")
    lazy.train("tasks", "models", "memories")
    assert [call[0] for call in pool.calls] == ["prepare", "train"]
