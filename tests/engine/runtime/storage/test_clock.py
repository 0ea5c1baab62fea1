"""Calls that are tried again: pauses grow, are random, and end."""

import pytest

from fedgrid.engine.runtime.storage import clock
from fedgrid.engine.runtime.storage.clock import Patience, draw_backoff
from tests.helpers.time import FakeTime


class Failing:
    """A call that raises `errors`, one a call, then returns 7."""

    def __init__(self, *errors):
        self.errors = list(errors)

    def __call__(self):
        if self.errors:
            raise self.errors.pop(0)
        return 7


def test_pause_is_half_to_all_of_1_2_4_up_to_60_seconds():
    for attempt, longest in ((1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (1000, 60)):
        drawn = {draw_backoff(attempt) for _ in range(50)}
        assert longest / 2 <= min(drawn) < max(drawn) <= longest


@pytest.fixture
def whole_pauses(monkeypatch):
    """Let a pause be one call, and not one for each second."""
    monkeypatch.setattr(clock, "HEED_SECONDS", 60.0)


def test_failed_call_is_repeated_until_it_succeeds(whole_pauses):
    time, warnings = FakeTime(), []
    call = Failing(OSError("first"), OSError("second"))
    assert Patience(60, warnings.append, time.clock).retry_call(call, (OSError,)) == 7
    assert warnings == ["first; trying again for 60 s"]
    assert len(time.pauses) == 2
    assert 0.5 <= time.pauses[0] <= 1 <= time.pauses[1] <= 2


def test_last_error_is_raised_after_the_stated_time(whole_pauses):
    time = FakeTime()
    call = Failing(*(OSError(str(number)) for number in range(100)))
    with pytest.raises(OSError, match=r"^\d+$"):
        Patience(60, clock=time.clock).retry_call(call, (OSError,))
    assert time.seconds == 1060, "the last attempt is at the deadline, whatever pauses were drawn"
    assert 6 <= len(time.pauses) <= 8, "1, 2, 4, 8 and 16 s and a part of 32 s, or half of each"


def test_an_interruption_is_heeded_within_five_seconds():
    """In the longest pause, of 60 s; the error is its cause."""
    time = FakeTime()
    stopped = []
    call = Failing(*(OSError(str(number)) for number in range(100)))
    time.during_pause = lambda: time.seconds > 1200 and stopped.append(time.seconds)
    with pytest.raises(KeyboardInterrupt) as interrupted:
        Patience(600, clock=time.clock, is_stopped=lambda: bool(stopped)).retry_call(call, (OSError,))
    assert time.seconds - 1200 <= 5
    assert isinstance(interrupted.value.__cause__, OSError)


def test_a_call_that_succeeds_after_an_interruption_returns():
    assert Patience(60, is_stopped=lambda: True).retry_call(Failing(), (OSError,)) == 7


def test_no_patience_tries_once():
    time = FakeTime()
    with pytest.raises(OSError, match="once"):
        Patience(clock=time.clock).retry_call(Failing(OSError("once")), (OSError,))
    assert time.pauses == []


def test_other_errors_are_raised_at_once():
    time = FakeTime()
    with pytest.raises(KeyError):
        Patience(60, clock=time.clock).retry_call(Failing(KeyError("bug")), (OSError,))
    assert time.pauses == []
