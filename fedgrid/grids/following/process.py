"""A process of its own for a tracker: MLflow takes seconds to import, and a plugin's may hang or crash."""

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Event
from typing import Any

from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.runtime.leases.processes import NEW_OBJECTS
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.plugins.plugin import PluginSource
from fedgrid.grids.trackers.errors import TrackerFailed

NICENESS = 5
"""Training comes first."""
PR_SET_PDEATHSIG = 1
"""Linux's number: which signal a process gets when its parent ends."""
STDERR = 2
"""Where a tracker's prints go: the driver's standard output may be JSON."""


class OwnProcess:
    """A process in which a `Teller`'s methods are called. It ends with this one, however that ends."""

    def __init__(self, teller: Any, title: str) -> None:
        """Start the process; `title` names its tracker."""
        self._teller = teller
        self._title = title
        self._stopped = False
        self.ready = Event()
        """Set once it has imported what its tracker needs, or has ended without."""
        self._process: subprocess.Popen[bytes] | None = self._start()

    def call(self, method: str, *given: Any, plugins: Sequence[PluginSource] = ()) -> Any:
        """Call a method of the teller, with the plugins of the run that it is about.

        Raises:
            TrackerFailed: as the method does, or the process died; the next call starts another.
        """
        try:
            if self._process is None and not self._stopped:
                self.ready.clear()
                self._process = self._start()
            if not self.ready.is_set():
                self._pipe.recv()
                self.ready.set()
            self._pipe.send((method, given, plugins))
            answer, problem = self._pipe.recv()
        except (EOFError, OSError) as error:
            self._end()
            self.ready.set()
            raise TrackerFailed(f"{self._title}: its process died in '{method}'") from error
        if problem is not None:
            raise TrackerFailed(problem)
        return answer

    def close(self) -> None:
        """End the process, at once if a tracker keeps it waiting; no call starts another."""
        self._stopped = True
        self._end()

    def _start(self) -> "subprocess.Popen[bytes]":
        self._pipe, theirs = Pipe()
        # As this process finds its modules, and none of those that lie in the working folder.
        command = [sys.executable, "-P", "-m", __name__, str(theirs.fileno()), str(os.getpid()), *sys.argv]
        path = {"PYTHONPATH": os.pathsep.join(sys.path)}
        with theirs:
            process = subprocess.Popen(
                command,
                env={**os.environ, **path},
                stdin=subprocess.DEVNULL,
                stdout=STDERR,
                pass_fds=[theirs.fileno()],
            )
        with suppress(OSError):  # It has died: the next call says so.
            self._pipe.send(self._teller)
        return process

    def _end(self) -> None:
        # The thread that calls and the one that stops may both end it.
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


def serve(pipe: Connection) -> None:
    """Receive a teller, say when it is ready, then answer calls: with its result and, if it failed, why."""
    with suppress(EOFError, OSError):  # The driver has ended.
        teller = pipe.recv()
        teller.prepare()
        pipe.send(None)
        while True:
            method, given, plugins = pipe.recv()
            answer, problem = None, None
            try:
                active.know(plugins)
                active.activate([plugin.digest for plugin in plugins])
                answer = getattr(teller, method)(*given)
            except FedgridError as error:
                problem = str(error)
            except Exception as error:
                # Also a bug: the driver says it, and training goes on.
                problem = repr(error)
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
    serve(Connection(int(channel)))
    # Nothing is left to do: what was answered is stored.
    sys.stdout.flush()
    os._exit(0)
