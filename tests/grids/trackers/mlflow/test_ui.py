"""The MLflow UI: its command, its errors, and how it ends."""

import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from mlflow.server.fastapi_security import get_allowed_hosts
from mlflow.server.security_utils import is_allowed_host_header

from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow import store, ui
from fedgrid.grids.trackers.mlflow.runs import open_experiment
from tests.helpers.command_line import new_storage

ROOT = Path(__file__).parents[4]


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_server_has_one_worker_on_loopback_and_our_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert ui.build_server_command("sqlite:////runs/mlflow.db", Path("artifacts"), 5001) == [
        *(sys.executable, "-m", "mlflow", "server"),
        *("--backend-store-uri", "sqlite:////runs/mlflow.db"),
        *("--artifacts-destination", str(tmp_path / "artifacts")),
        *("--host", "127.0.0.1", "--port", "5001", "--workers", "1"),
    ]
    assert ui.build_server_environment()["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] == "false"


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("127.0.0.1:5000", True),
        ("localhost:6000", True),  # the other end of a tunnel
        ("localhost.evil.com:5000", False),
        ("192.168.0.1:5000", False),
    ],
)
def test_requests_for_other_hosts_are_refused(host, is_allowed, monkeypatch):
    """By MLflow, which allows private addresses unless it is told."""
    monkeypatch.setenv(
        "MLFLOW_SERVER_ALLOWED_HOSTS", ui.build_server_environment()["MLFLOW_SERVER_ALLOWED_HOSTS"]
    )
    assert is_allowed_host_header(get_allowed_hosts(), host) == is_allowed


def test_the_ui_refuses_a_store_that_is_a_server_itself(tmp_path):
    with pytest.raises(TrackerFailed, match=r"server: open http://\*\*\*@head:5000 "):
        ui.build_server_command("http://me:secret@head:5000", tmp_path, 5000)


def test_a_port_that_is_none_is_one_line(tmp_path):
    with pytest.raises(TrackerFailed, match="cannot listen on http://127.0.0.1:70000 .*choose another"):
        ui.serve("sqlite:////nowhere/mlflow.db", tmp_path, 70000, "", print)


def test_a_grid_s_runs_have_an_address(tmp_path):
    uri = store.default_uri(new_storage(tmp_path))
    _, experiment_id = open_experiment(uri, "paper", tmp_path)
    shown = f"http://127.0.0.1:5001/#/experiments/{experiment_id}/runs?workflowType="
    assert ui.experiment_address(uri, 5001, "paper").startswith(shown)
    assert ui.experiment_address(uri, 5001, "no such grid") is None
    assert ui.experiment_address("http://127.0.0.1:9", 5001, "paper") is None, "the store is away"


@pytest.mark.parametrize(("status", "is_up"), [(200, True), (503, False)])
def test_server_is_up_once_its_health_is_fine(status, is_up):
    class Health(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()

        def log_message(self, *given):
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Health) as server:
        Thread(target=server.handle_request).start()
        assert ui.is_answering(server.server_port) is is_up
    assert not ui.is_answering(server.server_port)


@pytest.mark.parametrize(
    ("printed", "cause"),
    [
        (
            "INFO: starts\nTraceback ...\n  line\nsqlalchemy.exc.OperationalError: disk full\n[SQL: x]\n",
            "disk full",
        ),
        ("nothing of use\n", "exit code 3"),
    ],
    ids=["its last error", "no error"],
)
def test_server_that_ends_by_itself_is_one_line_with_the_cause(
    free_port, tmp_path, monkeypatch, capfd, printed, cause
):
    code = f"import sys; sys.stderr.write({printed!r}); sys.exit(3)"
    monkeypatch.setattr(ui, "build_server_command", lambda *_: [sys.executable, "-c", code])
    with pytest.raises(ui.ServerEnded, match=f"sqlite:////unused has ended: {cause}$"):
        ui.serve("sqlite:////unused", tmp_path, free_port, "", pytest.fail)
    assert capfd.readouterr() == ("", "")


@contextmanager
def serving(port):
    """Run `serve` in a process of its own, with a stand-in for the server that has a worker.

    Both hold the pipe, which ends when both are gone.
    """
    worker = "import time; time.sleep(600)"
    server = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {worker!r}])"
    code = (
        "import sys; from pathlib import Path; from fedgrid.grids.trackers.mlflow import ui; "
        f"ui.build_server_command = lambda *_: [sys.executable, '-c', {server!r}]; "
        "ui.is_answering = lambda port: True; "
        "announce = lambda text: print(text, flush=True); "
        f"ui.serve('sqlite:////unused', Path('unused'), {port}, 'started', announce)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"started\n"
        yield parent


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0), (signal.SIGINT, 0)]
)
def test_parent_that_is_killed_or_terminated_takes_the_server_and_its_workers_with_it(
    free_port, number, code
):
    """For the real server see tests/grids/following/test_follow.py."""
    with serving(free_port) as parent:
        parent.send_signal(number)
        rest, _ = parent.communicate(timeout=60)
    assert (parent.returncode, rest) == (code, b"")
