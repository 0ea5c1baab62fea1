"""The process of a tracker, and its driver. That runs are logged so is seen in tests/e2e."""

import io
import json
import sys
from pathlib import Path
from threading import Event, Thread

import pytest

from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.following import process, trackers
from fedgrid.grids.following.follow import FollowedLaunch
from fedgrid.grids.following.session import LaunchEnd
from fedgrid.grids.following.trackers import Pauses, Trackers
from fedgrid.grids.trackers.tracker import TrackedGrid
from tests.helpers.logged_runs import build_config

CONFIG = build_config(0)
LAUNCH = FollowedLaunch("mine", TrackedGrid("grid", Storage(Path("/nowhere")), ["seed"], at_uri=True))


class Orders:
    """The lines of a driver, which lives until `ended`."""

    def __init__(self, *orders):
        self._lines = [f"{json.dumps(order)}\n" for order in orders]
        self.ended = Event()

    def __iter__(self):
        yield from self._lines
        self.ended.wait()


def test_process_follows_what_it_is_told_until_the_launch_has_ended(monkeypatch):
    followed = []

    class Follower:
        def __init__(self, launch, say, activate):
            followed.append(launch)
            self._say = say

        def follow_launch(self, wait):
            self._say("warning", "is away")
            followed.append(wait(60))

    monkeypatch.setattr(process, "Follower", Follower)
    end = {"status": "KILLED", "files": ["/a/table.txt"], "counts": {"grid/runs_done": 1}}
    orders = Orders({"launch": LAUNCH.as_json(), "plugins": [], "of_tracker": []}, end)
    answers = io.StringIO()
    process.main("mine", orders, answers)
    launch, ended = followed
    assert json.dumps(launch.as_json()) == json.dumps(LAUNCH.as_json())
    assert ended == LaunchEnd("KILLED", [Path("/a/table.txt")], {"grid/runs_done": 1})
    said = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert said == [["ready", ""], ["warning", "is away"], ["done", ""]]


def test_process_ends_with_its_driver(monkeypatch):
    """Its standard input ends then, whatever it is waiting for."""
    exits, orders = Event(), Orders()
    monkeypatch.setattr(process.os, "_exit", lambda code: exits.set())
    Thread(target=process.main, args=("mine", orders, io.StringIO()), daemon=True).start()
    orders.ended.set()
    assert exits.wait(60)


@pytest.fixture
def processes(monkeypatch, tmp_path):
    """Return a function that gives trackers whose processes say these messages; processes and warnings."""
    started, warnings = [], []
    monkeypatch.delitem(sys.modules, "mlflow", raising=False)

    def trackers_of(*messages, flush=60.0):
        class Process:
            def __init__(self, tracker):
                self.calls, self.killed = [], Event()
                started.append(self)

            def send_launch(self, launch, plugins, tracker_digests):
                self.calls.append("follow")

            def send_end(self, end):
                self.calls.append(end.status)

            def read_messages(self):
                for kind in messages[started.index(self)]:
                    if kind == "hang":
                        assert self.killed.wait(60)
                    else:
                        yield kind, f"{kind} of something"

            def kill(self):
                self.killed.set()

        monkeypatch.setattr(trackers, "TrackerProcess", Process)
        pauses = Pauses(retry=0, flush=flush, start=0)
        return Trackers(TrackedGrid("mine", Storage(tmp_path)), warnings.append, pauses=pauses)

    return trackers_of, started, warnings


def test_process_that_dies_is_replaced_and_told_the_same(processes):
    trackers_of, started, warnings = processes
    launch = trackers_of(["ready"], ["ready", "sign", "done"])
    with launch.start_processes(), launch.follow_runs([CONFIG]):
        launch._trackers[0]._thread.join(60)
    assert [process.calls[0] for process in started] == ["follow", "follow"]
    [died] = warnings
    assert died.startswith("MLflow: its process died")


def test_process_that_dies_at_the_end_leaves_a_warning(processes):
    trackers_of, started, warnings = processes
    launch = trackers_of(["ready", "hang"])
    with launch.start_processes(), launch.follow_runs([CONFIG]):
        launch._trackers[0]._has_started.wait(60)
        launch._trackers[0]._has_ended.set()
        started[0].killed.set()
    [lacking] = warnings
    assert lacking.startswith("the grid is not, or not completely, in MLflow; `fedgrid sync mine")


def test_tracker_that_gives_no_sign_is_not_waited_for(processes):
    trackers_of, started, warnings = processes
    launch = trackers_of(["ready", "hang"], flush=0.0)
    with launch.start_processes(), launch.follow_runs([CONFIG]):
        launch._trackers[0]._has_started.wait(60)
    assert started[0].killed.is_set()
    assert any("fedgrid sync mine" in warning for warning in warnings)


def test_slow_start_is_waited_for_and_named(processes):
    trackers_of, _, warnings = processes
    launch = trackers_of(["hang"], flush=0.0)
    with launch.start_processes(), launch.follow_runs([CONFIG]):
        pass
    assert warnings[0].startswith("MLflow is still starting")
    assert "at most 0 s more" in warnings[0]


def test_driver_that_has_imported_mlflow_follows_in_a_thread(tmp_path):
    import mlflow  # noqa: F401

    launch = Trackers(TrackedGrid("mine", Storage(tmp_path)), print)
    with launch.start_processes():
        assert launch._trackers[0]._process is None
