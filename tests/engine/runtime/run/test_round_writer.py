from threading import Event

import numpy as np
import pytest

from fedgrid.engine.runtime.run import round_writer
from fedgrid.engine.runtime.run.round_writer import RoundWriter
from tests.helpers.run_folders import make_progress


@pytest.fixture
def no_pause(monkeypatch):
    monkeypatch.setattr(round_writer, "PAUSE", 0.0)


def numbers(rounds):
    return [run_state.rounds_done for _, run_state in rounds]


def test_rounds_that_end_while_others_are_written_are_written_together(no_pause):
    began, go_on, saved = Event(), Event(), []

    def save(rounds):
        saved.append(numbers(rounds))
        began.set()
        go_on.wait()

    writer = RoundWriter(save)
    writer.add_round(None, make_progress(1))
    began.wait()
    for number in (2, 3, 4):
        writer.add_round(None, make_progress(number))
    go_on.set()
    writer.wait_for_writes()
    assert saved == [[1], [2, 3, 4]]
    assert writer.writing is None


def test_settling_does_not_wait_for_the_pause(monkeypatch):
    monkeypatch.setattr(round_writer, "PAUSE", 3600.0)
    saved = []
    writer = RoundWriter(lambda rounds: saved.append(numbers(rounds)))
    for number in (1, 2):
        writer.add_round(None, make_progress(number))
        writer.wait_for_writes()
    assert saved == [[1], [2]]


def test_rounds_of_large_models_do_not_wait_for_each_other(monkeypatch):
    monkeypatch.setattr(round_writer, "PAUSE", 3600.0)
    monkeypatch.setattr(round_writer, "SMALL_STATE_BYTES", np.zeros(4, np.float32).nbytes)
    saved = []
    writer = RoundWriter(lambda rounds: saved.append(numbers(rounds)))
    for number in (1, 2, 3):
        writer.add_round(None, make_progress(number))
    writer.wait_for_writes()
    assert saved == [[1], [2], [3]]


def test_after_a_write_that_failed_nothing_is_written(no_pause):
    began, go_on, saved = Event(), Event(), []

    def save(rounds):
        saved.append(numbers(rounds))
        began.set()
        go_on.wait()
        raise OSError("disk full")

    writer = RoundWriter(save)
    writer.add_round(None, make_progress(1))
    began.wait()
    writer.add_round(None, make_progress(2))
    go_on.set()
    with pytest.raises(OSError, match="disk full"):
        writer.wait_for_writes()
    assert saved == [[1]]
