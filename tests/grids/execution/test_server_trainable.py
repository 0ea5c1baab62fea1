"""The events of a trial: in their order, the error of a run last, and the run never waits for the reader."""

from concurrent.futures import Future
from threading import Event

import pytest

from fedgrid.engine.server import Server
from fedgrid.engine.session import Session
from fedgrid.grids.execution.run_events import RunFinished, RunStarted
from fedgrid.grids.execution.server_trainable import EventReader, ServerTrainable


def test_trainable_is_named_after_the_server_that_it_runs():
    """Ray shows the class of an actor by name, and benchmarks and tests find it by that name."""
    assert issubclass(Server, Session)
    assert ServerTrainable.__name__.startswith(Server.__name__)


def test_events_arrive_in_order_and_none_is_lost():
    events = [*(RunStarted(number) for number in range(50)), RunFinished({})]
    reader = EventReader(iter(events))
    read = []
    while RunFinished({}) not in read:
        found = reader.read()
        assert found
        read += found
    assert read == events


def test_run_goes_on_while_nothing_is_read():
    done = Event()

    def run():
        yield RunStarted(0)
        yield RunFinished({})
        done.set()

    reader = EventReader(run())
    assert done.wait(10)
    assert reader.read() == [RunStarted(0), RunFinished({})]


def test_error_is_raised_after_the_events_before_it():
    def run():
        yield RunStarted(3)
        raise ZeroDivisionError("in the thread")

    reader = EventReader(run())
    assert reader.read() == [RunStarted(3)]
    with pytest.raises(ZeroDivisionError, match="in the thread"):
        reader.read()


def test_round_is_reported_once_it_is_on_disk():
    """A write that fails ends the run; its round is never reported."""
    writes = [None, Future(), Future()]

    def run():
        yield from (RunStarted(number) for number in range(3))
        raise ZeroDivisionError("of the last write")

    reader = EventReader(run(), iter(writes).__next__)
    assert reader.read() == [RunStarted(0)]
    writes[1].set_result(None)
    writes[2].set_exception(OSError("disk full"))
    assert reader.read() == [RunStarted(1)]
    with pytest.raises(ZeroDivisionError, match="of the last write"):
        reader.read()
