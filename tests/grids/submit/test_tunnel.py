"""The token and the code go only to the head at the other end of our own ssh."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.submit import tunnel

LISTENS = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        with server.accept()[0] as connection:
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")
"""


@pytest.fixture
def stranger() -> Iterator[tuple[int, int]]:
    """A process in a group of its own that answers any request; its port and its id."""
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENS], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    yield int(process.stdout.readline()), process.pid
    process.kill()
    process.communicate()


def test_port_belongs_to_the_group_of_the_process_that_listens(stranger: tuple[int, int]) -> None:
    port, pid = stranger
    assert tunnel.is_held_by(port, pid)
    assert not tunnel.is_held_by(port, os.getpgid(0))


def test_port_of_all_addresses_counts_where_nothing_else_listens() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        assert tunnel.is_held_by(port, os.getpgid(0))
        assert not tunnel.is_held_by(port, -1)


def test_port_that_nobody_holds_is_not_ours() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert not tunnel.is_held_by(free.getsockname()[1], os.getpgid(0))


@pytest.mark.parametrize("ssh", [["sleep", "60"], ["true"]], ids=["ssh still tries", "ssh has ended"])
def test_tunnel_does_not_take_another_program_for_the_head(
    stranger: tuple[int, int], ssh: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, _ = stranger
    monkeypatch.setattr(tunnel, "_free_port", lambda: port)
    monkeypatch.setattr(tunnel, "command", lambda cluster, port: ssh)
    with pytest.raises(ConfigError, match="belongs to another program"), tunnel.to_head(tmp_path):
        raise AssertionError("it was taken for the head")


def test_tunnel_gives_the_address_that_ssh_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program instead of `ray dashboard`, which listens on the port that it is given."""
    program = LISTENS.replace('("127.0.0.1", 0)', '("127.0.0.1", int(sys.argv[1]))')
    monkeypatch.setattr(tunnel, "command", lambda cluster, port: [sys.executable, "-c", program, str(port)])
    with tunnel.to_head(tmp_path) as address:
        assert address.startswith("http://127.0.0.1:")
