"""Many runs at once: trackers get what lies in their folders, and are never in the way of the training."""

import os
import signal
import socket
import urllib.error
import urllib.request
from contextlib import contextmanager
from io import StringIO
from threading import Event

import pytest
from mlflow.entities import ViewType
from mlflow.tracking import MlflowClient
from rich.console import Console

from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.cli.actions import ui as ui_action
from fedgrid.grids.cli.actions.ui import serve_ui
from fedgrid.grids.following.follow import FollowedLaunch, Follower
from fedgrid.grids.following.session import LaunchEnd
from fedgrid.grids.following.trackers import Pauses, Trackers
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow import ui
from fedgrid.grids.trackers.mlflow.store import default_uri
from fedgrid.grids.trackers.names import format_run_name
from fedgrid.grids.trackers.tracker import TrackedGrid
from tests.helpers.command_line import new_storage
from tests.helpers.logged_runs import ROUNDS, Store, build_config, write_run

pytestmark = pytest.mark.usefixtures("in_mlflow", "own_store")

NOWHERE = "http://127.0.0.1:9"
"""The discard port: nothing listens there."""
A, B = build_config(0), build_config(1)
PROMPT = Pauses(poll=0.01, poll_at_uri=0.01, retry=0.01, flush=60)


@contextmanager
def launch(storage, warn=print, forgotten=(), pauses=PROMPT, **grid):
    """A launch of A and B, whose trackers follow within the block."""
    place = storage if isinstance(storage, Storage) else Storage(storage)
    GridFolder(place, "mine").keep([A, B], "dataset: digits\n")
    trackers = Trackers(TrackedGrid("mine", place, text="dataset: digits\n", **grid), warn, pauses=pauses)
    with trackers.follow_runs([A, B], forgotten):
        yield trackers


def fail(storage, config):
    folder = build_folder_path(storage, config)
    folder.mkdir(exist_ok=True)
    (folder / "failed.json").write_text('{"cause": "client 3", "attempts": 3}\n')


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def follower(storage, warnings):
    """Follows the grid in this thread, a look at a time."""
    GridFolder(Storage(storage), "mine").keep([A, B], "dataset: digits\n")
    return Follower(
        FollowedLaunch("mlflow", TrackedGrid("mine", Storage(storage))),
        lambda kind, text: warnings.append(text) if kind == "warning" else None,
    )


@pytest.fixture
def outage(monkeypatch):
    """A store that does not answer while `away` is set, and says so with `asked`."""

    class Outage:
        away = Event()
        asked = Event()

    def failing(plain):
        def call(*given, **more):
            if Outage.away.is_set():
                Outage.asked.set()
                raise ConnectionError("connection refused")
            return plain(*given, **more)

        return call

    for name in ("create_run", "log_batch", "search_experiments", "update_run", "set_terminated"):
        monkeypatch.setattr(MlflowClient, name, failing(getattr(MlflowClient, name)))
    Outage.away.clear()
    Outage.asked.clear()
    return Outage


def test_two_concurrent_runs_are_logged_completely(storage, store, warnings):
    with launch(storage, warnings.append) as trackers:
        for rounds in range(1, ROUNDS + 1):
            write_run(storage, A, rounds)
            write_run(storage, B, rounds)
        trackers.set_end([], 2, 0)
    for config in (A, B):
        assert (store.status(config), store.steps(config)) == ("FINISHED", [1, 2, 3, 4])
        assert trackers.find_lacking_runs([config]) == []
    assert store.runs["mine"].info.status == "FINISHED"
    assert store.runs["mine"].data.metrics == {"grid/runs_done": 2, "grid/runs_failed": 0}
    assert warnings == []


def test_rounds_are_logged_while_the_run_goes_on(storage, store, follower):
    for rounds, status in ((1, "RUNNING"), (3, "RUNNING"), (ROUNDS, "FINISHED")):
        write_run(storage, A, rounds)
        assert follower._poll_runs(None)
        assert (store.status(A), store.steps(A)) == (status, [*range(1, rounds + 1)])
    assert format_run_name(B) not in store.runs
    assert not follower._session.open_runs, "a finished run needs no memory"
    assert not follower._session.open_runs


def test_folder_without_a_change_is_not_read_again(storage, follower, monkeypatch):
    write_run(storage, A, 2)
    os.utime(build_folder_path(storage, A), (1, 1))
    follower._poll_runs(None)
    monkeypatch.setattr(follower._session, "update_run", lambda *given, **more: pytest.fail("read again"))
    assert follower._poll_runs(None)


def test_interrupted_grid_and_its_run_are_killed_and_finished_by_the_next_driver(storage, store):
    def press_ctrl_c():
        write_run(storage, A, 2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), launch(storage) as trackers:
        press_ctrl_c()
    assert store.runs["mine"].info.status == "KILLED"
    assert (store.status(A), store.steps(A)) == ("KILLED", [1, 2])
    assert trackers.find_lacking_runs([A]) == [A]
    for end, stopped in (("KILLED", True), ("FINISHED", False)):
        with launch(storage) as trackers:
            write_run(storage, A, ROUNDS)
            trackers.set_end([], 1, 0, stopped=stopped)
        assert store.runs["mine"].info.status == end
    assert (store.status(A), store.steps(A)) == ("FINISHED", [1, 2, 3, 4])


def test_run_that_leaves_the_runs_under_way_without_an_end_is_killed_before_the_launch_ends(
    storage, store, follower
):
    """A search has stopped it early."""
    write_run(storage, A, 2)
    follower._folder.write_progress({"running": [{"run_id": A.run_id}]})
    follower._poll_runs(None)
    assert store.status(A) == "RUNNING"
    follower._folder.write_progress({"running": []})
    follower._poll_runs(None)
    assert store.status(A) == "KILLED"


def test_finished_run_whose_records_are_not_seen_yet_waits_for_them(storage, store, follower):
    write_run(storage, A, ROUNDS)
    folder = build_folder_path(storage, A)
    (folder / "clients.parquet").rename(folder / "later")
    assert follower._poll_runs(None)
    assert (store.status(A), store.steps(A)) == ("RUNNING", [])
    (folder / "later").rename(folder / "clients.parquet")
    assert follower._poll_runs(None)
    assert (store.status(A), store.steps(A)) == ("FINISHED", [1, 2, 3, 4])


def test_outage_of_the_store_loses_nothing(storage, store, warnings, outage):
    """It begins in round 2 of one run, before the start of another, and ends before their last rounds."""
    with launch(storage, warnings.append):
        write_run(storage, A, 1)
        outage.away.set()
        write_run(storage, A, 3)
        write_run(storage, B, 2)
        assert outage.asked.wait(60)
        outage.away.clear()
        write_run(storage, A, ROUNDS)
        write_run(storage, B, ROUNDS)
    for config in (A, B):
        assert (store.status(config), store.steps(config)) == ("FINISHED", [1, 2, 3, 4])
    [warning] = warnings
    assert warning.endswith(
        "connection refused; training goes on, and what MLflow has missed is logged when it is back"
    )


def test_unreachable_store_warns_and_counts_the_missing_runs(storage, warnings, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", NOWHERE)
    with launch(storage, warnings.append, [A]) as trackers:
        write_run(storage, A, ROUNDS)
        write_run(storage, B, 2)
        fail(storage, B)
    assert trackers.find_lacking_runs([A]) == [A]
    away, lacking = warnings
    assert away.startswith(f"no MLflow server answers at {NOWHERE} ")
    sync = f"fedgrid sync mine --storage {storage}"
    assert lacking == f"2 runs are not, or not completely, in MLflow; `{sync}` logs what is missing"


def test_each_outage_has_one_warning(follower, warnings, monkeypatch):
    answers = iter([False, False, True, False])

    def make():
        if not next(answers):
            raise TrackerFailed("MLflow is away")

    monkeypatch.setattr(follower._session, "start_tracker", make)
    counts = []
    for _ in range(4):
        follower._poll_runs(None)
        counts.append(len(warnings))
    assert counts == [1, 1, 1, 2]


def test_failure_to_log_one_run_does_not_stop_the_others(storage, store, warnings):
    """A mark that cannot be written: that run waits for a sync, the other is logged."""
    (build_folder_path(storage, A) / "mlflow.json").mkdir(parents=True)
    with launch(storage, warnings.append) as trackers:
        write_run(storage, A, ROUNDS)
        write_run(storage, B, ROUNDS)
    assert trackers.find_lacking_runs([B]) == []
    fault, lacking = warnings
    assert "Is a directory" in fault
    assert lacking.startswith("1 run is not, or not completely, in MLflow; ")


def test_deleted_run_is_logged_again(storage, store):
    with launch(storage):
        write_run(storage, A, 3)
    with launch(storage, forgotten=[A, B]):
        write_run(storage, A, 2)
    assert store.steps(A) == [1, 2]
    assert len(store.client.search_runs(["1"], run_view_type=ViewType.DELETED_ONLY)) == 1


def test_run_that_the_grid_grows_to_is_followed(storage, store, follower):
    more = build_config(2)
    follower._poll_runs(None)
    GridFolder(Storage(storage), "mine").keep([A, B, more], "dataset: digits\n")
    write_run(storage, more, 1)
    follower._poll_runs(LaunchEnd("KILLED"))
    assert (store.status(more), store.steps(more)) == ("KILLED", [1])


class Screen(StringIO):
    """Does something, once, before it shows a text."""

    def __init__(self, text, action):
        super().__init__()
        self._text, self._action = text, action

    def write(self, text):
        if self._text in text:
            self._action()
        return super().write(text)


@pytest.mark.slow
def test_mlflow_server_started_late_by_fedgrid_ui_has_everything_once_and_stops_at_ctrl_c(
    tmp_path, storage, warnings, monkeypatch
):
    """A store that goes away and comes back: `test_outage_of_the_store_loses_nothing`.

    Here the command runs in this process; test_ui.py interrupts another one.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address, served = ui.format_address(port), new_storage(tmp_path / "server")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    monkeypatch.setattr(ui_action, "tracking_uri", default_uri)
    context = launch(storage, warnings.append)

    def use_server():
        write_run(storage, A, ROUNDS)
        trackers.set_end([], 1, 1)
        context.__exit__(None, None, None)
        store = Store(address)
        for config, status in ((A, "FINISHED"), (B, "FAILED")):
            assert (store.status(config), store.steps(config)) == (
                status,
                [1, 2, 3, 4][: 4 if config == A else 3],
            )
            assert store.runs[format_run_name(config)].data.params["training.rounds"] == "4"
            assert store.runs[format_run_name(config)].data.tags["algorithm"] == "fedavg"
            assert {"clients.parquet", "config.json"} <= store.artifacts(format_run_name(config))
        assert store.artifacts("mine") == {"preset.yaml"}
        assert trackers.find_lacking_runs([A]) == []
        signal.raise_signal(signal.SIGINT)

    trackers = context.__enter__()
    write_run(storage, A, 3)
    write_run(storage, B, 3)
    fail(storage, B)
    screen = Screen(f"MLflow at {address} (Ctrl-C ends it)", use_server)
    serve_ui(None, Storage(served), port, Console(file=screen, width=200))
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(f"{address}/health", timeout=5)


def test_runs_at_a_uri_are_followed_there(tmp_path, warnings):
    """Another machine writes them: the mirror has nothing of them until they have ended."""
    bucket = tmp_path / "bucket"
    mirror = Storage.from_text(f"local://{bucket}")
    store = Store(default_uri(mirror.root))
    with launch(mirror, warnings.append, at_uri=True):
        GridFolder(mirror, "mine").write_progress({"running": [{"run_id": A.run_id}]})
        write_run(bucket, A, 2)
    assert (store.status(A), store.steps(A)) == ("KILLED", [1, 2])
    assert not build_folder_path(mirror.root, A).exists()
    assert warnings == []
