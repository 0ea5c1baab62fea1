"""The port of `fedgrid ui` serves the user who started it, and root, and no pages of other sites."""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from fedgrid.grids.trackers.mlflow import own_user, ui

OTHER = 12345
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
ROW = "   0: {client} {server} {state} 00000000:00000000 00:00000000 00000000 {user} 0 {inode} 1 0 20 0\n"
CLIENT, SERVER = "0100007F:CC88", "0100007F:1691"
"""127.0.0.1:52360 and 127.0.0.1:5777."""
SIX = "0000000000000000FFFF0000"
HEADS = "GET {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n{}\r\n"

tells_users_apart = pytest.mark.skipif(
    not own_user.TABLES[0].exists(), reason="the system does not tell users apart"
)


def user_of(monkeypatch, tmp_path, four="", six=""):
    for name, rows in {"tcp": four, "tcp6": six}.items():
        (tmp_path / name).write_text(HEAD + rows)
    monkeypatch.setattr(own_user, "TABLES", (tmp_path / "tcp", tmp_path / "tcp6"))
    return own_user.user_of(("127.0.0.1", 52360), ("127.0.0.1", 5777))


def row(client=CLIENT, server=SERVER, state="01", user=OTHER, inode=706596):
    return ROW.format(client=client, server=server, state=state, user=user, inode=inode)


@tells_users_apart
def test_user_of_a_connection_is_that_of_the_client_s_end(monkeypatch, tmp_path):
    rows = row(client=SERVER, server=CLIENT, user=1) + row(client="0100007F:CC89", user=2) + row()
    assert user_of(monkeypatch, tmp_path, rows) == OTHER
    assert user_of(monkeypatch, tmp_path, "", row(client=SIX + CLIENT, server=SIX + SERVER)) == OTHER


@tells_users_apart
@pytest.mark.parametrize("rows", ["", row(user=0, inode=0), row(user=0, state="06", inode=0)])
def test_connection_that_its_process_has_closed_is_nobody_s(monkeypatch, tmp_path, rows):
    """The system calls root its user: another one could send a request and close at once."""
    assert user_of(monkeypatch, tmp_path, rows) is None


@tells_users_apart
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_own_connection_is_this_user_s(family):
    with socket.socket() as listener, socket.socket(family) as client:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        host = "127.0.0.1" if family == socket.AF_INET else "::ffff:127.0.0.1"
        try:
            client.connect((host, listener.getsockname()[1]))
        except OSError:
            pytest.skip("no IPv6")
        accepted, address = listener.accept()
        with accepted:
            assert own_user.user_of(address, accepted.getsockname()) == os.getuid()
            client.close()
            assert own_user.user_of(address, accepted.getsockname()) is None


class Behind:
    """A server on a Unix socket, which answers each connection with what it was sent until its end."""

    def __init__(self, at: Path) -> None:
        self.asked: list[bytes] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(at))
        self._listener.listen()
        Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rb") as lines:
                self.asked.append(lines.read())
                connection.sendall(b"answer to " + self.asked[-1])


@pytest.fixture
def behind(tmp_path: Path) -> Behind:
    return Behind(tmp_path / "mlflow")


@pytest.fixture
def port(tmp_path: Path, behind: Behind) -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        with own_user.pass_on(listener, tmp_path / "mlflow", {"/grid/mine": "our page"}):
            yield int(listener.getsockname()[1])


def ask(port: int, question: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client, client.makefile("rb") as answer:
        client.sendall(question)
        client.shutdown(socket.SHUT_WR)
        return answer.read()


def request(port: int, *fields: str, path: str = "/", host: str | None = None) -> bytes:
    """Return the head of a request with further header fields."""
    lines = "".join(f"{field}\r\n" for field in fields)
    head = HEADS.format(path, port, lines)
    return (head if host is None else head.replace(f"127.0.0.1:{port}", host)).encode()


def test_own_requests_are_passed_on(port, behind):
    body = b"x" * 1_000_000
    assert ask(port, request(port, "Content-Length: 1000000") + body).endswith(body)
    assert ask(port, request(port, host=f"LOCALHOST:{port}")).startswith(b"answer to GET ")
    assert ask(port, request(port, f"Origin: http://127.0.0.1:{port}")).startswith(b"answer to GET ")
    assert len(behind.asked) == 3


def test_pages_of_ours_are_served_beside_those_of_mlflow(port, behind):
    assert ask(port, request(port, path="/grid/mine")).endswith(b"\r\n\r\nour page\n")
    assert behind.asked == []


@pytest.mark.parametrize(
    "host", ["10.evil.com", "10.evil.com:{}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil.com:{}", ""]
)
@pytest.mark.parametrize(
    "path", ["/api/2.0/mlflow/experiments/search?max_results=3", "/graphql", "/health", "/grid/mine"]
)
def test_other_hosts_are_refused(port, behind, host, path):
    answer = ask(port, request(port, path=path, host=host.format(port)))
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert f"open http://127.0.0.1:{port} itself".encode() in answer
    assert behind.asked == []


@pytest.mark.parametrize(
    "origin", ["https://evil.com", "null", "http://127.0.0.1:1", "https://127.0.0.1:{}", ""]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_other_origins_are_refused(port, behind, origin, method):
    question = request(port, f"origin: {origin.format(port)}", path="/graphql").replace(
        b"GET", method.encode()
    )
    assert ask(port, question).startswith(b"HTTP/1.1 403 ")
    assert behind.asked == []


@pytest.mark.parametrize(
    "head",
    [
        b"a",
        b"GET / HTTP/1.1\r\n\r\n",
        HEADS.format("/", "{0}", "Host: evil.com\r\n").encode(),
        HEADS.format("/", "{0}", "a: b\nHost: evil.com\r\n").encode(),
        HEADS.format("/", "{0}", " Host: evil.com\r\n").encode(),
        HEADS.format("/", "{0}", f"a: {'x' * own_user.LONGEST_HEAD}\r\n").encode(),
    ],
    ids=["no HTTP", "no host", "two hosts", "bare line feed", "folded line", "too long"],
)
def test_unclear_requests_are_refused(port, behind, head):
    assert ask(port, head.replace(b"{0}", str(port).encode())).startswith(b"HTTP/1.1 403 ")
    assert behind.asked == []


def test_second_request_of_a_connection_is_not_served(port, behind):
    """MLflow closes the connection after the first: the second has not been checked."""
    ask(port, request(port, "Connection: keep-alive", "Upgrade: websocket"))
    assert b"\r\nConnection: close\r\n" in behind.asked[0]
    assert b"keep-alive" not in behind.asked[0]
    assert b"Upgrade" not in behind.asked[0]


@tells_users_apart
def test_another_user_is_refused(port, behind, monkeypatch):
    monkeypatch.setattr(own_user, "user_of", lambda *_: OTHER)
    assert b"another user" in ask(port, request(port))
    monkeypatch.setattr(own_user, "user_of", lambda *_: 0)
    assert ask(port, request(port, "a: root's")).startswith(b"answer to GET ")
    assert len(behind.asked) == 1


def test_request_before_the_server_is_there_is_answered(tmp_path):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        with own_user.pass_on(listener, tmp_path / "missing", {}):
            number = listener.getsockname()[1]
            assert ask(number, request(number)).startswith(b"HTTP/1.1 503 ")


def test_server_listens_where_only_its_user_may_enter(tmp_path, monkeypatch):
    """Not at the port, where all users of the machine reach it."""
    seen = []

    def command(uri: str, artifacts: Path, port: int, at: Path) -> list[str]:
        seen.append(at)
        return [sys.executable, "-c", ""]

    monkeypatch.setattr(ui, "command", command)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    with ui.started("sqlite:////unused", tmp_path, free):
        folder = seen[0].parent
        assert folder.stat().st_mode & 0o777 == 0o700
        assert len(str(seen[0])) < 108
        assert ask(free, request(free)).startswith(b"HTTP/1.1 503 ")
    assert not folder.exists()


def test_long_temporary_folder_leaves_room_for_the_socket(tmp_path, monkeypatch):
    monkeypatch.setattr(ui, "gettempdir", lambda: "/" + "x" * 90)
    assert ui._short() == "/tmp"
