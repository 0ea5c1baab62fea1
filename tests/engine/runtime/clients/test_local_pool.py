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


def test_the_first_work_of_clients_prepares_the_pool():
    pool = Noting()
    lazy = LazyPool(pool)
    lazy.prepare("one")
    assert pool.calls == []
    assert lazy.machines() == [{"device": "abacus"}]
    assert lazy.train("tasks", "models", "memories") == ["trained"]
    assert lazy.evaluate("tasks", "models", "memories") == ["tested"]
    assert lazy.describe("clients", "message") == ["described"]
    assert pool.calls == [
        ("prepare", "one"),
        ("train", "tasks", "models", "memories"),
        ("evaluate", "tasks", "models", "memories"),
        ("describe", "clients", "message"),
    ]


def test_each_run_that_needs_its_clients_prepares_them():
    """That of the first needs none."""
    pool = Noting()
    lazy = LazyPool(pool)
    lazy.prepare("one")
    lazy.prepare("two")
    lazy.evaluate("tasks", "models", "memories")
    lazy.prepare("three")
    lazy.describe("clients", "message")
    assert [call[1] for call in pool.calls if call[0] == "prepare"] == ["two", "three"]


def test_failed_preparation_is_repeated_at_the_next_call():
    pool = Noting(failures=1)
    lazy = LazyPool(pool)
    lazy.prepare("one")
    with pytest.raises(ZeroDivisionError):
        lazy.train("tasks", "models", "memories")
    lazy.train("tasks", "models", "memories")
    assert [call[0] for call in pool.calls] == ["prepare", "train"]
