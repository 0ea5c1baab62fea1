"""A process of its own for a tracker: MLflow takes seconds to import, and a plugin's may hang or crash.

The driver writes two lines of JSON to it: what to follow, and at last how the launch has ended. It answers in
lines of JSON what the driver is to hear.
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
from fedgrid.grids.following.session import End

NICENESS = 5
"""Training comes first."""
STDERR = 2
"""Where a tracker's prints go: the driver's standard output may be JSON."""


class TrackerProcess:
    """The process of one tracker, as its driver has it. It ends with the driver, however that ends."""

    def __init__(self, tracker: str) -> None:
        """Start it; it imports what its tracker needs."""
        # As this process finds its modules, and none of those that lie in the working folder.
        command = [sys.executable, "-P", "-m", __name__, tracker, *sys.argv]
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def follow(
        self, launch: FollowedLaunch, plugins: Sequence[PluginSource], of_tracker: Sequence[str]
    ) -> None:
        """Tell it what to follow, with the plugins of runs and tracker; the latter's digests."""
        code = [[one.name, one.digest, one.code and one.code.decode()] for one in plugins]
        self._send({"launch": launch.as_json(), "plugins": code, "of_tracker": list(of_tracker)})

    def end(self, end: End) -> None:
        """Tell it that the launch has ended."""
        self._send({"status": end.status, "files": [*map(str, end.files)], "counts": dict(end.counts)})

    def messages(self) -> Iterator[tuple[str, str]]:
        """Yield what it says, until it ends."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            kind, text = json.loads(line)
            yield kind, text
        self._process.wait()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()

    def _send(self, value: object) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # It has died: its messages end.
            self._process.stdin.write(f"{json.dumps(value)}\n")
            self._process.stdin.flush()


def main(tracker: str, orders: IO[str], answers: IO[str]) -> None:
    """Follow what the driver orders for one tracker, until the launch has ended."""
    lines: SimpleQueue[str] = SimpleQueue()

    def listen() -> None:
        for line in orders:
            lines.put(line)
        os._exit(0)  # The driver has ended, whatever this process is waiting for.

    def say(kind: str, text: str) -> None:
        print(json.dumps([kind, text]), file=answers, flush=True)

    def wait(seconds: float) -> End | None:
        with suppress(Empty):
            end = json.loads(lines.get(timeout=seconds))
            return End(end["status"], [*map(Path, end["files"])], end["counts"])
        return None

    def activate(config: RunConfig) -> None:
        active.activate(config.plugin_digests)

    Thread(target=listen, daemon=True).start()
    gc.disable()  # What is imported stays: to look through it for garbage again and again takes a second.
    with suppress(Exception):  # What is wrong, making the tracker says.
        if tracker in BUILT_IN:
            BUILT_IN[tracker].prepare()
        import sklearn.metrics  # noqa: F401  # For scores of partitions.
    gc.freeze()
    gc.enable()
    say("ready", "")
    order = json.loads(lines.get())
    active.know(PluginSource(name, digest, code and code.encode()) for name, digest, code in order["plugins"])
    active.activate(order["of_tracker"])
    Follower(FollowedLaunch.from_json(order["launch"]), say, activate).run(wait)
    say("done", "")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the driver ends this one.
    gc.set_threshold(NEW_OBJECTS)
    os.nice(NICENESS)
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as channel:
        os.dup2(STDERR, sys.stdout.fileno())
        name, *sys.argv = sys.argv[1:]
        main(name, sys.stdin, channel)
    # Nothing is left to do: what was said is stored.
    sys.stdout.flush()
    os._exit(0)
