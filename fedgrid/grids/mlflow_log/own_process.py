"""A process of its own for the writer: MLflow takes seconds to import, which would hold up this one."""

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.leases.processes import NEW_OBJECTS
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.plugins.source import PluginSource
from fedgrid.grids.mlflow_log.run_writer import Writer
from fedgrid.tracking.mlflow.runs import Status
from fedgrid.tracking.mlflow.store import TrackingError, one_line

NICENESS = 5
"""Training comes first."""
PR_SET_PDEATHSIG = 1
"""Linux's number: which signal a process gets when its parent ends."""


class ProcessWriter:
    """A writer's methods, called in a process of their own. It ends with this one, however that ends.

    They raise `TrackingError` as the writer does, also if that process died; the next call starts another.
    """

    def __init__(self, writer: Writer) -> None:
        """Start the process. `writer` is sent to it with the first call."""
        self._writer = writer
        self._stopped = False
        self._process: subprocess.Popen[bytes] | None = self._start()

    def connect(self, text: str = "") -> None:
        """As `Writer.connect`."""
        self._call("connect", text)

    def write(
        self,
        config: RunConfig,
        status: Status | None,
        started: int | None = None,
        records: Path | None = None,
    ) -> int:
        """As `Writer.write`."""
        plugins = active.sources(config.plugin_digests)
        return int(self._call("write", config, status, started, records, plugins=plugins))

    def write_summary(self, files: Sequence[Path], done: int, failed: int) -> None:
        """As `Writer.write_summary`."""
        self._call("write_summary", list(files), done, failed)

    def forget(self, config: RunConfig) -> None:
        """As `Writer.forget`."""
        self._call("forget", config)

    def disconnect(self) -> None:
        """As `Writer.disconnect`."""
        with suppress(TrackingError):  # A new process has nothing to forget.
            self._call("disconnect")

    def close(self, status: Status) -> None:
        """As `Writer.close`."""
        self._call("close", status)

    def stop(self) -> None:
        """End the process, at once if a store keeps it waiting; no call starts another."""
        self._stopped = True
        self._end()

    def _start(self) -> subprocess.Popen[bytes]:
        self._pipe, theirs = Pipe()
        self._has_writer = False
        # As this process finds its modules, and none of those that lie in the working folder.
        command = [sys.executable, "-P", "-m", __name__, str(theirs.fileno()), str(os.getpid()), *sys.argv]
        path = {"PYTHONPATH": os.pathsep.join(sys.path)}
        with theirs:
            return subprocess.Popen(
                command,
                env={**os.environ, **path},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def _end(self) -> None:
        # The thread that calls and the one that stops may both end it.
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _call(self, name: str, *given: Any, plugins: Sequence[PluginSource] = ()) -> Any:
        try:
            if self._process is None and not self._stopped:
                self._process = self._start()
            if not self._has_writer:
                self._pipe.send(self._writer)
                self._has_writer = True
            self._pipe.send((name, given, plugins))
            answer, problem = self._pipe.recv()
        except (EOFError, OSError) as error:
            self._end()
            raise TrackingError(f"the process that writes to MLflow died in '{name}'") from error
        if problem is not None:
            raise TrackingError(problem)
        return answer


def serve(pipe: Connection) -> None:
    """Receive a writer, then calls of its methods; answer each with its result and, if it failed, why."""
    with suppress(EOFError, OSError):  # The driver has ended.
        writer = pipe.recv()
        while True:
            name, given, plugins = pipe.recv()
            answer, problem = None, None
            try:
                active.know(plugins)
                active.activate([plugin.digest for plugin in plugins])
                answer = getattr(writer, name)(*given)
            except TrackingError as error:
                problem = str(error)
            except Exception as error:
                # A bug of ours or of MLflow's, for the driver to report.
                problem = f"MLflow: {error!r}"
            pipe.send((answer, problem))


def _end_with(driver: int) -> None:
    """Let Linux kill this process when its driver ends, also within a call; elsewhere it ends after that."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != driver:
        os._exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the driver ends this one.
    gc.set_threshold(NEW_OBJECTS)
    channel, parent, *sys.argv = sys.argv[1:]
    _end_with(int(parent))
    os.nice(NICENESS)
    with suppress(Exception), one_line(""):  # What is wrong with MLflow is reported by the first call.
        import mlflow.tracking  # noqa: F401
    serve(Connection(int(channel)))
    # Nothing is left to do: what was answered is written.
    os._exit(0)
