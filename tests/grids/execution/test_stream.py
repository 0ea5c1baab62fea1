"""A trial's news: read in their order, the error of a run last, the run never waiting for whoever reads."""

from threading import Event

import pytest

from fedgrid.grids.execution.run_events import Finished, Started
from fedgrid.grids.execution.trial import Stream


def test_news_come_in_their_order_and_none_is_lost():
    told = [*(Started(number) for number in range(50)), Finished()]
    stream = Stream(iter(told))
    read = []
    while Finished() not in read:
        found = stream.read()
        assert found
        read += found
    assert read == told


def test_the_run_goes_on_while_nobody_reads():
    done = Event()

    def run():
        yield Started(0)
        yield Finished()
        done.set()

    stream = Stream(run())
    assert done.wait(10)
    assert stream.read() == [Started(0), Finished()]


def test_an_error_comes_after_the_news_before_it():
    def run():
        yield Started(3)
        raise ZeroDivisionError("in the thread")

    stream = Stream(run())
    assert stream.read() == [Started(3)]
    with pytest.raises(ZeroDivisionError, match="in the thread"):
        stream.read()
