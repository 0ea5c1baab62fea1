"""Workers of Ray that are forks of one process, which has imported what takes each of them seconds.

    python -m tests.helpers.forked_workers SOCKET  # the process that is forked, until its input ends
    python forked_workers.py WORKER OPTIONS...     # in the place of Ray's setup_worker.py: requests a fork

Workers that start as a user's do: tests/chaos/test_kills.py and tests/cluster.
"""

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from unittest.mock import patch

IMPORTED = (
    "fedgrid.engine.federation.clients.worker",
    "fedgrid.engine.runtime.run.session",
    "fedgrid.grids.execution.server_trainable",
    "sklearn.cluster",
    "sklearn.metrics",
)
SOCKET = "TEST_FORKED_WORKERS"
"""Name of the variable with the socket at which a fork is requested."""
MAX_MESSAGE_BYTES = 1 << 20
"""Bytes of a request at most."""


@contextmanager
def forked_workers() -> Iterator[None]:
    """Let a cluster that `ray.init` starts in the block fork its workers, to the end of the block."""
    from ray._private import ray_constants

    with TemporaryDirectory(prefix="fork-") as folder:
        place = f"{folder}/socket"
        command = [sys.executable, "-m", "tests.helpers.forked_workers", place]
        # Of a session of its own, so that Ctrl-C is for the tests alone.
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        ) as template:
            assert template.stdout is not None
            template.stdout.read(1)
            with (
                patch.dict(os.environ, {SOCKET: place}),
                # Ray joins it to the path of its own folder.
                patch.object(ray_constants, "SETUP_WORKER_FILENAME", __file__),
            ):
                yield


def serve_forks(place: str) -> None:
    """Fork a worker for each message at the socket, until the standard input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(place)
        listening.listen()
        print(flush=True)
        while sys.stdin not in select([listening, sys.stdin], [], [])[0]:
            connection, _ = listening.accept()
            text, streams, *_ = socket.recv_fds(connection, MAX_MESSAGE_BYTES, 3)
            arguments, environment, folder = json.loads(text)
            # Once imported, Ray knows its job, which the environment of all workers names.
            os.environ.update(environment)
            for module in IMPORTED:
                import_module(module)
            if os.fork() == 0:
                run_worker(arguments, environment, folder, streams)
            for stream in streams:
                os.close(stream)
            connection.close()


def run_worker(arguments: list[str], environment: dict[str, str], folder: str, streams: list[int]) -> None:
    """Run a worker's program in this fork, as if it had been started with these.

    Args:
        arguments: of the command line.
        environment: its variables.
        folder: to work in.
        streams: file descriptors of its standard input, output and error.
    """
    # When a worker has died, Ray kills its group.
    os.setpgrp()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")
    sys.exit()


def request_fork() -> None:
    """Request a fork with this process's folder and streams, and with what Ray gives it."""
    given = ArgumentParser(allow_abbrev=False)
    given.add_argument("--serialized-runtime-env-context", type=json.loads, default={}, dest="context")
    given.add_argument("--language")
    own, arguments = given.parse_known_args()
    environment = {**os.environ, **own.context.get("env_vars", {})}
    text = json.dumps([arguments, environment, os.getcwd()])
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(os.environ[SOCKET])
        socket.send_fds(connection, [text.encode()], [0, 1, 2])


if __name__ == "__main__":
    if Path(sys.argv[1]).suffix == ".py":
        request_fork()
    else:
        serve_forks(sys.argv[1])
