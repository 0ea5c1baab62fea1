"""The events of a trial: in their order, the error of a run last, and the run never waits for the reader."""

from concurrent.futures import Future
from threading import Event
from types import SimpleNamespace

import pytest

from fedgrid.engine.federation.errors import RunError
from fedgrid.grids.execution import server_trainable
from fedgrid.grids.execution.run_events import RunFinished, RunStarted
from fedgrid.grids.execution.server_trainable import EventReader, ServerTrainable
from tests.helpers.time import FakeTime


def test_events_arrive_in_order_and_none_is_lost():
    events = [*(RunStarted(number) for number in range(50)), RunFinished()]
    reader = EventReader(iter(events))
    read = []
    while RunFinished() not in read:
        found = reader.read_events()
        assert found
        read += found
    assert read == events


def test_run_goes_on_while_nothing_is_read():
    done = Event()

    def run():
        yield RunStarted(0)
        yield RunFinished()
        done.set()

    reader = EventReader(run())
    assert done.wait(10)
    assert reader.read_events() == [RunStarted(0), RunFinished()]


def test_news_of_a_run_that_goes_on_are_gathered(monkeypatch):
    waits, going_on, both = [], Event(), Event()

    class Ended:
        def wait(self, seconds):
            waits.append(seconds)
            going_on.set()
            assert both.wait(10)

    def run():
        yield RunStarted(0)
        assert going_on.wait(10)
        yield RunStarted(1)
        both.set()
        Event().wait()

    monkeypatch.setattr(server_trainable, "Event", Ended)
    assert EventReader(run(), gather_seconds=0.5).read_events() == [RunStarted(0), RunStarted(1)]
    assert waits == [0.5]


def test_end_of_a_run_is_reported_at_once():
    assert EventReader(iter([RunFinished()]), gather_seconds=3600.0).read_events() == [RunFinished()]


def test_error_is_raised_after_the_events_before_it():
    def run():
        yield RunStarted(3)
        raise ZeroDivisionError("in the thread")

    reader = EventReader(run())
    assert reader.read_events() == [RunStarted(3)]
    with pytest.raises(ZeroDivisionError, match="in the thread"):
        reader.read_events()


def test_round_is_reported_once_it_is_on_disk():
    """A write that fails ends the run; its round is never reported."""
    writes = [None, Future(), Future()]

    def run():
        yield from (RunStarted(number) for number in range(3))
        raise ZeroDivisionError("of the last write")

    reader = EventReader(run(), iter(writes).__next__)
    assert reader.read_events() == [RunStarted(0)]
    writes[1].set_result(None)
    writes[2].set_exception(OSError("disk full"))
    assert reader.read_events() == [RunStarted(1)]
    with pytest.raises(ZeroDivisionError, match="of the last write"):
        reader.read_events()


def test_server_pauses_before_it_continues_a_run_that_has_failed(monkeypatch):
    """Half to all of 1, 2, 4 ... seconds: without it, a storage that is away ends 280 runs in a moment."""

    def away(storage, token):
        raise RunError("the storage is away")

    time = FakeTime()
    monkeypatch.setattr(server_trainable, "CLOCK", time.clock)
    monkeypatch.setattr(server_trainable, "check_driver", away)
    server = object.__new__(ServerTrainable)
    server._context, server._events = SimpleNamespace(storage=None, token="", images={}), None
    for server._failures in (0, 1, 3):
        with pytest.raises(RunError, match="the storage is away"):
            server.step()
    first, third = time.pauses
    assert 0.5 <= first <= 1
    assert 2 <= third <= 4
