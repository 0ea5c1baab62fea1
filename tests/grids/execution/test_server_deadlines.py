"""A server that gives no sign counts as hung after a stated time, which the slowest round sets."""

import pytest

from fedgrid.engine.runtime.storage import clock as of_clients
from fedgrid.grids.execution import server_deadlines
from fedgrid.grids.execution.server_deadlines import MOST_SECONDS_BETWEEN_CHECKS, ServerDeadlines
from tests.helpers.time import FakeTime

DAY, TWO_HOURS = 86_400, 7_200


class Launch:
    """Deadlines at which the driver looks every ten seconds."""

    def __init__(self):
        self.time = FakeTime()

    def silence(self, seconds):
        """Return the servers that count as hung within this many seconds in which none gives a sign."""
        found = []
        for _ in range(seconds // 10):
            self.time.seconds += 10
            found += self.servers.pop_overdue()
        return found


@pytest.fixture
def launch(monkeypatch):
    launch = Launch()
    monkeypatch.setattr(server_deadlines, "monotonic", launch.time.clock.now)
    launch.servers = ServerDeadlines()
    return launch


def test_server_has_a_day_for_the_first_round_from_its_last_sign_and_is_named_once(launch):
    launch.servers.start_wait("a")
    assert launch.silence(DAY) == []
    launch.servers.record_sign("a", finished_round=False)
    assert launch.silence(DAY) == []
    assert launch.silence(DAY) == [("a", DAY)]


def test_server_has_two_hours_after_a_quick_round(launch):
    launch.servers.start_wait("a")
    launch.silence(60)
    launch.servers.record_sign("a", finished_round=True)
    assert launch.silence(TWO_HOURS) == []
    assert launch.silence(10) == [("a", TWO_HOURS)]


def test_slowest_round_of_any_run_sets_the_deadline_of_all(launch):
    """80 times 600 seconds."""
    for trial in ("slow", "quick"):
        launch.servers.start_wait(trial)
    launch.silence(10)
    launch.servers.record_sign("quick", finished_round=True)
    launch.silence(590)
    launch.servers.record_sign("slow", finished_round=True)
    launch.servers.record_sign("quick", finished_round=False)
    assert launch.silence(48_000) == []
    assert sorted(launch.silence(10)) == [("quick", 48_000), ("slow", 48_000)]


def test_finished_run_is_not_waited_for(launch):
    launch.servers.start_wait("a")
    launch.servers.end_wait("a")
    assert launch.silence(2 * DAY) == []


def test_time_in_which_the_driver_was_busy_counts_at_most_a_minute(launch):
    """The server may have given signs meanwhile that the driver has not read yet."""
    launch.servers.start_wait("a")
    launch.time.seconds += 10 * DAY
    assert launch.servers.pop_overdue() == []
    assert launch.silence(DAY - int(MOST_SECONDS_BETWEEN_CHECKS)) == []
    assert launch.silence(10) == [("a", DAY)]


def test_server_waits_out_every_deadline_of_a_client_that_always_hangs(launch):
    """Three deaths end the run with the client's number; the driver must not end it before."""
    launch.servers.start_wait("a")
    assert launch.silence(3 * int(of_clients.FIRST_ANSWER_SECONDS)) == []
