"""Speeds of a processor are kept: the fastest counts, of this processor and workload only."""

from dataclasses import replace

import pytest

from fedgrid.grids.planning import calibrate
from fedgrid.grids.planning.calibrate import Speed, Workload, fastest

DIGITNET = Workload("digitnet", (1, 8, 8), batch_size=32, optimizer="sgd")
QUIET, BUSY = Speed(turn=2.0, train=1.0, test=0.5), Speed(turn=1.0, train=3.0, test=0.4)


@pytest.fixture
def timed(tmp_path, monkeypatch):
    """Return a function that gives the speed of a workload that is timed as given."""
    monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / "cache"))

    def run(now, workload=DIGITNET, processor="one"):
        monkeypatch.setattr(calibrate, "calibrate", lambda loads, device: dict.fromkeys(loads, now))
        monkeypatch.setattr(calibrate, "named", lambda device: processor)
        return fastest([workload], "cpu")[workload]

    return run


def test_fastest_training_and_test_count_whichever_came_first(timed):
    """The turn belongs to the line of its training."""
    assert timed(BUSY) == BUSY
    assert timed(QUIET) == Speed(turn=2.0, train=1.0, test=0.4)
    assert timed(BUSY) == Speed(turn=2.0, train=1.0, test=0.4)


def test_another_processor_or_workload_has_speeds_of_its_own(timed):
    timed(QUIET)
    assert timed(BUSY, processor="two") == BUSY
    assert timed(BUSY, workload=replace(DIGITNET, batch_size=8)) == BUSY


def test_damaged_file_is_written_anew(timed, tmp_path):
    timed(QUIET)
    [file] = (tmp_path / "cache" / calibrate.FOLDER).iterdir()
    file.write_text("{}")
    assert timed(BUSY) == BUSY
    assert timed(Speed(turn=9.0, train=9.0, test=9.0)) == BUSY


def test_cache_that_cannot_be_written_keeps_nothing(timed, tmp_path):
    (tmp_path / "cache").write_text("a file")
    assert (timed(QUIET), timed(BUSY)) == (QUIET, BUSY)
