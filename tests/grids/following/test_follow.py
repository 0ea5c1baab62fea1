"""News of many runs at once: logged in the background, and never in the way of the training."""

import os
import signal
import socket
import urllib.error
import urllib.request
from io import StringIO
from threading import Event

import pytest
from mlflow.entities import ViewType
from mlflow.tracking import MlflowClient
from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.cli.actions import ui as ui_action
from fedgrid.grids.cli.actions.ui import serve_ui
from fedgrid.grids.following import follow
from fedgrid.grids.following.follow import Pauses, Trackers
from fedgrid.grids.following.teller import News
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow import ui
from fedgrid.grids.trackers.mlflow.store import default_uri
from fedgrid.grids.trackers.names import run_name
from fedgrid.tracking.scoring import scores
from tests.helpers.command_line import new_storage
from tests.helpers.logged_runs import ROUNDS, Store, config_of, new_teller, record

pytestmark = pytest.mark.usefixtures("in_mlflow", "own_store")

NOWHERE = "http://127.0.0.1:9"
"""The discard port: nothing listens there."""
A, B = config_of(0), config_of(1)
PROMPT = Pauses(gather=0, retry=0.01, flush=60)


def new_trackers(storage, warn=print, pauses=PROMPT):
    return Trackers("mine", Storage(storage), warn, pauses=pauses, text="dataset: digits\n")


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def log(storage, warnings):
    return new_trackers(storage, warnings.append)


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


def train(log, storage, config, first, last):
    for number in range(first, last + 1):
        record(storage, config, number)
        log.tell(config)


def test_two_concurrent_runs_are_logged_completely(storage, store, log, warnings):
    with log:
        for config in (A, B):
            log.tell(config)
        for number in range(1, ROUNDS + 1):
            train(log, storage, A, number, number)
            train(log, storage, B, number, number)
        for config in (A, B):
            log.tell(config, "FINISHED")
        log.summary([], 2, 0)
    for config in (A, B):
        assert (store.status(config), store.steps(config)) == ("FINISHED", [1, 2, 3, 4])
        assert log.lacking([config]) == []
    assert store.runs["mine"].info.status == "FINISHED"
    assert store.runs["mine"].data.metrics == {"grid/runs_done": 2, "grid/runs_failed": 0}
    assert warnings == []


def test_parent_of_an_interrupted_grid_is_killed_and_finished_by_the_next_driver(storage, store, log):
    for end, stopped in (("KILLED", True), ("FINISHED", False)):
        with new_trackers(storage) as log:
            log.summary([], 1, 0, stopped=stopped)
        assert store.runs["mine"].info.status == end


def test_fast_rounds_share_a_batch(storage, log, monkeypatch):
    batches = []
    plain = MlflowClient.log_batch

    def counting(client, run_id, metrics=(), **rest):
        batches.append({metric.step for metric in metrics if metric.key == "round"})
        plain(client, run_id, metrics=metrics, **rest)

    monkeypatch.setattr(MlflowClient, "log_batch", counting)
    slow = new_trackers(storage, pauses=Pauses(gather=60))
    with slow:
        slow.tell(A)
        train(slow, storage, A, 1, ROUNDS)
        slow.tell(A, "FINISHED")
    assert [steps for steps in batches if steps] == [{1, 2, 3, 4}]


def test_scores_that_are_known_are_logged_and_not_computed_again(storage, store, monkeypatch):
    """Round 2 has no known scores, and at the end round 4 has none; rounds after the known ones wait."""
    computed = []
    plain = scores._score_at
    monkeypatch.setattr(scores, "_score_at", lambda *given: computed.append(given[1] + 1) or plain(*given))
    teller = new_teller(storage)
    record(storage, A, 3)
    under_way = [News(A, scores={1: {"ari": 0.25}}), News(A, scores={3: {"ari": 0.75}})]
    assert [teller.tell(news) for news in under_way] == [1, 2]
    record(storage, A, ROUNDS)
    assert teller.tell(News(A, "FINISHED")) == 1
    assert computed == [2, 4]
    points = store.client.get_metric_history(store.runs[run_name(A)].info.run_id, "clustering/ari")
    assert [(point.step, point.value) for point in points] == [(1, 0.25), (2, 0.0), (3, 0.75), (4, 1.0)]


def test_run_under_way_at_the_end_is_killed_and_resumed_by_the_next_driver(storage, store, log):
    with log:
        log.tell(A)
        train(log, storage, A, 1, 2)
    assert (store.status(A), store.steps(A)) == ("KILLED", [1, 2])
    assert log.lacking([A]) == [A]
    successor = new_trackers(storage)
    with successor:
        successor.tell(A)
        train(successor, storage, A, 3, ROUNDS)
        successor.tell(A, "FINISHED")
    assert (store.status(A), store.steps(A)) == ("FINISHED", [1, 2, 3, 4])


def test_interrupted_grid_has_status_killed(store, log):
    with pytest.raises(KeyboardInterrupt), log:
        raise KeyboardInterrupt
    assert store.runs["mine"].info.status == "KILLED"


def test_outage_of_the_store_loses_nothing(storage, store, log, warnings, outage):
    """It begins in round 2 of one run, before the start of another, and ends before their last rounds."""
    with log:
        log.tell(A)
        train(log, storage, A, 1, 1)
        outage.away.set()
        train(log, storage, A, 2, 3)
        log.tell(B)
        train(log, storage, B, 1, 2)
        assert outage.asked.wait(60)
        outage.away.clear()
        train(log, storage, A, ROUNDS, ROUNDS)
        train(log, storage, B, 3, ROUNDS)
        for config in (A, B):
            log.tell(config, "FINISHED")
    for config in (A, B):
        assert (store.status(config), store.steps(config)) == ("FINISHED", [1, 2, 3, 4])
    [warning] = warnings
    assert warning.endswith(
        "connection refused; training goes on, and what MLflow has missed is logged when it is back"
    )


def test_unreachable_store_warns_and_counts_the_missing_runs(storage, warnings, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", NOWHERE)
    log = new_trackers(storage, warnings.append)
    log.forget([A])
    with log:
        for config in (A, B):
            log.tell(config)
            train(log, storage, config, 1, ROUNDS)
        log.tell(A, "FINISHED")
        log.tell(B, "FAILED")
    assert log.lacking([A]) == [A]
    away, lacking = warnings
    assert away.startswith(f"no MLflow server answers at {NOWHERE} ")
    sync = f"fedgrid sync mine --storage {storage}"
    assert lacking == f"2 runs are not, or not completely, in MLflow; `{sync}` logs what is missing"


def test_each_outage_has_one_warning(log, warnings, monkeypatch):
    [follower] = log._followers
    answers = iter([False, False, True, False])

    def call(method):
        if not next(answers):
            raise TrackerFailed("MLflow is away")

    monkeypatch.setattr(follower, "_call", call)
    counts = []
    for _ in range(4):
        follower._tell_all()
        counts.append(len(warnings))
    assert counts == [1, 1, 1, 2]


def test_failure_to_log_one_run_does_not_stop_the_others(storage, store, log, warnings):
    """A mark that cannot be written: that run waits for a sync, the other is logged."""
    (folder_of(storage, A) / "mlflow.json").mkdir(parents=True)
    with log:
        log.tell(A)
        log.tell(A, "FAILED")
        log.tell(B)
        train(log, storage, B, 1, ROUNDS)
        log.tell(B, "FINISHED")
    assert log.lacking([B]) == []
    fault, lacking = warnings
    assert "Is a directory" in fault
    assert lacking.startswith("1 run is not, or not completely, in MLflow; ")


def test_finished_runs_need_no_memory(storage, log):
    with log:
        log.tell(A)
        train(log, storage, A, 1, ROUNDS)
        log.tell(A, "FINISHED")
    [follower] = log._followers
    assert not follower._waiting
    assert not follower._taken
    assert not follower._teller._told
    assert not log._under_way


def test_deleted_run_is_logged_again(storage, store, log):
    with log:
        log.tell(A)
        train(log, storage, A, 1, 2)
    successor = new_trackers(storage)
    successor.forget([A, B])
    with successor:
        successor.tell(A)
    assert store.steps(A) == [1, 2]
    assert len(store.client.search_runs(["1"], run_view_type=ViewType.DELETED_ONLY)) == 1


def test_malformed_tracking_uri_is_refused(storage, monkeypatch):
    monkeypatch.setitem(os.environ, "MLFLOW_TRACKING_URI", "bogus")
    with pytest.raises(ConfigError, match="MLFLOW_TRACKING_URI is 'bogus'"):
        new_trackers(storage)


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
    address, served = ui.address(port), new_storage(tmp_path / "server")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    monkeypatch.setattr(ui_action, "tracking_uri", default_uri)
    log = new_trackers(storage, warnings.append)

    def use_server():
        train(log, storage, A, ROUNDS, ROUNDS)
        log.tell(A, "FINISHED")
        log.summary([], 1, 1)
        log.__exit__(None, None, None)
        store = Store(address)
        for config, status in ((A, "FINISHED"), (B, "FAILED")):
            assert (store.status(config), store.steps(config)) == (status, [1, 2, 3, 4])
            assert store.runs[run_name(config)].data.params["training.rounds"] == "4"
            assert store.runs[run_name(config)].data.tags["algorithm"] == "fedavg"
            assert {"clients.parquet", "config.json"} <= store.artifacts(run_name(config))
        assert store.artifacts("mine") == {"preset.yaml"}
        assert log.lacking([A]) == []
        signal.raise_signal(signal.SIGINT)

    with log:
        log.tell(A)
        train(log, storage, A, 1, 3)
        log.tell(B)
        train(log, storage, B, 1, ROUNDS)
        log.tell(B, "FAILED")
        screen = Screen(f"MLflow at {address} (Ctrl-C ends it)", use_server)
        serve_ui(None, Storage(served), port, Console(file=screen, width=200))
        with pytest.raises(urllib.error.URLError, match="refused"):
            urllib.request.urlopen(f"{address}/health", timeout=5)


def test_runs_at_a_uri_are_followed_there(tmp_path, warnings, monkeypatch):
    """Another machine writes them: the mirror has nothing of them until they have ended."""
    bucket = tmp_path / "bucket"
    mirror = Storage.of(f"local://{bucket}")
    monkeypatch.setattr(follow, "LOOK_AT_URI", 0)
    log = Trackers("mine", mirror, warnings.append, at_uri=True, pauses=PROMPT)
    store = Store(default_uri(mirror.root))
    with log:
        log.tell(A)
        train(log, bucket, A, 1, 2)
    assert (store.status(A), store.steps(A)) == ("KILLED", [1, 2])
    assert not folder_of(mirror.root, A).exists()
