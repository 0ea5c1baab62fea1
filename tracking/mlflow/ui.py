"""Runs the MLflow UI for a store, reachable only from this machine."""

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from types import FrameType

from fedgrid.tracking.mlflow import own_user
from fedgrid.tracking.mlflow.store import TrackingError, connect, one_line
from fedgrid.tracking.mlflow.view import VIEW_KEY

HOST = "127.0.0.1"
LONGEST = 70
"""Characters of the folder of a Unix socket, whose path has at most 107."""
END_SECONDS = 10
"""Time for the server to exit after SIGTERM."""
VIEW = f"workflowType=machine_learning&viewStateShareKey={VIEW_KEY}"
"""Shows runs (not traces of language models), in the prepared view."""
GUARD = ("sh", "-c", "read _; kill -TERM 0")
"""Terminates its process group when its standard input closes, which happens when the parent is killed."""


def address(port: int) -> str:
    """Return the address of the UI."""
    return f"http://{HOST}:{port}"


def experiment_address(uri: str, port: int, grid_name: str) -> str:
    """Return the address of a grid's runs in the UI; of all experiments if the grid has none yet."""
    with suppress(TrackingError), one_line(uri):
        found = connect(uri).get_experiment_by_name(grid_name)
        if found is not None:
            return f"{address(port)}/#/experiments/{found.experiment_id}/runs?{VIEW}"
    return address(port)


def command(uri: str, artifacts: Path, port: int, at: Path | None = None) -> list[str]:
    """Return the command of an MLflow server on the store `uri`, with one worker, bound to loopback.

    With `at`, it listens at that Unix socket, and takes `port` for its own in addresses.

    Raises:
        TrackingError: if `uri` is a server itself.
    """
    if uri.startswith(("http://", "https://")):
        raise TrackingError(f"the runs are already on an MLflow server: open {uri} in a browser")
    return [
        *(sys.executable, "-m", "mlflow", "server"),
        *("--backend-store-uri", uri),
        *("--artifacts-destination", str(artifacts.absolute())),
        *("--host", HOST),
        *("--port", str(port)),
        *("--workers", "1"),
        *(() if at is None else ("--uvicorn-opts", f"--uds {shlex.quote(str(at))}")),
    ]


def environment() -> dict[str, str]:
    """Return the server's environment: without telemetry and without the unused job runner (180 MB)."""
    return {"MLFLOW_DISABLE_TELEMETRY": "true", **os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


@contextmanager
def started(uri: str, artifacts: Path, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the server within this context; the server and its workers end with it, even if this process is
    killed. Where the system tells users apart, it serves this one alone.

    Raises:
        TrackingError: if `port` is in use, or `uri` is a server itself.
    """
    with ExitStack() as stack:
        at = None
        if own_user.is_known():
            at = Path(stack.enter_context(TemporaryDirectory(prefix="fedgrid-ui-", dir=_short()))) / "mlflow"
        arguments = command(uri, artifacts, port, at)
        listener = stack.enter_context(_bound(port))
        if at is None:
            listener.close()
        else:
            stack.enter_context(own_user.passed_on(listener, at))
        # A process group of its own: MLflow leaves its workers running, the group is terminated with them.
        server = subprocess.Popen(arguments, env=environment(), process_group=0)
        with subprocess.Popen(GUARD, stdin=subprocess.PIPE, process_group=server.pid):
            try:
                yield server
            finally:
                _end(server)


def _short() -> str | None:
    """Return a folder whose path leaves room for that of a Unix socket, None for the usual one."""
    return None if len(gettempdir()) <= LONGEST else "/tmp"


def serve(uri: str, artifacts: Path, port: int = 5000, announce: Callable[[], None] = lambda: None) -> int:
    """Run the server until it exits, Ctrl-C or SIGTERM; return its exit code, 0 if interrupted.

    `announce` is called while it starts.

    Raises:
        TrackingError: if `port` is in use, or `uri` is a server itself.
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


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
    except (OSError, OverflowError) as error:
        bound.close()
        raise TrackingError(
            f"cannot listen on {address(port)} ({getattr(error, 'strerror', None) or error}); stop the "
            f"process that uses port {port}, or choose another with --port"
        ) from error
    return bound


def _end(server: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, number)
            server.wait(END_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
