"""The times of a round."""

from fedgrid.engine.federation.clients import stopwatch
from fedgrid.engine.federation.clients.stopwatch import Stopwatch


def test_blocks_of_a_step_add_up_without_the_training_in_them(monkeypatch):
    """From 1 to 3 s, of which one is training; then from 4 to 4.5 s: 1.5 s in all."""
    times = iter([0.0, 1.0, 1.0, 2.0, 3.0, 4.0, 4.5])
    monkeypatch.setattr(stopwatch, "perf_counter", lambda: next(times))
    watch = Stopwatch()
    with watch.time_step("evaluate_seconds"), watch.time_training():
        pass
    with watch.time_step("evaluate_seconds"):
        pass
    assert watch.steps == {"evaluate_seconds": 1.5}
    assert watch.training == 1.0
