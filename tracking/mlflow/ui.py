"""The MLflow UI on a store of runs, on this machine only."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from fedgrid.tracking.mlflow.store import TrackingError, connect, one_line, shown

HOST = "127.0.0.1"
END_SECONDS = 10
"""How long the server may take to end when it is asked to."""
VIEW = "workflowType=machine_learning&orderByKey=tags.%60mlflow.runName%60&orderByAsc=true"
"""Runs rather than traces of language models, by name: sorted by time, as it is unless told, MLflow's list
folds a grid's runs into the grid's own."""
GUARD = ("sh", "-c", "read _; kill -TERM 0")
"""Ends its process group when its standard input closes, as it does with a parent that is killed."""


def address(port: int) -> str:
    """Return what to open in a browser."""
    return f"http://{HOST}:{port}"


def experiment_address(uri: str, port: int, grid_name: str) -> str:
    """Return what to open in a browser to see a grid's runs; all experiments if it has none yet."""
    with suppress(TrackingError), one_line(uri):
        found = connect(uri).get_experiment_by_name(grid_name)
        if found is not None:
            return f"{address(port)}/#/experiments/{found.experiment_id}/runs?{VIEW}"
    return address(port)


def command(uri: str, artifacts: Path, port: int) -> list[str]:
    """Return the command of an MLflow server on the store `uri`, with one worker, bound to loopback.

    Raises:
        TrackingError: if `uri` is a server already.
    """
    if uri.startswith(("http://", "https://")):
        raise TrackingError(f"the runs are on an MLflow server already: open {shown(uri)} in a browser")
    return [
        *(sys.executable, "-m", "mlflow", "server"),
        *("--backend-store-uri", uri),
        *("--artifacts-destination", str(artifacts.absolute())),
        *("--host", HOST),
        *("--port", str(port)),
        *("--workers", "1"),
    ]


def environment() -> dict[str, str]:
    """Return the server's environment: no job runner (180 MB that nobody here uses), no telemetry."""
    return {"MLFLOW_DISABLE_TELEMETRY": "true", **os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


@contextmanager
def started(uri: str, artifacts: Path, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the server within this context; at its end the server and its workers are gone, and also when
    this process is killed.

    Raises:
        TrackingError: if `port` is taken, or `uri` is a server already.
    """
    arguments = command(uri, artifacts, port)
    _check_free(port)
    # In a process group of its own, so that its workers can be ended with it: MLflow leaves them behind.
    server = subprocess.Popen(arguments, env=environment(), process_group=0)
    with subprocess.Popen(GUARD, stdin=subprocess.PIPE, process_group=server.pid):
        try:
            yield server
        finally:
            _end(server)


def serve(uri: str, artifacts: Path, port: int = 5000, announce: Callable[[], None] = lambda: None) -> int:
    """Run the server until it ends, Ctrl-C or SIGTERM; return its exit code, 0 when interrupted.

    `announce` is called once it is starting.

    Raises:
        TrackingError: if `port` is taken, or `uri` is a server already.
    """
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with started(uri, artifacts, port) as server:
            announce()
            return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            raise TrackingError(
                f"cannot listen on {address(port)} ({getattr(error, 'strerror', None) or error}); end what "
                f"uses port {port}, or choose another with --port"
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
