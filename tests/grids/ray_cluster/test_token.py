"""Ray's token is for its user alone."""

import os
from concurrent.futures import ThreadPoolExecutor
from stat import S_IMODE
from unittest.mock import Mock

import grpc
import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.data.datasets import default_data_dir
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.ray_cluster.token import check_accepted, make_private, send_token


@pytest.fixture
def token(tmp_path, monkeypatch):
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / ".ray" / "auth_token"


def test_new_token_is_for_its_user_alone(token):
    make_private(create=True)
    assert S_IMODE(token.stat().st_mode) == 0o600
    assert len(bytes.fromhex(token.read_text())) == 32


def test_token_that_others_can_read_becomes_private(token):
    token.parent.mkdir()
    token.write_text("abc")
    token.chmod(0o644)
    make_private(create=False)
    assert (S_IMODE(token.stat().st_mode), token.read_text()) == (0o600, "abc")


@pytest.mark.parametrize(
    ("name", "value"), [("RAY_AUTH_MODE", "disabled"), ("RAY_AUTH_TOKEN", "abc"), ("NOTHING", "x")]
)
def test_no_token_is_created_where_none_is_used(token, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    make_private(create=name != "NOTHING")
    assert not token.exists()


def test_home_that_cannot_be_written_is_one_line(token, tmp_path):
    token.parent.write_text("a file in the place of the folder")
    with pytest.raises(ConfigError, match=r"auth_token cannot be written: .*; set HOME to a folder of yours"):
        make_private(create=True)


@pytest.mark.parametrize(
    "folder", [default_data_dir, lambda: Storage.of("memory://x").root], ids=["data", "uri"]
)
def test_user_without_a_home_is_one_line(token, monkeypatch, folder):
    for name in ("FEDGRID_DATA", "XDG_CACHE_HOME", "FEDGRID_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(ConfigError, match="there is no home folder for .*; set HOME"):
        folder()


class Cluster(grpc.GenericRpcHandler):
    """A control service that takes one token, as Ray's does."""

    def service(self, details):
        accepted = ("authorization", "Bearer right") in details.invocation_metadata

        def answer(request, context):
            if not accepted:
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "InvalidAuthToken")
            return b""

        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    server = grpc.server(ThreadPoolExecutor(1), handlers=[Cluster()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def test_the_right_token_is_accepted(cluster, monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    (tmp_path / "token").write_text("right\n")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    check_accepted(cluster)


def test_another_token_is_refused_in_one_line_that_names_the_file_and_not_the_token(
    cluster, monkeypatch, tmp_path
):
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    (tmp_path / "token").write_text("wrong12345")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    with pytest.raises(ConfigError, match="wants another token than") as refused:
        check_accepted(cluster)
    assert cluster in str(refused.value)
    assert str(tmp_path / "token") in str(refused.value)
    assert "wrong12345" not in str(refused.value)


def test_a_missing_token_is_named(cluster, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="wants a token, and none was sent"):
        check_accepted(cluster)


@pytest.mark.parametrize("address", ["local", "auto", "ray://head:10001"])
def test_other_addresses_are_left_to_ray(address):
    check_accepted(address)


def test_silent_cluster_is_one_line_that_ends_no_other_cluster():
    with pytest.raises(ConfigError, match=r"127.0.0.1:9 does not answer; RAY_ADDRESS=local .*--in-process"):
        check_accepted("127.0.0.1:9")


@pytest.mark.parametrize(
    ("mode", "written", "then"),
    [(None, "right", "token"), (None, None, None), ("disabled", "right", "disabled")],
)
def test_ray_sends_the_token_that_the_check_has_sent(token, monkeypatch, mode, written, then):
    """`ray start` wants a token once there is one; `ray.init` at an address does not send it by itself."""
    monkeypatch.setattr("ray._raylet.Config", Mock())
    if mode:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
    if written:
        token.parent.mkdir()
        token.write_text(written)
    send_token()
    assert os.environ.get("RAY_AUTH_MODE") == then
