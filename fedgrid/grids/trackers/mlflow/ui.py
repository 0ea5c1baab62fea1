"""MLflow's own server for a store, on this machine's loopback address."""

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
from fedgrid.grids.trackers.mlflow.store import convert_errors, explain_cause, find_experiment
from fedgrid.grids.trackers.mlflow.view import VIEW_KEY

HOST = "127.0.0.1"
ALLOWED_HOSTS = "localhost:*,127.0.0.1:*"
"""Hosts that MLflow lets a request name. A page of another site names another host, also after DNS rebinding.
"""
END_SECONDS = 10
"""Seconds for the server to exit after SIGTERM."""
VIEW = f"workflowType=machine_learning&viewStateShareKey={VIEW_KEY}&compareRunsMode=CHART"
"""Query of an address: runs (not traces of language models), in the prepared view, as charts."""
ANSWER_SECONDS, PAUSE_SECONDS = 5.0, 0.2
"""Seconds that a server may take to answer, and between attempts."""
CAUSE = re.compile(r"^[\w.]*(?:Error|Exception): (.+)$", re.MULTILINE)
"""Pattern of the last line of a traceback in the server's output."""
GUARD = ("sh", "-c", "read _; kill -TERM 0")
"""Command that terminates its process group when its standard input closes, as when the parent is killed."""


def format_address(port: int) -> str:
    """Format the address of the UI."""
    return f"http://{HOST}:{port}"


def experiment_address(uri: str, port: int, grid_name: str) -> str | None:
    """Build the address of a grid's runs in the UI, None if the store does not have the grid."""
    with suppress(TrackerFailed), convert_errors(uri):
        if number := find_experiment(uri, grid_name):
            return f"{format_address(port)}/#/experiments/{number}/runs?{VIEW}"
    return None


def build_server_command(uri: str, artifacts: Path, port: int) -> list[str]:
    """Build the command of an MLflow server with one worker.

    Args:
        uri: Address of the store.
        artifacts: Folder of artifacts that the server shows.
        port: TCP port on the loopback address.

    Raises:
        TrackerFailed: `uri` is a server itself.
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


def build_server_environment() -> dict[str, str]:
    """Build the server's environment: without telemetry and without the unused job runner (180 MB of memory).

    MLFLOW_SERVER_ALLOWED_HOSTS of the user stays, as for a proxy in front of the server.
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
def run_server(
    uri: str, artifacts: Path, port: int, output: IO[bytes] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the server within this context; it ends with the context, even if this process is killed.

    Args:
        uri: Address of the store.
        artifacts: Folder of artifacts that the server shows.
        port: TCP port on the loopback address.
        output: File for what the server prints; None for where this process prints.

    Yields:
        The server's process.

    Raises:
        TrackerFailed: `port` is in use, or `uri` is a server itself.
    """
    arguments = build_server_command(uri, artifacts, port)
    _check_free(port)
    # MLflow leaves its workers running when it ends. A process group of its own reaches them all, and keeps
    # Ctrl-C in the terminal from the server, so that this process decides when it ends.
    server = subprocess.Popen(
        arguments, env=build_server_environment(), process_group=0, stdout=output, stderr=output
    )
    # The guard reads from a pipe whose other end only this process has: it closes however this process ends.
    with subprocess.Popen(GUARD, stdin=subprocess.PIPE, process_group=server.pid):
        try:
            yield server
        finally:
            _end_server(server)


def serve(uri: str, artifacts: Path, port: int, text: str, announce: Callable[[str], None]) -> None:
    """Run the server until Ctrl-C or SIGTERM.

    The server's own messages are not shown, only the cause if it ends by itself.

    Args:
        uri: Address of the store.
        artifacts: Folder of artifacts that the server shows.
        port: TCP port on the loopback address.
        text: Message for `announce`.
        announce: Called with `text` once the server answers.

    Raises:
        TrackerFailed: `port` is in use, or `uri` is a server itself.
        ServerEnded: The server ended by itself.
    """
    # SIGTERM must run the `finally` clauses that end the server; by default Python just dies.
    before = signal.signal(signal.SIGTERM, _raise_interrupt)
    try:
        with TemporaryFile() as output, run_server(uri, artifacts, port, output) as server:
            while server.poll() is None and not is_answering(port):
                time.sleep(PAUSE_SECONDS)
            if server.poll() is None:
                announce(text)
            code = server.wait()
            output.seek(0)
            errors = CAUSE.findall(output.read().decode(errors="replace"))
            cause = explain_cause(str(errors[-1]) if errors else f"exit code {code}", uri)
            raise ServerEnded(f"MLflow's server for {uri} has ended: {cause}")
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGTERM, before)


def is_answering(port: int) -> bool:
    """Check whether the server at this port is up."""
    connection = http.client.HTTPConnection(HOST, port, timeout=ANSWER_SECONDS)
    with closing(connection), suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    return False


def _raise_interrupt(number: int, frame: FrameType | None) -> None:
    """Raise what Ctrl-C raises; a handler of signals."""
    raise KeyboardInterrupt


def _check_free(port: int) -> None:
    """Check that a port is free, as the server itself would end without naming the option to change."""
    with socket.socket() as probe:
        # As the server does: otherwise the port of a server that has just ended would count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            raise TrackerFailed(
                f"cannot listen on {format_address(port)} ({getattr(error, 'strerror', None) or error}); "
                "stop the "
                f"process that uses port {port}, or choose another with --port"
            ) from error


def _end_server(server: "subprocess.Popen[bytes]") -> None:
    """End the server and its workers, by force after `END_SECONDS`."""
    # To the group, not to the process: MLflow's workers would go on without it.
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, number)
            server.wait(END_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
