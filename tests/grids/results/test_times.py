"""What the rounds of a run took, from its record."""

import pytest

from fedgrid.grids.results.times import Times, computed_share, read_round_ends, read_times
from tests.helpers.run_records import write_timings


def row(seconds, peak, trained=None, uncached=None):
    return {
        "seconds": seconds,
        "peak_memory_mb": peak,
        "reached_clients": 4,
        "trained_clients": trained,
        "uncached_seconds": uncached,
    }


def test_times_are_sums_over_rounds(tmp_path):
    """The second was taken from the cache; in the third half of the clients were trained."""
    write_timings(tmp_path, [row(2.0, 300.0, 4, 2.0), row(0.5, 400.0, 0, 3.0), row(1.0, 350.0, 2, 1.5)])
    times = read_times(tmp_path)
    assert times == Times(3.5, uncached_seconds=6.5, rounds=3, rounds_computed=1.5, peak_memory_mb=400.0)
    assert times.has_hits


def test_run_of_an_earlier_version_that_was_resumed(tmp_path):
    """Null is what its first round did not record."""
    write_timings(tmp_path, [row(2.0, 300.0), row(0.5, 400.0, 0, 3.0)])
    times = read_times(tmp_path)
    assert (times.uncached_seconds, times.rounds_computed) == (5.0, 1)


def test_times_without_a_record_are_zero(tmp_path):
    """As of a run that failed at its start, or that was read from the archive."""
    assert read_times(tmp_path) == Times()
    assert not Times().has_hits


def test_no_round_ends_before_the_one_before_it_although_the_clock_was_set_back(tmp_path):
    """By an hour after the second of four rounds of half a second."""
    ended = (5_000_000, 5_000_500, 1_401_000, 1_401_500)
    write_timings(tmp_path, [row(0.5, 300.0) | {"round": n, "ended_ms": at} for n, at in enumerate(ended, 1)])
    assert read_round_ends(tmp_path, range(1, 5)) == {1: 5_000_000, 2: 5_000_500, 3: 5_001_001, 4: 5_001_502}


@pytest.mark.parametrize(
    ("timing", "share"),
    [
        ({}, 1),
        ({"reached_clients": None, "trained_clients": None}, 1),
        ({"reached_clients": 4, "trained_clients": 4}, 1),
        ({"reached_clients": 4, "trained_clients": 1}, 0.25),
        ({"reached_clients": 4, "trained_clients": 0}, 0),
        ({"reached_clients": 0, "trained_clients": 0}, 1),
    ],
)
def test_computed_share_is_that_of_trained_clients(timing, share):
    """A round without a reached client cannot be a cache hit."""
    assert computed_share(timing) == share
