"""A child process for a tracker, as MLflow takes seconds to import, and a plugin's tracker may hang or crash.

The driver writes two lines of JSON to the process: what to follow, and at last how the launch has ended. The
process answers in lines of JSON with messages to the driver. Each pipe ends with the process at its other
end, so that neither outlives the other.
"""

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.leases.processes import NEW_OBJECTS
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.plugins.plugin import PluginSource
from fedgrid.grids.following.follow import FollowedLaunch, Follower
from fedgrid.grids.following.registry import BUILT_IN
from fedgrid.grids.following.session import LaunchEnd

NICENESS = 5
"""Priority of the process: training comes first."""
STDERR = 2
"""File descriptor for what a tracker prints, as the driver's standard output may be JSON."""


class TrackerProcess:
    """The child process of one tracker, seen from the driver. It ends with the driver, however that ends."""

    def __init__(self, tracker: str) -> None:
        """Start the process, which begins to import what its tracker needs."""
        # The child finds its modules where this process does. `-P` keeps the working folder out: a user's
        # file named like a module of the standard library would be imported.
        command = [sys.executable, "-P", "-m", __name__, tracker, *sys.argv]
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send_launch(
        self, launch: FollowedLaunch, plugins: Sequence[PluginSource], tracker_digests: Sequence[str]
    ) -> None:
        """Send what to follow.

        Args:
            launch: The launch.
            plugins: Plugins of the runs and of the tracker, with their code.
            tracker_digests: Digests of the plugins of the tracker.
        """
        code = [[one.name, one.digest, one.code and one.code.decode()] for one in plugins]
        self._send_line({"launch": launch.as_json(), "plugins": code, "of_tracker": list(tracker_digests)})

    def send_end(self, end: LaunchEnd) -> None:
        """Send how the launch has ended."""
        self._send_line({"status": end.status, "files": [*map(str, end.files)], "counts": dict(end.counts)})

    def read_messages(self) -> Iterator[tuple[str, str]]:
        """Yield messages of the process by kind and text, until it ends."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            kind, text = json.loads(line)
            yield kind, text
        self._process.wait()

    def kill(self) -> None:
        """Kill the process, and wait for its end so that no zombie stays."""
        self._process.kill()
        self._process.wait()

    def _send_line(self, value: object) -> None:
        """Write one line of JSON to the process."""
        assert self._process.stdin is not None
        # A broken pipe means that the process has died, which the end of its messages shows too.
        with suppress(OSError):
            self._process.stdin.write(f"{json.dumps(value)}\n")
            self._process.stdin.flush()


def main(tracker: str, orders: IO[str], answers: IO[str]) -> None:
    """Follow what the driver sends for one tracker, until the launch has ended.

    Args:
        tracker: Name of the tracker.
        orders: Lines from the driver.
        answers: Stream for messages to the driver.
    """
    lines: SimpleQueue[str] = SimpleQueue()

    def read_orders() -> None:
        """Pass lines of the driver on, and end this process with the driver."""
        for line in orders:
            lines.put(line)
        # A daemon thread cannot end the process by an exception, and the main thread may hang in a request.
        os._exit(0)  # The driver has ended, whatever this process is waiting for.

    def send_message(kind: str, text: str) -> None:
        """Write a message to the driver."""
        print(json.dumps([kind, text]), file=answers, flush=True)

    def wait_for_end(seconds: float) -> LaunchEnd | None:
        """Wait for the end of the launch."""
        with suppress(Empty):
            end = json.loads(lines.get(timeout=seconds))
            return LaunchEnd(end["status"], [*map(Path, end["files"])], end["counts"])
        return None

    def activate_plugins(config: RunConfig) -> None:
        """Put the plugins of a run into use."""
        active.activate_plugins(config.plugin_digests)

    Thread(target=read_orders, daemon=True).start()
    # Imported objects stay: collecting garbage among them again and again takes a second.
    gc.disable()
    # An import that fails is reported when the tracker is made, where errors have a message and a retry.
    with suppress(Exception):
        if tracker in BUILT_IN:
            BUILT_IN[tracker].prepare()
        import sklearn.metrics  # noqa: F401  # For scores of partitions.
    gc.freeze()
    gc.enable()
    # The driver waits longer for a process that has not started than for one that is silent later.
    send_message("ready", "")
    # The driver sends this once the launch is planned. Until then the imports above run while Ray starts.
    order = json.loads(lines.get())
    active.register_sources(
        PluginSource(name, digest, code and code.encode()) for name, digest, code in order["plugins"]
    )
    # The plugin of the tracker itself must be in use before `Follower` looks the tracker up by name.
    active.activate_plugins(order["of_tracker"])
    Follower(FollowedLaunch.from_json(order["launch"]), send_message, activate_plugins).follow_launch(
        wait_for_end
    )
    send_message("done", "")


if __name__ == "__main__":
    # Ctrl-C reaches all processes of the terminal. The driver handles it, and then sends the end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(NEW_OBJECTS)
    os.nice(NICENESS)
    # Messages get a copy of standard output, and standard output becomes standard error: a library that
    # prints would otherwise break the lines of JSON.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as channel:
        os.dup2(STDERR, sys.stdout.fileno())
        name, *sys.argv = sys.argv[1:]
        main(name, sys.stdin, channel)
    # All is stored. Without the interpreter's clean-up, threads of a library cannot hold the process back.
    sys.stdout.flush()
    os._exit(0)
