"""The ssh tunnel to a cluster's head."""

import sys
from pathlib import Path

import pytest

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


def test_tunnel_runs_ray_dashboard() -> None:
    assert tunnel.build_tunnel_command(Path("cluster.yaml"), 4000) == [
        str(Path(sys.executable).with_name("ray")),
        *("dashboard", "cluster.yaml", "--port", "4000", "--remote-port", "8265"),
    ]


def test_tunnel_gives_the_address_that_ssh_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program instead of `ray dashboard`, which listens on the port that it is given."""
    program = LISTENS.replace('("127.0.0.1", 0)', '("127.0.0.1", int(sys.argv[1]))')
    monkeypatch.setattr(
        tunnel, "build_tunnel_command", lambda cluster, port: [sys.executable, "-c", program, str(port)]
    )
    with tunnel.open_tunnel(tmp_path) as address:
        assert address.startswith("http://127.0.0.1:")
