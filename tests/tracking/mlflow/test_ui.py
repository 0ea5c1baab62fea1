"""The MLflow UI: its command, its errors, and once for real."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from fedgrid.tracking.mlflow import store, ui
from fedgrid.tracking.mlflow.runs import Experiment
from fedgrid.tracking.mlflow.store import TrackingError
from tests.helpers.command_line import new_storage

ROOT = Path(__file__).parents[3]


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_server_has_one_worker_on_loopback_and_our_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert ui.command("sqlite:////runs/mlflow.db", Path("artifacts"), 5001) == [
        *(sys.executable, "-m", "mlflow", "server"),
        *("--backend-store-uri", "sqlite:////runs/mlflow.db"),
        *("--artifacts-destination", str(tmp_path / "artifacts")),
        *("--host", "127.0.0.1", "--port", "5001", "--workers", "1"),
    ]
    assert ui.environment()["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] == "false"


def test_the_ui_refuses_a_store_that_is_a_server_itself(tmp_path):
    with pytest.raises(TrackingError, match=r"server: open http://\*\*\*@head:5000 "):
        ui.command("http://me:secret@head:5000", tmp_path, 5000)


def test_a_port_in_use_is_an_error_of_one_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(TrackingError, match=f"{port} .*in use.*choose another with --port"):
            ui.serve("sqlite:////nowhere/mlflow.db", tmp_path, port)


def test_a_port_that_is_none_is_one_line(tmp_path):
    with pytest.raises(TrackingError, match="cannot listen on http://127.0.0.1:70000 .*choose another"):
        ui.serve("sqlite:////nowhere/mlflow.db", tmp_path, 70000)


def test_a_grid_s_runs_have_an_address(tmp_path):
    uri = store.default_uri(new_storage(tmp_path))
    experiment = Experiment.open(uri, "paper", tmp_path / "artifacts", "here")
    shown = f"http://127.0.0.1:5001/#/experiments/{experiment.experiment_id}/runs?workflowType="
    assert ui.experiment_address(uri, 5001, "paper").startswith(shown)
    assert ui.experiment_address(uri, 5001, "no such grid") == "http://127.0.0.1:5001"


def test_a_store_that_is_away_has_the_root_address():
    assert ui.experiment_address("http://127.0.0.1:9", 5001, "paper") == "http://127.0.0.1:5001"


def test_a_killed_parent_takes_the_server_and_its_workers_with_it(tmp_path, free_port):
    """A stand-in for the server, with a worker; both hold the pipe, which ends when both are gone."""
    worker = "import time; time.sleep(600)"
    server = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {worker!r}])"
    code = (
        "import sys; from pathlib import Path; from fedgrid.tracking.mlflow import ui; "
        f"ui.command = lambda *_: [sys.executable, '-c', {server!r}]; "
        f"ui.serve('sqlite:////unused', Path('unused'), {free_port}, lambda: print('started', flush=True))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"started\n"
    parent.kill()
    rest, _ = parent.communicate(timeout=60)
    assert rest == b""


def runs_shown(port: int) -> list[str]:
    request = urllib.request.Request(
        f"{ui.address(port)}/api/2.0/mlflow/runs/search",
        data=json.dumps({"experiment_ids": ["1"]}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return [run["info"]["run_name"] for run in json.load(answer)["runs"]]


@pytest.mark.slow
def test_the_server_answers_with_a_run_in_it_and_goes_with_its_parent(tmp_path, free_port):
    """`serve` in a process of its own, as the command line runs it; SIGTERM ends it and its workers."""
    uri = store.default_uri(tmp_path)
    experiment = Experiment.open(uri, "quickstart", tmp_path / "artifacts", "here")
    experiment.finish(experiment.start("1", "digits-bnc", {}, {}), "FINISHED")
    code = (
        "from pathlib import Path; from fedgrid.tracking.mlflow import ui; "
        f"raise SystemExit(ui.serve({uri!r}, Path({str(tmp_path)!r}) / 'artifacts', {free_port}))"
    )
    with (tmp_path / "log.txt").open("w") as log:
        parent = subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, stdout=log, stderr=log, env=dict(os.environ)
        )
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                assert runs_shown(free_port) == ["digits-bnc"]
                break
            except (urllib.error.URLError, ConnectionError):
                assert parent.poll() is None, (tmp_path / "log.txt").read_text()
                assert time.monotonic() < deadline, (tmp_path / "log.txt").read_text()
                time.sleep(0.2)
    finally:
        parent.send_signal(signal.SIGTERM)
        ended = parent.wait(60)
    assert ended == 0
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(ui.address(free_port), timeout=5)
