"""Runs MLflow's own server for a store, on this machine's loopback."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import FrameType
from typing import IO

from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow.store import find_experiment, one_line, with_upgrade
from fedgrid.grids.trackers.mlflow.view import VIEW_KEY

HOST = "127.0.0.1"
ALLOWED_HOSTS = "localhost:*,127.0.0.1:*"
"""Hosts that MLflow lets a request name: a page of another site, also after DNS rebinding, names another."""
END_SECONDS = 10
"""Time for the server to exit after SIGTERM."""
VIEW = f"workflowType=machine_learning&viewStateShareKey={VIEW_KEY}&compareRunsMode=CHART"
"""Shows runs (not traces of language models), in the prepared view, as charts."""
ANSWER_SECONDS, PAUSE_SECONDS = 5.0, 0.2
"""How long a server may take to answer, and how long to wait before it is asked again."""
CAUSE = re.compile(r"^[\w.]*(?:Error|Exception): (.+)$", re.MULTILINE)
GUARD = ("sh", "-c", "read _; kill -TERM 0")
"""Terminates its process group when its standard input closes, which happens when the parent is killed."""


def address(port: int) -> str:
    """Return the address of the UI."""
    return f"http://{HOST}:{port}"


def experiment_address(uri: str, port: int, grid_name: str) -> str | None:
    """Return the address of a grid's runs in the UI, None if the store has none of it."""
    with suppress(TrackerFailed), one_line(uri):
        if number := find_experiment(uri, grid_name):
            return f"{address(port)}/#/experiments/{number}/runs?{VIEW}"
    return None


def command(uri: str, artifacts: Path, port: int) -> list[str]:
    """Return the command of an MLflow server on the store `uri`, with one worker.

    Raises:
        TrackerFailed: if `uri` is a server itself.
    """
    if uri.startswith(("http://", "https://")):
        raise TrackerFailed(f"the runs are already on an MLflow server: open {uri} in a browser")
    return [
        *(sys.executable, "-m", "mlflow", "server"),
        *("--backend-store-uri", uri),
        *("--artifacts-destination", str(artifacts.absolute())),
        *("--host", HOST),
        *("--port", str(port)),
        *("--workers", "1"),
    ]


def environment() -> dict[str, str]:
    """Return the server's environment: without telemetry and without the unused job runner (180 MB).

    MLFLOW_SERVER_ALLOWED_HOSTS of the user stays, as for a proxy in front of it.
    """
    return {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ALLOWED_HOSTS": ALLOWED_HOSTS,
        **os.environ,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }


class ServerEnded(TrackerFailed):
    """The server has ended by itself."""


@contextmanager
def started(
    uri: str, artifacts: Path, port: int, output: IO[bytes] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the server within this context; it and its workers end with it, even if this process is killed.

    What it prints goes to `output`, or where this process prints.

    Raises:
        TrackerFailed: if `port` is in use, or `uri` is a server itself.
    """
    arguments = command(uri, artifacts, port)
    _check_free(port)
    # A process group of its own: MLflow leaves its workers running, the group is terminated with them.
    server = subprocess.Popen(arguments, env=environment(), process_group=0, stdout=output, stderr=output)
    with subprocess.Popen(GUARD, stdin=subprocess.PIPE, process_group=server.pid):
        try:
            yield server
        finally:
            _end(server)


def serve(uri: str, artifacts: Path, port: int, text: str, announce: Callable[[str], None]) -> None:
    """Run the server until Ctrl-C or SIGTERM. Its own messages are not shown, only the cause if it ends.

    `announce` is called with `text` once the server answers.

    Raises:
        TrackerFailed: if `port` is in use, or `uri` is a server itself.
        ServerEnded: the server ended by itself.
    """
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with TemporaryFile() as output, started(uri, artifacts, port, output) as server:
            while server.poll() is None and not answers(port):
                time.sleep(PAUSE_SECONDS)
            if server.poll() is None:
                announce(text)
            code = server.wait()
            output.seek(0)
            errors = CAUSE.findall(output.read().decode(errors="replace"))
            cause = with_upgrade(str(errors[-1]) if errors else f"exit code {code}", uri)
            raise ServerEnded(f"MLflow's server for {uri} has ended: {cause}")
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGTERM, before)


def answers(port: int) -> bool:
    """Return whether the server at this port is up."""
    connection = http.client.HTTPConnection(HOST, port, timeout=ANSWER_SECONDS)
    with closing(connection), suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    return False


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            raise TrackerFailed(
                f"cannot listen on {address(port)} ({getattr(error, 'strerror', None) or error}); stop the "
                f"process that uses port {port}, or choose another with --port"
            ) from error


def _end(server: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, number)
            server.wait(END_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
