"""Open an ssh tunnel to the head of a cluster of `ray up`, whose job server listens on loopback only."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryFile
from time import monotonic, sleep
from typing import IO
from urllib.error import URLError
from urllib.request import urlopen

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.presets.yaml_file import read_yaml

JOB_SERVER_PORT = 8265
CONNECT_SECONDS = 60
"""Seconds that ssh and the head may take to answer."""


def check_cluster_file(path: Path) -> None:
    """Check that `path` describes a cluster; `ray up` has checked the details.

    Raises:
        ConfigError: if it cannot be read, or has no provider.
    """
    try:
        config = read_yaml(path).values
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; name the file that ray up took") from error
    if not isinstance(config.get("provider"), dict):
        raise ConfigError(f"{path} describes no cluster for ray up: it has no provider:")


def build_tunnel_command(cluster: Path, port: int) -> list[str]:
    """Build the command that forwards this machine's loopback `port` to the head's job server."""
    ray = Path(sys.executable).with_name("ray")
    remote = str(JOB_SERVER_PORT)
    return [str(ray), "dashboard", str(cluster), "--port", str(port), "--remote-port", remote]


@contextmanager
def open_tunnel(cluster: Path) -> Iterator[str]:
    """Forward a free port of this machine's loopback to the head's job server, within the block.

    Yields:
        The forwarded address.

    Raises:
        ConfigError: if the cluster is not up, or its head does not answer; nothing was started.
    """
    port = _find_free_port()
    # A file, not a pipe: a pipe that is not read fills up, and ssh blocks.
    with TemporaryFile() as output:
        # In a session of its own: Ctrl-C reaches fedgrid only, and the group is killed with its ssh.
        process = subprocess.Popen(
            build_tunnel_command(cluster, port),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait_for_answer(process, port, cluster, output)
            yield _format_address(port)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def is_silent(address: str) -> bool:
    """Check whether something accepts connections at an address, and does not answer within a minute."""
    try:
        with urlopen(address, timeout=CONNECT_SECONDS):
            return False
    except (OSError, HTTPException, ValueError) as error:
        # An address that cannot be reached, or that refuses us, is not silent.
        return isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError)


def _format_address(port: int) -> str:
    """Format the forwarded address."""
    return f"http://127.0.0.1:{port}"


def _find_free_port() -> int:
    """Find a free port; another process may take it before ssh does, and ssh then fails with that cause."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for_answer(process: "subprocess.Popen[bytes]", port: int, cluster: Path, output: IO[bytes]) -> None:
    """Wait until the job server answers through the tunnel."""
    deadline = monotonic() + CONNECT_SECONDS
    while not _is_answering(_format_address(port)):
        if process.poll() is not None or monotonic() > deadline:
            break
        sleep(0.2)
    else:
        if process.poll() is None:
            return
    raise ConfigError(
        f"no connection to the head of {cluster}: {_read_cause(output)}; is it up? ray up {cluster}"
    )


def _is_answering(address: str) -> bool:
    """Check whether an HTTP server answers, with any status."""
    try:
        with urlopen(address, timeout=5):
            return True
    except URLError as error:
        # Any HTTP answer shows that the tunnel works, even "unauthorized".
        return hasattr(error, "code")
    except OSError:
        return False


def _read_cause(output: IO[bytes]) -> str:
    """Read the last line that Ray or ssh printed."""
    output.seek(0)
    lines = [line.strip() for line in output.read().decode(errors="replace").splitlines()]
    printed = [line for line in lines if line and not line.startswith("Attempting to establish")]
    return printed[-1] if printed else f"no answer within {CONNECT_SECONDS} s"
